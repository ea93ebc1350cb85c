// The keyboard: every key does what a link or button on the page does.

import { showNew } from "./rows.js";

const GO = { o: "/", j: "/jobs", f: "/failed", q: "/queues", t: "/tasks", w: "/workers", x: "/flows", e: "/events", h: "/health", s: "/schedules", a: "/audit" };
const page = document.documentElement;
let goes = false;
let from = null;

const rows = () => [...document.querySelectorAll("tr[data-row]")];
const current = () => document.querySelector("tr[data-my-current]");

function move(by) {
  const all = rows();
  if (all.length === 0) return;
  const next = all[Math.min(Math.max(all.indexOf(current()) + by, 0), all.length - 1)];
  current()?.removeAttribute("data-my-current");
  next.setAttribute("data-my-current", "");
  next.scrollIntoView({ block: "nearest" });
}

function open(part) {
  const link = current()?.querySelector("a[href]");
  if (link) location.href = link.href + part;
}

function select(range) {
  const row = current();
  const box = row?.querySelector('input[name="id"]');
  if (!box) return;
  const all = rows();
  if (range && all.includes(from)) {
    const [first, last] = [all.indexOf(from), all.indexOf(row)].sort((one, two) => one - two);
    for (const each of all.slice(first, last + 1)) each.querySelector('input[name="id"]').checked = true;
    box.dispatchEvent(new Event("change", { bubbles: true }));
  } else box.click();
  from = row;
}

function press(action) {
  const selected = document.querySelector(`[data-selection] button[formaction$="/actions/${action}"]:not(:disabled)`);
  const single = document.querySelector(`.act[action$="/actions/${action}"] button:not(:disabled)`);
  const many = document.querySelectorAll(`.act[action$="/actions/${action}"]`).length > 1;
  (selected ?? (many ? null : single))?.click();
}

function choose(name, value) {
  page.dataset[name] = value;
  try { localStorage.setItem(`tenure-${name}`, value); } catch { /* it lasts for this page */ }
  document.dispatchEvent(new Event(name));
}

function theme() {
  const dark = page.dataset.theme ? page.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  choose("theme", dark ? "light" : "dark");
}

const click = (selector) => document.querySelector(selector)?.click();

const KEYS = {
  "/": ["search", () => document.getElementById("search").focus()],
  j: ["next row", () => move(1)],
  k: ["previous row", () => move(-1)],
  Enter: ["open the row", () => open("")],
  e: ["why it is as it is", () => (current() ? open("#why") : document.getElementById("why")?.scrollIntoView())],
  x: ["select the row", () => select(false)],
  X: ["select all rows up to this one", () => select(true)],
  "*": ["select all on the page", () => click("[data-all]")],
  n: ["show new rows", showNew],
  "[": ["first page", () => click('a[rel="prev"]')],
  "]": ["next page", () => click('a[rel="next"]')],
  r: ["retry what is selected", () => press("retry")],
  c: ["cancel what is selected", () => press("cancel")],
  d: ["delete what is selected", () => press("delete")],
  y: ["copy the id", () => click("[data-copy]")],
  p: ["pause, or go on", () => document.dispatchEvent(new Event("pause-live"))],
  u: ["times in UTC, or local", () => choose("zone", page.dataset.zone === "utc" ? "local" : "utc")],
  m: ["light or dark", theme],
  z: ["compact rows, or not", () => choose("density", page.dataset.density === "compact" ? "normal" : "compact")],
  Escape: ["back", () => click(".crumb a")],
  "?": ["these keys", () => help()],
};

function help() {
  let dialog = document.getElementById("keys");
  if (!dialog) {
    dialog = document.createElement("dialog");
    dialog.id = "keys";
    const heading = document.createElement("h2");
    heading.textContent = "Keys";
    heading.id = "keys-heading";
    dialog.setAttribute("aria-labelledby", heading.id);
    const list = document.createElement("dl");
    const shown = { ...Object.fromEntries(Object.entries(KEYS).map(([key, [does]]) => [key, does])), g: "then the first letter of a page: go there (g x: flows)" };
    for (const [key, does] of Object.entries(shown)) {
      const [entry, term, text, sign] = ["div", "dt", "dd", "kbd"].map((name) => document.createElement(name));
      sign.textContent = key === "Escape" ? "Esc" : key;
      text.textContent = does;
      term.append(sign);
      entry.append(term, text);
      list.append(entry);
    }
    const close = document.createElement("button");
    close.className = "button";
    close.textContent = "Close";
    close.addEventListener("click", () => dialog.close());
    dialog.append(heading, list, close);
    document.body.append(dialog);
  }
  dialog.showModal();
}

document.addEventListener("keydown", (event) => {
  const { key, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const menu = document.querySelector("details.menu[open]");
  if (key === "Escape" && menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
    return;
  }
  if (target.matches("input:not([type=checkbox]), textarea, select")) {
    if (key === "Escape") target.blur();
    return;
  }
  if (goes) {
    goes = false;
    if (GO[key]) { event.preventDefault(); location.href = page.dataset.root + GO[key]; }
    return;
  }
  if (key === "g") { goes = true; setTimeout(() => { goes = false; }, 1500); return; }
  if (Object.hasOwn(KEYS, key) && !(key === "Enter" && target.matches("a, button, summary, input"))) {
    event.preventDefault();
    KEYS[key][1]();
  }
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-key]");
  if (button) KEYS[button.dataset.key][1]();
  const menu = document.querySelector("details.menu[open]");
  if (menu && (button || !menu.contains(event.target))) menu.open = false;
});
