// Morphs one element into another: what is equal stays, so focus, selection, open details and checked boxes survive.

const policy = window.trustedTypes
  ? window.trustedTypes.createPolicy("tenure", { createHTML: (text) => text })
  : { createHTML: (text) => text };
const still = matchMedia("(prefers-reduced-motion: reduce)");

/** Parse HTML without running anything in it. */
export function parse(html) {
  const made = new DOMParser().parseFromString(policy.createHTML(`<template>${html}</template>`), "text/html");
  return made.querySelector("template").content;
}

/**
 * Make the children of `target` equal to those of `source`. In a `[data-still]` element rows neither come, go nor move, only
 * those that are in both are updated, unless `moving`. Attributes that begin with `data-my-` are the browser's and stay.
 */
export function morph(target, source, moving = false) {
  const byId = new Map();
  for (const child of target.children) if (idOf(child)) byId.set(idOf(child), child);
  // What is gone goes first: a row that moves up would lose the focus.
  const wantedIds = new Set([...source.children].map(idOf));
  for (const [id, child] of byId) if (!wantedIds.has(id)) child.remove();
  let current = target.firstChild;
  for (const wanted of [...source.childNodes]) {
    let match = null;
    if (wanted.nodeType === Node.ELEMENT_NODE && idOf(wanted)) match = byId.get(idOf(wanted)) ?? null;
    else if (current && alike(current, wanted)) match = current;
    if (match === null) {
      target.insertBefore(document.importNode(wanted, true), current);
      continue;
    }
    if (match === current) current = current.nextSibling;
    else target.insertBefore(match, current);
    update(match, wanted, moving);
  }
  while (current) {
    const next = current.nextSibling;
    current.remove();
    current = next;
  }
}

/** The id of an element. `form.id` would be the form's field of that name. */
const idOf = (element) => element.getAttribute("id");

function alike(one, other) {
  if (one.nodeType !== other.nodeType) return false;
  if (one.nodeType !== Node.ELEMENT_NODE) return true;
  return one.nodeName === other.nodeName && idOf(one) === idOf(other);
}

const KEPT = { DETAILS: ["open"], DIALOG: ["open"], INPUT: ["checked", "value"], OPTION: ["selected"] };

function update(target, source, moving) {
  if (target.nodeType !== Node.ELEMENT_NODE) {
    if (target.nodeValue !== source.nodeValue) {
      target.nodeValue = source.nodeValue;
      tint(target.parentElement);
    }
    return;
  }
  if (target.nodeName === "TIME" && target.dateTime === source.getAttribute("datetime")) return;
  const kept = target.type === "hidden" ? [] : KEPT[target.nodeName] ?? [];
  for (const { name, value } of source.attributes) {
    if (target.getAttribute(name) !== value && !kept.includes(name)) target.setAttribute(name, value);
  }
  for (const { name } of [...target.attributes]) {
    if (!source.hasAttribute(name) && !kept.includes(name) && !name.startsWith("data-my-")) target.removeAttribute(name);
  }
  if (target === document.activeElement && target.matches("input, textarea, select")) return;
  if (target.hasAttribute("data-still") && !moving) {
    const wanted = new Map([...source.children].map((row) => [row.id, row]));
    for (const row of target.children) if (wanted.has(row.id)) update(row, wanted.get(row.id), moving);
    return;
  }
  morph(target, source, moving);
}

/** A changed number is tinted for a moment. */
function tint(element) {
  if (still.matches || !element?.matches(".count, .tab-count, .rail-count")) return;
  element.animate([{ backgroundColor: "color-mix(in srgb, currentcolor 25%, transparent)" }, {}], 120);
}
