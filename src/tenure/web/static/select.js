// Selecting rows, asking before what cannot be undone, and copying.

let last = null;

/** While the store does not answer, nothing can be done to it. */
function refreshAway(away) {
  for (const button of document.querySelectorAll('main form[method="post"] button:not([type="button"], [data-needs-selection])')) {
    if (away && !button.disabled) {
      button.disabled = true;
      button.setAttribute("data-my-away", "");
    } else if (!away && button.hasAttribute("data-my-away")) {
      button.disabled = false;
      button.removeAttribute("data-my-away");
    }
  }
}

function refresh() {
  const away = document.body.classList.contains("is-away");
  for (const form of document.querySelectorAll("[data-selection]")) {
    const boxes = [...form.querySelectorAll('input[name="id"]')];
    const chosen = boxes.filter((box) => box.checked).length;
    const label = form.querySelector("[data-selected]");
    if (label) label.textContent = `${chosen} selected`;
    for (const button of form.querySelectorAll("[data-needs-selection]")) {
      if (!button.title) button.disabled = away || chosen === 0;
    }
    const all = form.querySelector("[data-all]");
    if (all) {
      all.checked = chosen > 0 && chosen === boxes.length;
      all.indeterminate = chosen > 0 && chosen < boxes.length;
    }
  }
  refreshAway(away);
}

document.addEventListener("change", (event) => {
  const form = event.target.closest("[data-selection]");
  if (!form) return;
  if (event.target.matches("[data-all]")) {
    for (const box of form.querySelectorAll('input[name="id"]')) box.checked = event.target.checked;
  }
  refresh();
});

document.addEventListener("click", (event) => {
  const box = event.target.closest('input[name="id"]');
  if (box) {
    const boxes = [...document.querySelectorAll('input[name="id"]')];
    if (event.shiftKey && last && boxes.includes(last)) {
      const [from, to] = [boxes.indexOf(last), boxes.indexOf(box)].sort((one, two) => one - two);
      for (const each of boxes.slice(from, to + 1)) each.checked = box.checked;
    }
    last = box;
    refresh();
  }
  const copy = event.target.closest("[data-copy]");
  // Browsers give no clipboard to pages that came over plain HTTP from another machine.
  if (copy) navigator.clipboard?.writeText(copy.dataset.copy).then(() => { copy.textContent = "copied"; }, () => {});
});

document.addEventListener("submit", (event) => {
  const ask = event.target.dataset.ask;
  if (ask && !confirm(ask)) event.preventDefault();
  const danger = event.submitter?.classList.contains("danger") && event.target.matches("[data-selection]");
  if (danger) {
    const chosen = event.target.querySelectorAll('input[name="id"]:checked').length;
    if (!confirm(`${event.submitter.textContent} ${chosen} jobs?`)) event.preventDefault();
  }
});

document.addEventListener("patched", refresh);
refresh();
