// The keyboard: every key does what a link or button on the page does.

const GO = { o: "/", j: "/jobs", f: "/failed", q: "/queues", t: "/tasks", w: "/workers", x: "/flows", e: "/events", h: "/health", s: "/schedules", a: "/audit" };
const root = document.documentElement.dataset.root;
let goes = false;

const rows = () => [...document.querySelectorAll("tr[data-row]")];
const current = () => document.querySelector("tr[data-row].current");

function move(by) {
  const all = rows();
  if (all.length === 0) return;
  const now = all.indexOf(current());
  const next = all[Math.min(Math.max(now + by, 0), all.length - 1)];
  current()?.classList.remove("current");
  next.classList.add("current");
  next.scrollIntoView({ block: "nearest" });
}

function press(action) {
  const selected = document.querySelector(`[data-selection] button[formaction$="/actions/${action}"]:not(:disabled)`);
  const single = document.querySelector(`.act[action$="/actions/${action}"] button:not(:disabled)`);
  (selected ?? single)?.click();
}

const KEYS = {
  "/": () => document.getElementById("search").focus(),
  j: () => move(1),
  k: () => move(-1),
  Enter: () => current()?.querySelector("a")?.click(),
  x: () => current()?.querySelector('input[name="id"]')?.click(),
  "*": () => document.querySelector("[data-all]")?.click(),
  "[": () => document.querySelector('a[rel="prev"]')?.click(),
  "]": () => document.querySelector('a[rel="next"]')?.click(),
  r: () => press("retry"),
  c: () => press("cancel"),
  d: () => press("delete"),
  p: () => document.dispatchEvent(new Event("pause-live")),
  y: () => document.querySelector("[data-copy]")?.click(),
  m: () => theme(),
  Escape: () => history.length > 1 && document.querySelector(".crumb a")?.click(),
};

function theme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
  localStorage.setItem("tenure-theme", document.documentElement.dataset.theme);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")) return;
  if (goes) {
    goes = false;
    if (GO[event.key]) { event.preventDefault(); location.href = root + GO[event.key]; }
    return;
  }
  if (event.key === "g") { goes = true; setTimeout(() => { goes = false; }, 1500); return; }
  if (KEYS[event.key] && !(event.key === "Enter" && event.target.matches("a, button, summary"))) {
    event.preventDefault();
    KEYS[event.key]();
  }
});

const stored = localStorage.getItem("tenure-theme");
if (stored) document.documentElement.dataset.theme = stored;
