// Equations: LaTeX that stands in the page is set by KaTeX. Nothing is requested from anywhere.
for (const place of document.querySelectorAll(".math")) {
  katex.render(place.textContent, place, {
    displayMode: place.classList.contains("display"), throwOnError: false, output: "htmlAndMathml",
  });
}

// a table that is wider than its column scrolls, and can be reached and scrolled by keyboard
for (const table of document.querySelectorAll(".bd-article table")) {
  const box = table.closest(".pst-scrollable-table-container") ?? table.parentElement;
  const mark = () => {
    const wide = box.scrollWidth > box.clientWidth + 1;
    box.classList.toggle("wide", wide);
    if (wide) {
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", "Table, scrolls sideways");
    }
  };
  mark();
  addEventListener("resize", mark);
}
