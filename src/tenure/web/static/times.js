// Shows instants as the browser's user reads them: how long ago, with the whole local time in the title; or all in UTC.

const UNITS = [[100, 1, "s"], [6000, 60, "m"], [172800, 3600, "h"], [Infinity, 86400, "d"]];
const made = {};

function formats() {
  const timeZone = document.documentElement.dataset.zone === "utc" ? "UTC" : undefined;
  return made[timeZone] ??= {
    utc: timeZone === "UTC",
    whole: new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long", timeZone }),
    second: new Intl.DateTimeFormat(undefined, { timeStyle: "medium", timeZone }),
    hour: new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", timeZone }),
    day: new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", timeZone }),
  };
}

// All instants are the store's: a browser whose clock is off counts from the time that came with the page.
const answered = performance.timeOrigin + (performance.getEntriesByType("navigation")[0]?.responseStart ?? 0);
const ahead = Number(document.body.dataset.now) * 1000 - answered;
const offset = Math.abs(ahead) > 1500 ? ahead : 0;

export function duration(seconds) {
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)}ms`;
  for (const [limit, unit, sign] of UNITS) if (seconds < limit) return `${Math.round(seconds / unit)}${sign}`;
}

export function clock(instant) {
  const { second, utc } = formats();
  return second.format(instant) + (utc ? " UTC" : "");
}

function relative(ago) {
  return Math.abs(ago) < 1 ? "now" : ago >= 0 ? `${duration(Math.floor(ago))} ago` : `in ${duration(Math.ceil(-ago))}`;
}

export function showTimes(root = document) {
  const now = Date.now() + offset;
  const { whole, utc } = formats();
  for (const each of root.querySelectorAll("time")) {
    const at = Date.parse(each.dateTime);
    if (Number.isNaN(at)) continue;
    const text = utc ? `${new Date(at).toISOString().slice(0, 19).replace("T", " ")}Z` : relative((now - at) / 1000);
    if (each.textContent !== text) each.textContent = text;
    const title = (each.dataset.title ? `${each.dataset.title} ` : "") + whole.format(at);
    if (each.title !== title) each.title = title;
  }
}

export function showAxes(root = document) {
  const { day, hour } = formats();
  for (const chart of root.querySelectorAll(".chart svg")) {
    const ticks = [...chart.querySelectorAll("text.time")];
    const instants = ticks.map((tick) => Number(tick.dataset.at) * 1000);
    const long = instants.length > 1 && instants.at(-1) - instants[0] > 2 * 86400e3;
    ticks.forEach((tick, number) => { tick.textContent = (long ? day : hour).format(instants[number]); });
  }
}
