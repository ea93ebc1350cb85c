// One cursor and one tooltip for all charts of a page, at the same instant.

import { clock } from "./times.js";

let tip = null;

document.addEventListener("pointermove", (event) => {
  const svg = event.target.closest?.(".chart svg");
  if (!svg) return hide();
  const box = svg.getBoundingClientRect();
  const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
  let nearest = null;
  for (const figure of document.querySelectorAll(".chart")) {
    const rows = [...figure.querySelectorAll("tr[data-x]")];
    if (rows.length === 0) continue;
    const row = rows.reduce((best, each) => (Math.abs(each.dataset.x - x) < Math.abs(best.dataset.x - x) ? each : best));
    const cursor = figure.querySelector(".cursor");
    cursor.setAttribute("x1", row.dataset.x);
    cursor.setAttribute("x2", row.dataset.x);
    cursor.style.visibility = "visible";
    if (figure.contains(svg)) nearest = row;
  }
  if (nearest) show(svg.closest(".chart"), nearest, event.clientX - box.left);
});
document.documentElement.addEventListener("pointerleave", hide);

function show(figure, row, left) {
  if (tip === null || tip.parentNode !== figure) {
    tip?.remove();
    tip = document.createElement("div");
    tip.className = "tip";
    figure.append(tip);
  }
  const at = row.querySelector("time");
  tip.textContent = `${clock(Date.parse(at.dateTime))} · ${row.cells[1].textContent}`;
  tip.style.top = "28px";
  tip.style.left = `${Math.min(Math.max(left - 60, 0), figure.clientWidth - 160)}px`;
}

function hide() {
  tip?.remove();
  tip = null;
  for (const cursor of document.querySelectorAll(".chart .cursor")) cursor.style.visibility = "hidden";
}
