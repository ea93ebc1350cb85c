// Keeps the page up to date: patches from the server's stream, or from polling, are morphed into their regions.

import { parse } from "./morph.js";
import { patch } from "./rows.js";
import { duration, showAxes, showTimes } from "./times.js";
import "./charts.js";
import "./select.js";
import "./search.js";
import "./keys.js";

const HIDDEN = 10000; // all in milliseconds: a page that is hidden for so long closes its stream
const SILENT = 5000; // a stream that has brought nothing yet is given up for polling
const LOST = 15000; // a stream that has brought something is opened again
const POLL = 2000;
const STREAM_AGAIN = 60000;
const SAY = 30000;

const root = document.documentElement.dataset.root;
const { topic, live } = document.body.dataset;
const indicator = document.getElementById("live");
const away = document.getElementById("away");
const announce = document.getElementById("announce");
const loadedAt = Date.now();

let stream = null;
let openedAt = 0;
let eventAt = 0; // when the stream last brought something; 0: it has not
let dataAt = loadedAt; // when the store was read for what the page shows
let failures = 0;
let retryAt = 0;
let pollUntil = live === "poll" ? Infinity : 0;
let asking = false;
let waiting = null;
let paused = false;
let ended = false;
let lastId = "";
let hiddenSince = 0;
let why = "";
let latest = "";
let said = "";
let saidAt = loadedAt;

const address = (more) => `${root}/live?topic=${encodeURIComponent(topic)}&last=${encodeURIComponent(lastId)}${more}`;

function connect() {
  if (stream || !topic || paused || ended || document.hidden || Date.now() < retryAt) return;
  if (Date.now() < pollUntil) return void ask();
  stream = new EventSource(address(""));
  openedAt = Date.now();
  eventAt = 0;
  stream.addEventListener("patch", (event) => {
    lastId = event.lastEventId;
    hear();
    receive(JSON.parse(event.data));
  });
  stream.addEventListener("alive", (event) => { hear(); dataAt = Date.now() - Number(event.data) * 1000; });
  stream.addEventListener("error", () => { disconnect(); fail(); if (failures > 1) ask(); });
}

function disconnect() {
  stream?.close();
  stream = null;
}

function hear() {
  eventAt = Date.now();
  failures = 0;
}

function fail() {
  failures += 1;
  retryAt = Date.now() + Math.min(1000 * 2 ** (failures - 1), 30000) * (0.75 + Math.random() / 2);
}

/** Ask once for what has changed. It also finds out why a stream fails: a stream does not tell its status. */
async function ask() {
  if (asking) return;
  asking = true;
  try {
    const response = await fetch(address("&poll=1"), { cache: "no-store", signal: AbortSignal.timeout(10000) });
    if (response.status === 401) return end();
    if (!response.ok) throw new Error(response.statusText);
    const message = await response.json();
    if (paused) return;
    if (failures > 2) pollUntil = Date.now() + STREAM_AGAIN;
    retryAt = Date.now() + POLL;
    lastId = message.id ?? "";
    receive(message);
  } catch {
    if (Date.now() < pollUntil) fail();
  } finally {
    asking = false;
  }
}

/** The viewer is logged out: nothing more will come. */
function end() {
  ended = true;
  away.textContent = "You are logged out. ";
  const link = document.createElement("a");
  link.href = "";
  link.textContent = "Log in again";
  away.append(link);
  away.hidden = false;
}

function receive(message) {
  if (message.reload) {
    if (Date.now() - loadedAt > SAY) again();
    return;
  }
  dataAt = Date.now() - message.age * 1000;
  waiting = waiting ? { ...message, regions: { ...waiting.regions, ...message.regions } } : message;
  apply();
}

/** Whether a patch would disturb what the user is doing: text is selected, a dialog or menu is open, a button is pressed. */
function busy() {
  const selection = getSelection();
  return (selection && !selection.isCollapsed && document.getElementById("main").contains(selection.anchorNode)) ||
    document.querySelector("main dialog[open], main details.menu[open], main button:active") !== null;
}

function apply() {
  if (!waiting || busy()) return;
  const { title, regions, names, summary } = waiting;
  why = waiting.away;
  waiting = null;
  // Another page is at this address by now: what was away is back, or what was there is gone. While the store is away,
  // the page that says so stays: a reload would only bring it again.
  if (!why && names.length && names.sort().join() !== shown()) return again();
  if (title) document.title = title;
  for (const [name, html] of Object.entries(regions)) {
    const region = document.getElementById(name);
    if (region === null) continue;
    patch(region, parse(html));
    showTimes(region);
    showAxes(region);
    region.dispatchEvent(new CustomEvent("patched", { bubbles: true }));
  }
  latest = summary;
  showAway();
}

const shown = () => [...document.querySelectorAll("[data-region]")].map(({ id }) => id).sort().join();

function again() {
  ended = true;
  disconnect();
  setTimeout(() => location.reload(), Math.max(loadedAt + POLL - Date.now(), 0));
}

function showAway() {
  const was = document.body.classList.contains("is-away");
  document.body.classList.toggle("is-away", Boolean(why));
  if (why) {
    const text = `The store does not answer: ${why}${why.endsWith("?") ? "" : "."} What you see is ${duration((Date.now() - dataAt) / 1000)} old; asking again.`;
    if (away.textContent !== text) away.textContent = text;
  }
  if (was || why) {
    away.hidden = !why;
    document.dispatchEvent(new Event("patched"));
  }
}

function state(age) {
  if (!topic) return "off";
  if (paused) return "paused";
  if (ended || age > LOST) return "lost";
  if (age > SILENT) return "late";
  return waiting ? "held" : "on";
}

function tick() {
  showTimes();
  apply();
  if (why) showAway();
  const now = Date.now();
  if (latest && latest !== said && now - saidAt > SAY) {
    [said, saidAt] = [latest, now];
    announce.textContent = latest;
  }
  const age = now - dataAt;
  const words = { on: "live", off: "not live", paused: "paused", late: `${duration(age / 1000)} old`, held: "waits for you", lost: `not live, ${duration(age / 1000)} old` };
  const is = indicator.dataset.live = state(age);
  const text = indicator.querySelector(".live-text");
  if (text.textContent !== words[is]) text.textContent = words[is];
  if (document.hidden) {
    hiddenSince ||= now;
    if (now - hiddenSince > HIDDEN) disconnect();
    return;
  }
  if (hiddenSince) [hiddenSince, retryAt] = [0, 0];
  if (stream && !eventAt && now - openedAt > SILENT) {
    disconnect();
    pollUntil = now + STREAM_AGAIN;
  } else if (stream && eventAt && now - eventAt > LOST) {
    disconnect();
    fail();
  }
  connect();
}

function togglePause() {
  paused = !paused;
  indicator.setAttribute("aria-pressed", paused);
  if (paused) disconnect();
  else retryAt = 0;
  tick();
}

document.addEventListener("visibilitychange", tick);
document.addEventListener("pause-live", togglePause);
document.addEventListener("zone", () => { showTimes(); showAxes(); });
addEventListener("online", () => { retryAt = 0; });
addEventListener("pagehide", disconnect);
indicator.addEventListener("click", togglePause);
indicator.disabled = !topic;
showAxes();
tick();
setInterval(tick, 1000);
