// Keeps the page up to date: patches from the server's stream are morphed into their regions.

import { morph, parse } from "./morph.js";
import { duration, showAxes, showTimes } from "./times.js";
import "./charts.js";
import "./select.js";
import "./keys.js";

const root = document.documentElement.dataset.root;
const topic = document.body.dataset.topic;
const indicator = document.getElementById("live");
const away = document.getElementById("away");

let stream = null;
let heard = 0;
let opened = 0;
let wait = 1000;
let waiting = null;
let paused = false;
let lastId = "";
let hiddenSince = 0;

function connect() {
  if (stream || !topic || paused || document.hidden) return;
  const id = lastId ? `&last=${encodeURIComponent(lastId)}` : "";
  stream = new EventSource(`${root}/live?topic=${encodeURIComponent(topic)}${id}`);
  opened = Date.now();
  stream.addEventListener("open", () => { wait = 1000; heard = Date.now(); });
  stream.addEventListener("patch", (event) => { lastId = event.lastEventId; heard = Date.now(); receive(JSON.parse(event.data)); });
  stream.addEventListener("alive", (event) => { heard = Date.now() - Number(event.data) * 1000; });
  stream.addEventListener("error", () => {
    disconnect();
    setTimeout(connect, wait * (0.75 + Math.random() / 2));
    wait = Math.min(wait * 2, 30000);
  });
}

function disconnect() {
  stream?.close();
  stream = null;
}

function receive(message) {
  if (message.reload) return location.reload();
  waiting = waiting ? { ...message, regions: { ...waiting.regions, ...message.regions } } : message;
  apply();
}

/** Whether a patch would disturb what the user is doing: text is selected, a dialog or menu is open, a button is pressed. */
function busy() {
  const selection = getSelection();
  return (selection && !selection.isCollapsed && document.getElementById("main").contains(selection.anchorNode)) ||
    document.querySelector("dialog[open], details.menu[open], button:active") !== null;
}

function apply() {
  if (!waiting || busy()) return;
  const { title, regions, away: why } = waiting;
  waiting = null;
  if (title) document.title = title;
  away.hidden = !why;
  if (why) away.textContent = `The store cannot be read: ${why}. Asking again; what you see is from before.`;
  document.body.classList.toggle("is-away", Boolean(why));
  for (const [name, html] of Object.entries(regions ?? {})) {
    const region = document.getElementById(name);
    if (region === null) continue;
    morph(region, parse(html));
    showTimes(region);
    showAxes(region);
    region.dispatchEvent(new CustomEvent("patched", { bubbles: true }));
  }
}

function tick() {
  showTimes();
  apply();
  const age = heard ? (Date.now() - heard) / 1000 : (Date.now() - opened) / 1000;
  const state = !topic ? "off" : paused ? "paused" : !stream && !heard ? "off" : age > 15 || !stream ? "lost" : age > 5 ? "late" : "on";
  indicator.dataset.live = state;
  const words = { on: "live", off: "not live", paused: "paused", late: `${duration(age)} old`, lost: "not live" };
  indicator.querySelector(".live-text").textContent = words[state];
  if (document.hidden) {
    hiddenSince ||= Date.now();
    if (Date.now() - hiddenSince > 10000) disconnect();
  } else {
    hiddenSince = 0;
    connect();
  }
}

export function togglePause() {
  paused = !paused;
  if (paused) disconnect();
  else connect();
  tick();
}

document.addEventListener("visibilitychange", tick);
document.addEventListener("pause-live", togglePause);
showTimes();
showAxes();
connect();
tick();
setInterval(tick, 1000);
