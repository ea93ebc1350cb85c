// Shows instants as the browser's user reads them: how long ago, with the whole local time in the title.

const UNITS = [[100, 1, "s"], [6000, 60, "m"], [172800, 3600, "h"], [Infinity, 86400, "d"]];
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const hour = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

export function duration(seconds) {
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)}ms`;
  for (const [limit, unit, sign] of UNITS) if (seconds < limit) return `${Math.round(seconds / unit)}${sign}`;
}

export function showTimes(root = document) {
  const now = Date.now();
  for (const each of root.querySelectorAll("time")) {
    const at = Date.parse(each.dateTime);
    const ago = (now - at) / 1000;
    const text = Math.abs(ago) < 1 ? "now" : ago >= 0 ? `${duration(Math.floor(ago))} ago` : `in ${duration(Math.ceil(-ago))}`;
    if (each.textContent !== text) each.textContent = text;
    const title = (each.dataset.title ? `${each.dataset.title} ` : "") + whole.format(at);
    if (each.title !== title) each.title = title;
  }
}

export function showAxes(root = document) {
  for (const chart of root.querySelectorAll(".chart svg")) {
    const ticks = [...chart.querySelectorAll("text.time")];
    const instants = ticks.map((tick) => Number(tick.dataset.at) * 1000);
    const long = instants.length > 1 && instants.at(-1) - instants[0] > 2 * 86400e3;
    ticks.forEach((tick, number) => { tick.textContent = (long ? day : hour).format(instants[number]); });
  }
}
