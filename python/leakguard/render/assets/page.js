"use strict";

// Elements. Text always goes in as text, never as markup.
const SVG = "http://www.w3.org/2000/svg";

function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function html(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function button(text, action, attributes = {}) {
  const element = html("button", { type: "button", ...attributes }, text);
  element.addEventListener("click", action);
  return element;
}

// One pressed button of several; null where there is nothing to choose.
function choice(label, options, chosen, choose) {
  if (options.length < 2) return null;
  const group = html("div", { class: "group", role: "group", "aria-label": label });
  for (const [value, text] of options) {
    const one = button(text, () => {
      for (const other of group.children) other.setAttribute("aria-pressed", other === one);
      choose(value);
    }, { "aria-pressed": value === chosen });
    group.append(one);
  }
  return group;
}

// The same words as leakguard.units.
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

function threeDigits(number) {
  return number.toFixed(number < 9.995 ? 2 : number < 99.95 ? 1 : 0);
}

function bytes(size) {
  const sign = size < 0 ? "-" : "";
  size = Math.abs(size);
  for (const unit of UNITS) {
    const number = unit === "B" && size === Math.round(size) ? size.toFixed(0) : threeDigits(size);
    if (Number(number) < 1024 || unit === "PiB") return `${sign}${number} ${unit}`;
    size /= 1024;
  }
}

// A mark of an axis: no digits that say nothing.
function tickBytes(size) {
  return bytes(size).replace(/\.0+ /, " ").replace(/(\.\d)0 /, "$1 ");
}

function change(size) {
  return size > 0 ? `+${bytes(size)}` : bytes(size);
}

function duration(seconds) {
  if (Math.abs(seconds) < 999.5e-6) return `${threeDigits(seconds * 1e6)} us`;
  if (Math.abs(seconds) < 999.5e-3) return `${threeDigits(seconds * 1e3)} ms`;
  return seconds < 119.5 ? `${threeDigits(seconds)} s` : `${threeDigits(seconds / 60)} min`;
}

function percent(share) {
  const value = 100 * share;
  if (value > 0 && value < 0.1) return "under 0.1 %";
  return `${value >= 10 || value === 0 ? value.toFixed(0) : value.toFixed(1)} %`;
}

function count(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

// Marks for an axis of bytes: powers of two of the unit, four or so.
function byteTicks(low, high) {
  const step = 2 ** Math.ceil(Math.log2(Math.max((high - low) / 4, 1)));
  const ticks = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) ticks.push(at);
  return ticks;
}

function stepTicks(low, high, most) {
  const rough = Math.max((high - low) / Math.max(most, 1), 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((value) => value >= rough) || 10 * power;
  const ticks = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) ticks.push(at);
  return ticks;
}

// A line of figures with their names: [["step", "34"], ["peak", "2.00 MiB"]].
function show(readout, parts) {
  readout.replaceChildren(...parts.map(([name, value]) => (
    value ? html("span", {}, name ? `${name} ` : "", html("b", {}, value)) : html("span", {}, name))));
}

// Text cut to the room that it has; widths are those of the chart's own font.
const measure = document.createElement("canvas").getContext("2d");

function fitted(text, room) {
  measure.font = "11.5px system-ui, sans-serif";
  if (measure.measureText(text).width <= room) return text;
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (measure.measureText(`${text.slice(0, middle)}…`).width <= room) low = middle;
    else high = middle - 1;
  }
  return low > 1 ? `${text.slice(0, low)}…` : "";
}

function widthOf(element) {
  const style = getComputedStyle(element);
  return element.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
}

// Draws anew when the room changes.
function followWidth(element, draw) {
  let width = 0;
  new ResizeObserver(() => {
    const now = Math.round(widthOf(element));
    if (now === width || now <= 0) return;
    width = now;
    draw();
  }).observe(element);
}
