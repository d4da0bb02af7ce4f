// The explorer: the committed cells, filtered, sorted, drawn by Vega-Lite and handed out as CSV. Nothing is requested.
(() => {
  const form = document.getElementById("cells-form");
  if (!form || !window.dpgnnCells) return;

  const names = Object.keys(window.dpgnnCells);
  const rows = window.dpgnnCells.dataset.values.map((_, i) => Object.fromEntries(names.map((name) => {
    const { words, values } = window.dpgnnCells[name];
    return [name, words ? words[values[i]] : values[i]];
  })));
  const NONE = "(without privacy)";
  const all = "all";
  const number = (text) => (text === "inf" ? Infinity : Number(text));
  const percent = (value) => (value === null ? "–" : (100 * value).toFixed(1));
  const show = { text: (v) => v || "–", yes: (v) => (v === "true" ? "yes" : "no"), percent, epsilon: (v) => (v === "inf" ? "none" : v), integer: (v) => (v ?? "–").toLocaleString("en") };
  const columns = [
    ["label", "method", "text"], ["dataset", "graph", "text"], ["epsilon", "ε", "epsilon"], ["mean", "mean %", "percent"],
    ["low", "low", "percent"], ["high", "high", "percent"], ["n", "n", "integer"], ["majority", "majority %", "percent"],
    ["unit", "protects", "text"], ["relation", "neighbours", "text"], ["answers", "answers", "text"], ["status", "claim", "text"],
    ["reads_edges", "reads edges", "yes"], ["setting", "setting", "text"], ["nodes", "nodes", "integer"], ["edges", "edges", "integer"],
  ];
  const start = { study: "headtohead", unit: "node-record", relation: all, answers: "own-record", status: "proved" };
  let order = { column: "mean", down: true };
  let limit = 30;

  const distinct = (name, among = rows) => [...new Set(among.map((row) => row[name]))];
  function fill(name, words, chosen) {
    const select = form.elements[name];
    select.replaceChildren(...words.map((word) => new Option(word || NONE, word, word === chosen, word === chosen)));
  }
  function boxes(name, words, checked) {
    const place = form.querySelector(`[data-name="${name}"]`);
    place.replaceChildren(...words.map((word) => {
      const label = document.createElement("label");
      const box = Object.assign(document.createElement("input"), { type: "checkbox", name, value: word, checked: checked(word), defaultChecked: checked(word) });
      label.append(box, ` ${word === "inf" ? "none" : word}`);
      return label;
    }));
  }
  function setUp() {
    fill("study", distinct("study"), start.study);
    for (const name of ["unit", "relation", "answers", "status"]) fill(name, [all, ...distinct(name)], start[name]);
    ofStudy();
  }
  function ofStudy() {
    const here = rows.filter((row) => row.study === form.elements.study.value);
    const graphs = distinct("dataset", here);
    const real = graphs.filter((name) => !name.startsWith("synthetic-"));
    const largest = [...(real.length ? real : graphs)].slice(-4);
    boxes("epsilon", distinct("epsilon", here).sort((a, b) => number(a) - number(b)), (word) => ["1", "4", "8"].includes(word));
    boxes("dataset", graphs, (word) => largest.includes(word));
  }
  const checked = (name) => new Set([...form.querySelectorAll(`input[name="${name}"]:checked`)].map((box) => box.value));

  function chosen() {
    const words = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const [budgets, graphs] = [checked("epsilon"), checked("dataset")];
    const found = rows.filter((row) => row.study === form.elements.study.value && budgets.has(row.epsilon) && graphs.has(row.dataset) &&
      ["unit", "relation", "answers", "status"].every((name) => form.elements[name].value === all || form.elements[name].value === row[name]) &&
      words.every((word) => row.label.toLowerCase().includes(word)));
    const kind = columns.find(([name]) => name === order.column)[2];
    const value = (row) => (kind === "epsilon" ? number(row.epsilon) : row[order.column]);
    return found.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === null || y === null) return (x === null) - (y === null);
      const side = kind === "text" || kind === "yes" ? x.localeCompare(y, "en", { numeric: true }) : x === y ? 0 : x < y ? -1 : 1;
      return order.down ? -side : side;
    });
  }

  function table(found) {
    const head = columns.map(([name, title, kind]) => {
      const cell = document.createElement("th");
      cell.scope = "col";
      if (order.column === name) cell.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: title });
      button.addEventListener("click", () => {
        order = { column: name, down: order.column === name ? !order.down : kind !== "text" };
        draw();
        document.querySelector(`#explorer-table th:nth-child(${columns.findIndex((c) => c[0] === name) + 1}) button`).focus();
      });
      cell.append(button);
      return cell;
    });
    const made = document.createElement("table");
    made.className = "table";
    made.createTHead().insertRow().append(...head);
    const body = made.createTBody();
    for (const row of found.slice(0, limit)) {
      const line = body.insertRow();
      for (const [name, title, kind] of columns) {
        const cell = line.insertCell();
        cell.dataset.title = title;
        cell.textContent = show[kind](row[name]);
      }
    }
    document.getElementById("explorer-table").replaceChildren(made);
    const more = document.getElementById("explorer-more");
    more.hidden = found.length <= limit;
    more.textContent = `Show all ${found.length} rows`;
  }

  const SHOWN = 6; // panels; more graphs stand in the table alone
  async function chart(found) {
    const place = document.getElementById("explorer-chart");
    const graphs = distinct("dataset", found).slice(0, SHOWN);
    const values = found.filter((row) => graphs.includes(row.dataset))
      .map((row) => ({ ...row, mean: 100 * row.mean, low: row.low === null ? null : 100 * row.low, high: row.high === null ? null : 100 * row.high, e: row.epsilon === "inf" ? "none" : row.epsilon }));
    if (!values.length) return place.replaceChildren();
    const style = getComputedStyle(document.documentElement);
    const color = (name, other) => style.getPropertyValue(name).trim() || other;
    const [text, rule] = [color("--pst-color-text-base", "#222"), color("--pst-color-border", "#ccc")];
    const dark = document.documentElement.dataset.theme === "dark";
    const width = place.clientWidth || 600;
    const sums = Map.groupBy(values, (row) => row.label);
    const middle = (label) => sums.get(label).reduce((sum, row) => sum + row.mean, 0) / sums.get(label).length;
    const best = [...sums.keys()].sort((a, b) => middle(b) - middle(a));
    const wide = width > 560;
    const across = wide ? Math.min(2, graphs.length) : 1;
    const y = { field: "label", type: "nominal", sort: best, title: null, axis: { labelLimit: wide ? 150 : 110 } };
    const x = { field: "mean", type: "quantitative", scale: { zero: false }, title: "score (%)" };
    const hue = { field: "e", type: "ordinal", title: "ε", sort: distinct("e", values).sort((a, b) => number(a === "none" ? "inf" : a) - number(b === "none" ? "inf" : b)), scale: { range: dark ? ["#7fc8ff", "#ffb070", "#63e0b5", "#f0a8d8", "#ffd75e", "#e6e6e6", "#b0b0b0"] : ["#0072B2", "#D55E00", "#009E73", "#A64D86", "#8a6500", "#333333", "#6b6b6b"] }, legend: { orient: "top" } };
    const spec = {
      $schema: "https://vega.github.io/schema/vega-lite/v6.json",
      data: { values },
      columns: across,
      concat: graphs.map((graph) => ({
        title: { text: graph, fontWeight: "bold", color: text },
        transform: [{ filter: { field: "dataset", equal: graph } }],
        width: Math.max(90, width / across - (wide ? 185 : 150)), height: { step: 18 },
        layer: [
          { mark: { type: "rule", opacity: 0.6, strokeWidth: 2 }, encoding: { x: { field: "low", type: "quantitative", scale: { zero: false }, title: "score (%)" }, x2: { field: "high" }, y, color: hue } },
          { mark: { type: "point", filled: true, size: 45, opacity: 1 }, encoding: { x, y, color: hue, tooltip: [{ field: "label", title: "method" }, { field: "dataset", title: "graph" }, { field: "e", title: "ε" }, { field: "mean", title: "mean %", format: ".1f" }, { field: "n", title: "n" }] } },
        ],
      })),
      config: { background: "transparent", font: "system-ui, sans-serif", axis: { labelColor: text, titleColor: text, gridColor: rule, domainColor: rule, tickColor: rule, titleFontWeight: "normal" }, legend: { labelColor: text, titleColor: text }, view: { stroke: null } },
    };
    await window.vegaEmbed(place, spec, { actions: false, ast: true, renderer: "svg" });
    place.dataset.drawn = String(Number(place.dataset.drawn ?? 0) + 1);
  }

  let current = [];
  function draw() {
    current = chosen();
    form.elements.count.value = `${current.length} of ${rows.length} rows`;
    table(current);
    chart(current).catch((error) => console.error(error));
  }
  const quoted = (value) => (value === null ? "" : /[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
  form.elements.download.addEventListener("click", () => {
    const text = [names, ...current.map((row) => names.map((name) => row[name]))].map((line) => line.map(quoted).join(",")).join("\n");
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(new Blob([`${text}\n`], { type: "text/csv" })), download: "dpgnn-cells.csv" });
    document.body.append(link);
    link.click();
    link.remove();
  });
  form.elements.study.addEventListener("change", ofStudy);
  form.addEventListener("input", () => { limit = 30; draw(); });
  form.addEventListener("reset", (event) => { event.preventDefault(); form.elements.text.value = ""; order = { column: "mean", down: true }; setUp(); draw(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("explorer-more").addEventListener("click", () => { limit = Infinity; draw(); });
  new MutationObserver(() => draw()).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    document.getElementById("explorer-chart").replaceChildren();  // a wide chart would keep its place wide
    draw();
  });
  setUp();
  draw();
})();

// The filter of the page that says which method: what must be protected, the budget, how large the graph is.
(() => {
  const place = document.getElementById("choose");
  if (!place) return;
  const nodes = JSON.parse(place.dataset.nodes);
  const sections = [...document.querySelectorAll(".bd-article section > section")].filter((section) => /^(edge|node|node-record|node-bounded):/.test(section.querySelector("h2")?.textContent ?? ""));
  const sizes = { "any size": () => true, "to 5,000 nodes": (n) => n <= 5000, "5,000 to 15,000 nodes": (n) => n > 5000 && n <= 15000, "over 15,000 nodes": (n) => n > 15000 };
  const pick = (title, words) => {
    const label = document.createElement("label");
    const select = document.createElement("select");
    select.append(...words.map((word) => new Option(word, word)));
    label.append(`${title} `, select);
    place.append(label);
    return select;
  };
  const unitOf = (section) => section.querySelector("h2").textContent.split(":")[0];
  const budgets = [...new Set(sections.flatMap((section) => [...section.querySelectorAll("tbody tr")].map((row) => row.cells[0].textContent)))];
  place.className = "controls";
  place.setAttribute("role", "group");
  place.setAttribute("aria-label", "What is shown");
  const unit = pick("Protect", ["any", ...sections.map(unitOf)]);
  const budget = pick("ε", ["any", ...budgets]);
  const size = pick("Graph", Object.keys(sizes));
  const fits = (name) => sizes[size.value](nodes[name.split(" ")[0]] ?? 0);
  const apply = () => {
    for (const section of sections) {
      section.hidden = unit.value !== "any" && unitOf(section) !== unit.value;
      for (const row of section.querySelectorAll("tbody tr")) row.hidden = budget.value !== "any" && row.cells[0].textContent !== budget.value;
    }
    for (const table of document.querySelectorAll(".bd-article table")) {
      [...table.tHead.rows[0].cells].forEach((head, index) => {
        const hidden = head.textContent.split(" ")[0] in nodes && !fits(head.textContent);
        for (const row of table.rows) row.cells[index].hidden = hidden;
      });
    }
  };
  place.addEventListener("change", apply);
})();
