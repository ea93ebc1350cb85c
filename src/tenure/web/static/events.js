// The tail of events: lines that the server sends are added to those on the page, which sticks to its end until one scrolls.

const KEPT = 500;
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23" });

const sent = document.getElementById("tail");
const section = document.createElement("section");
section.className = "region region-tail";
const box = document.createElement("div");
box.className = "tail-box";
box.tabIndex = 0;
box.setAttribute("role", "region");
box.setAttribute("aria-label", "Events");
const kept = document.createElement("ol");
kept.className = "tail";
const newest = document.createElement("button");
newest.className = "button newest";
newest.textContent = "↓ newest";
newest.hidden = true;
box.append(kept);
section.append(box, newest);
let last = 0;

const numberOf = (line) => Number(line.id.slice("event-".length));
const away = () => box.scrollTop < -4; // the box is laid out from its end, where scrollTop is 0

function gap() {
  const line = document.createElement("li");
  line.className = "gap";
  line.textContent = "Events came too quickly to show them all: choose a kind, a queue or a task.";
  return line;
}

/** Add the lines of the server's region that are new; once there are any, they are shown in its place. */
function add() {
  const fresh = [...sent.querySelectorAll("li[id]")].filter((line) => numberOf(line) > last);
  if (fresh.length === 0) return;
  const before = kept.offsetHeight;
  if (last && Number(sent.querySelector(".tail-box").dataset.previous) > last) kept.append(gap());
  for (const line of fresh) {
    last = numberOf(line);
    const copy = line.cloneNode(true);
    copy.removeAttribute("id");
    for (const each of copy.querySelectorAll("[data-clock]")) each.textContent = clock.format(Date.parse(each.dataset.clock));
    kept.append(copy);
  }
  const added = kept.offsetHeight - before;
  const old = [...kept.children].slice(0, -KEPT);
  if (away()) box.scrollTop -= added; // what one reads stays where it is
  for (const line of old) line.remove();
  if (!section.isConnected) sent.after(section);
  sent.hidden = sent.querySelector(".state-failed") === null;
}

newest.addEventListener("click", () => { box.scrollTop = 0; });
box.addEventListener("scroll", () => { newest.hidden = !away(); });
sent.addEventListener("patched", add);
add();
