// Rows hold still: what is new waits behind a button, what has left the listing is dimmed until the button is pressed.
// In a listing that grows at its top, rows that new ones push off the page have not left.

import { morph } from "./morph.js";

const latest = new WeakMap();

/** Morph a region, and hold the rows of its listing where they are. */
export function patch(region, source) {
  latest.set(region, source);
  const body = region.querySelector("[data-still]");
  if (body?.children.length && !source.querySelector("[data-still]")) mark(region, body, []);
  else {
    morph(region, source);
    const rows = source.querySelector("[data-still]");
    const now = region.querySelector("[data-still]");
    if (now) mark(region, now, [...rows.children]);
  }
}

function mark(region, body, wanted) {
  const ids = new Set(wanted.map((row) => row.id));
  const here = new Set([...body.children].map((row) => row.id));
  const fresh = wanted.filter((row) => !here.has(row.id)).length;
  let gone = 0;
  for (const row of body.children) {
    const left = !ids.has(row.id) && !(body.dataset.still === "grows" && fresh);
    row.toggleAttribute("data-my-gone", left);
    if (left) { gone += 1; row.title = "Not in this part of the list any more"; } else row.removeAttribute("title");
  }
  const button = region.querySelector("[data-news]");
  button.hidden = fresh === 0 && gone === 0;
  const more = fresh > 0 && fresh === wanted.length ? "+" : "";
  button.textContent = fresh ? `↑ ${fresh}${more} new` : `↻ ${gone} gone`;
}

/** Show the listings as they are now. */
export function showNew() {
  for (const button of document.querySelectorAll("[data-news]:not([hidden])")) {
    const region = button.closest("[data-region]");
    if (latest.has(region)) morph(region, latest.get(region), true);
    region.dispatchEvent(new CustomEvent("patched", { bubbles: true }));
  }
}

document.addEventListener("click", (event) => { if (event.target.closest("[data-news]")) showNew(); });
