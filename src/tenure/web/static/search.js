// Suggests filters for the word that is being typed in the search box.

const input = document.getElementById("search");
const list = document.getElementById("suggestions");
const KEEP = 60000;
const MOST = 12;
let words = [];
let askedAt = -KEEP;

async function load() {
  if (performance.now() - askedAt < KEEP) return;
  askedAt = performance.now();
  try {
    const response = await fetch(`${document.documentElement.dataset.root}/suggestions`);
    if (response.ok) words = await response.json();
  } catch { /* the box works without */ }
  suggest();
}

function suggest() {
  const at = input.value.lastIndexOf(" ") + 1;
  const before = input.value.slice(0, at);
  const typed = input.value.slice(at).toLowerCase();
  const fit = words.filter((word) => word.toLowerCase().includes(typed) && !before.includes(word));
  list.replaceChildren(...fit.slice(0, MOST).map((word) => new Option("", before + word)));
}

input.addEventListener("focus", load);
input.addEventListener("input", suggest);
