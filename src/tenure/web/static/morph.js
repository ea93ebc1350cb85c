// Morphs one element into another: what is equal stays, so focus, selection, open details and checked boxes survive.

const policy = window.trustedTypes
  ? window.trustedTypes.createPolicy("tenure", { createHTML: (text) => text })
  : { createHTML: (text) => text };

/** Parse HTML without running anything in it. */
export function parse(html) {
  const made = new DOMParser().parseFromString(policy.createHTML(`<template>${html}</template>`), "text/html");
  return made.querySelector("template").content;
}

/** Make the children of `target` equal to those of `source`. */
export function morph(target, source) {
  const byId = new Map();
  for (const child of target.children) if (child.id) byId.set(child.id, child);
  let current = target.firstChild;
  for (const wanted of [...source.childNodes]) {
    let match = null;
    if (wanted.nodeType === Node.ELEMENT_NODE && wanted.id && byId.has(wanted.id)) match = byId.get(wanted.id);
    else if (current && alike(current, wanted)) match = current;
    if (match === null) {
      target.insertBefore(document.importNode(wanted, true), current);
      continue;
    }
    if (match === current) current = current.nextSibling;
    else target.insertBefore(match, current);
    update(match, wanted);
  }
  while (current) {
    const next = current.nextSibling;
    current.remove();
    current = next;
  }
}

function alike(one, other) {
  if (one.nodeType !== other.nodeType) return false;
  if (one.nodeType !== Node.ELEMENT_NODE) return true;
  return one.nodeName === other.nodeName && one.id === other.id;
}

function update(target, source) {
  if (target.nodeType !== Node.ELEMENT_NODE) {
    if (target.nodeValue !== source.nodeValue) target.nodeValue = source.nodeValue;
    return;
  }
  const kept = target.nodeName === "DETAILS" ? ["open"] : target.nodeName === "INPUT" ? ["checked", "value"] : [];
  if (target.nodeName === "TIME" && target.dateTime === source.getAttribute("datetime")) return;
  for (const { name, value } of source.attributes) {
    if (target.getAttribute(name) !== value && !(kept.includes(name) && target.type !== "hidden")) target.setAttribute(name, value);
  }
  for (const { name } of [...target.attributes]) {
    if (!source.hasAttribute(name) && !kept.includes(name)) target.removeAttribute(name);
  }
  if (target === document.activeElement && target.nodeName === "INPUT") return;
  morph(target, source);
}
