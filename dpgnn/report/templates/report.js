// Sorting, filtering, details, copying and charts of a report. Nothing is requested from anywhere.

const columnOf = (body, index) => body.rows[0].cells[index];

function sortTable(table, index, descending) {
  const bodies = [...table.tBodies];
  const value = (body) => columnOf(body, index).dataset.sort ?? columnOf(body, index).textContent.trim().toLowerCase();
  const numeric = bodies.every((body) => value(body) === "" || value(body) === "inf" || !Number.isNaN(Number(value(body))));
  const number = (text) => (text === "inf" ? Infinity : Number(text));
  const compare = (a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === "" || y === "") return (x === "") - (y === "");  // what is missing stands last
    const order = numeric ? (number(x) === number(y) ? 0 : number(x) < number(y) ? -1 : 1) : x.localeCompare(y, "en", { numeric: true });
    return descending ? -order : order;
  };
  bodies.sort(compare).forEach((body) => table.append(body));
  filterTable(table);
  [...table.tHead.rows[0].cells].forEach((head, position) => {
    if (position === index) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  });
}

function filterTable(table) {
  const text = document.querySelector(`[data-filter-text="${table.id}"]`);
  const words = (text?.value ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const chosen = [...document.querySelectorAll(`[data-filter-table="${table.id}"]`)].filter((select) => select.value);
  let shown = 0;
  const limit = table.dataset.all ? Infinity : matchMedia("(max-width: 42.5em)").matches ? 5 : 20;  // cards are long on a phone
  for (const body of table.tBodies) {
    const line = body.rows[0].textContent.toLowerCase();
    const fits = words.every((word) => line.includes(word)) &&
      chosen.every((select) => columnOf(body, Number(select.dataset.filterColumn)).dataset.value === select.value);
    body.hidden = !fits;
    shown += fits;
    body.classList.toggle("beyond", fits && shown > limit);
  }
  const all = document.querySelector(`button.all[data-table="${table.id}"]`);
  all.hidden = shown <= limit;
  all.textContent = `Show all ${shown} rows`;
  const status = text?.closest(".tools")?.querySelector(".shown");
  if (status) status.textContent = `${shown} of ${table.tBodies.length} rows`;
}

for (const button of document.querySelectorAll("button.all")) {
  button.addEventListener("click", () => {
    const table = document.getElementById(button.dataset.table);
    table.dataset.all = "yes";
    filterTable(table);
  });
}
for (const table of document.querySelectorAll("table.sortable")) {
  filterTable(table);
  [...table.tHead.rows[0].cells].forEach((head, index) => {
    head.querySelector("button.sort")?.addEventListener("click", () => {
      sortTable(table, index, head.getAttribute("aria-sort") === "ascending");
    });
  });
}
for (const input of document.querySelectorAll("[data-filter-text]")) {
  const table = document.getElementById(input.dataset.filterText);
  input.addEventListener("input", () => filterTable(table));
}
for (const select of document.querySelectorAll("[data-filter-table]")) {
  select.addEventListener("change", () => filterTable(document.getElementById(select.dataset.filterTable)));
}
for (const select of document.querySelectorAll("[data-sort-table]")) {
  const down = document.querySelector(`[data-sort-down="${select.dataset.sortTable}"]`);
  const sort = () => {
    if (select.value !== "") sortTable(document.getElementById(select.dataset.sortTable), Number(select.value), down.checked);
  };
  select.addEventListener("change", sort);
  down.addEventListener("change", sort);
}

for (const button of document.querySelectorAll("button.more")) {
  button.addEventListener("click", () => {
    const open = document.getElementById(button.getAttribute("aria-controls")).classList.toggle("open");
    button.setAttribute("aria-expanded", String(open));
  });
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");  // browsers that give a local file no clipboard
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}
for (const button of document.querySelectorAll("button.copy")) {
  button.addEventListener("click", async () => {
    await copy(button.closest("td").querySelector("pre").textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}

// data is stored by column, texts as positions in a list of words
function expand(part) {
  if (Array.isArray(part)) return part.map(expand);
  if (part === null || typeof part !== "object") return part;
  if (part.compact) {
    const rows = (part.compact[0]?.values ?? []).map(() => ({}));
    for (const { name, words, values } of part.compact) {
      values.forEach((value, index) => { rows[index][name] = words ? words[value] : value; });
    }
    return { values: rows };
  }
  return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, expand(value)]));
}

// charts are drawn when they come near the screen
async function draw(chart) {
  const { panels } = JSON.parse(document.getElementById(chart.dataset.chart).textContent);
  const places = chart.querySelectorAll(".view");
  // expressions are interpreted and styles stand in report.css: the page allows no code and no style made here
  const options = {
    actions: { export: true, source: false, compiled: false, editor: false }, renderer: "svg",
    ast: true, defaultStyle: false, forceActionsMenu: true, tooltip: { disableDefaultStyle: true },
  };
  try {
    const views = await Promise.all(panels.map((panel, index) => window.vegaEmbed(places[index], expand(panel), options)));
    const signal = (name, value) => views.forEach(({ view }) => view.signal(name, value).runAsync());
    for (const select of chart.querySelectorAll("[data-signal]")) {
      const set = () => signal(select.dataset.signal, select.value);
      select.addEventListener("change", set);
      set();
    }
    const boxes = [...chart.querySelectorAll("[data-entry]")];
    const hide = () => signal("hidden", boxes.filter((box) => !box.checked).map((box) => box.dataset.entry));
    boxes.forEach((box) => box.addEventListener("change", hide));
    for (const pick of chart.querySelectorAll("[data-pick]")) {
      pick.addEventListener("click", () => {
        boxes.forEach((box) => { box.checked = Boolean(pick.dataset.pick); });
        hide();
      });
    }
    chart.dataset.drawn = "yes";
  } catch (error) {
    chart.closest("figure").classList.add("broken");  // the printed form takes its place
    console.error(error);
  }
}
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (entry.isIntersecting) {
      watcher.unobserve(entry.target);
      draw(entry.target);
    }
  }
}, { rootMargin: "600px" });
document.querySelectorAll(".chart").forEach((chart) => watcher.observe(chart));

let opened = [];
window.addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")].filter((item) => !item.closest(".vega-embed"));
  opened.forEach((item) => { item.open = true; });
});
window.addEventListener("afterprint", () => opened.forEach((item) => { item.open = false; }));
