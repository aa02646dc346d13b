"use strict";

// Live bytes as nested bars: the width of a bar is its share, what it consists of stands below it.
const ROW = 30;
const DEVICE = 0, BYTES = 1, BLOCKS = 2, FLAGS = 3, CATEGORY = 4, FILE = 5, LINE = 6, FUNCTION = 7, EXPRESSION = 8,
  MODULE = 9, PHASE = 10;
const PENDING = 1, PRIVATE = 2;

class Icicle {
  constructor(holder, data) {
    this.holder = holder;
    this.strings = data.strings;
    this.runs = { after: data.groups, before: data.earlier };
    this.groups = data.groups;
    this.hot = new Set(data.findings.filter((one) => one.counts).flatMap((one) => one.places.map((place) => place.slice(0, 4).join())));
    const devices = [...new Set([...data.groups, ...data.earlier].map((group) => this.text(group[DEVICE])))];
    const sum = (name) => this.groups.reduce((all, group) => all + (this.text(group[DEVICE]) === name ? group[BYTES] : 0), 0);
    devices.sort((a, b) => sum(b) - sum(a));
    this.device = devices[0];
    const telling = { module: (group) => group[MODULE] >= 0, category: (group) => this.text(group[CATEGORY]) !== "unknown" };
    const modes = [["module", "By module"], ["category", "By category"], ["site", "By call site"], ["phase", "By phase"]]
      .filter(([mode]) => !telling[mode] || this.groups.some(telling[mode]));
    this.mode = modes[0][0];
    this.readout = html("div", { class: "readout", "aria-live": "polite" });
    this.up = button("Up", () => this.leave(), { title: "Escape" });
    this.chart = svg("svg", {
      class: "chart tree", tabindex: "0", role: "application",
      "aria-label": "Live bytes. Arrow keys move, enter looks into a part, escape leaves it." });
    const controls = html("div", { class: "controls" });
    const runs = choice("Run", data.earlier.length ? [["before", "Before"], ["after", "After"]] : [], "after",
      (run) => { this.groups = this.runs[run]; this.build(); });
    if (runs) controls.append(runs);
    controls.append(choice("Grouped", modes, this.mode, (mode) => { this.mode = mode; this.build(); }));
    const deviceChoice = choice("Device", devices.map((name) => [name, name]), this.device, (name) => { this.device = name; this.build(); });
    if (deviceChoice) controls.append(deviceChoice);
    controls.append(html("span", { class: "space" }), this.up);
    holder.replaceChildren(controls, this.readout, this.chart, this.legend());
    this.chart.addEventListener("keydown", (event) => this.key(event));
    this.chart.addEventListener("pointerleave", () => this.pick(this.focus));
    this.build();
    followWidth(holder, () => this.draw());
  }

  text(number) {
    return number < 0 ? "" : this.strings[number];
  }

  // The names on the way from the whole to a group, by the present grouping.
  path(group) {
    const file = this.text(group[FILE]) || "an unknown line";
    const line = group[LINE] ? `${file}:${group[LINE]}` : file;
    const expression = this.text(group[EXPRESSION]);
    const state = (group[FLAGS] & PENDING ? ", waits for a stream" : "") + (group[FLAGS] & PRIVATE ? ", private pool" : "");
    const site = (expression ? `${line.split("/").pop()}  ${expression}` : line) + state;
    const module = this.text(group[MODULE]);
    if (this.mode === "module") return [...(module ? module.split(".") : ["outside any module"]), site];
    if (this.mode === "category") return [this.text(group[CATEGORY]), ...(module ? [module] : []), site];
    if (this.mode === "phase") return [this.text(group[PHASE]) || "other", file, site];
    const inside = this.text(group[FUNCTION]);
    return [file, ...(inside ? [inside] : []), (expression ? `line ${group[LINE]}  ${expression}` : line) + state];
  }

  build() {
    const root = { name: this.device, bytes: 0, blocks: 0, children: new Map(), parent: null, depth: 0 };
    for (const group of this.groups) {
      if (this.text(group[DEVICE]) !== this.device) continue;
      const hot = this.hot.has(group.slice(FILE, MODULE).join());
      let node = root;
      const add = () => {
        node.bytes += group[BYTES];
        node.blocks += group[BLOCKS];
      };
      add();
      for (const name of this.path(group)) {
        if (!node.children.has(name)) {
          node.children.set(name, { name, bytes: 0, blocks: 0, children: new Map(), parent: node, depth: node.depth + 1 });
        }
        node = node.children.get(name);
        add();
      }
      node.hot = node.hot || hot;
    }
    const settle = (node) => {
      node.children = [...node.children.values()].sort((a, b) => b.bytes - a.bytes);
      node.children.forEach(settle);
    };
    settle(root);
    this.root = this.focus = this.picked = root;
    this.draw();
  }

  draw() {
    this.width = Math.max(Math.round(widthOf(this.holder)), 240);
    this.cells = new Map();
    const parts = [];
    const above = [];
    for (let node = this.focus.parent; node; node = node.parent) above.unshift(node);
    above.forEach((node, row) => parts.push(this.cell(node, 0, this.width, row, "up")));
    let deepest = above.length;
    const place = (node, x, width, row) => {
      deepest = Math.max(deepest, row);
      parts.push(this.cell(node, x, width, row, node.hot ? "hot" : ""));
      let at = x;
      const small = [];
      for (const child of node.children) {
        const share = node.bytes ? (child.bytes / node.bytes) * width : 0;
        if (share < 3) {
          small.push(child);
          continue;
        }
        place(child, at, share, row + 1);
        at += share;
      }
      if (small.length && x + width - at >= 1) {
        const rest = {
          name: `${small.length} smaller`, bytes: small.reduce((all, one) => all + one.bytes, 0),
          blocks: small.reduce((all, one) => all + one.blocks, 0), children: [], parent: node, depth: node.depth + 1 };
        deepest = Math.max(deepest, row + 1);
        parts.push(this.cell(rest, at, x + width - at, row + 1, "rest"));
      }
    };
    place(this.focus, 0, this.width, above.length);
    const height = (deepest + 1) * ROW + 2;
    this.chart.setAttribute("viewBox", `0 0 ${this.width} ${height}`);
    this.chart.replaceChildren(...parts);
    this.up.disabled = !this.focus.parent;
    this.pick(this.picked);
  }

  cell(node, x, width, row, kind) {
    const group = svg("g", { class: `cell ${kind}` });
    const rect = svg("rect", { x, y: row * ROW + 1, width: Math.max(width, 1), height: ROW - 1, rx: 3 });
    const depth = node.depth - this.focus.depth;
    rect.style.setProperty("--share", `${Math.max(34 - 7 * depth, 12)}%`);
    group.append(rect);
    const label = width > 34 ? fitted(`${node.name}  ${bytes(node.bytes)}`, width - 14) : "";
    if (label) group.append(svg("text", { x: x + 7, y: row * ROW + 20 }, label));
    group.addEventListener("pointerenter", () => this.pick(node));
    group.addEventListener("click", () => this.enter(node));
    if (kind !== "rest") this.cells.set(node, group);
    return group;
  }

  pick(node) {
    this.cells.get(this.picked)?.classList.remove("picked");
    this.picked = node;
    if (node !== this.focus) this.cells.get(node)?.classList.add("picked");
    const names = [];
    for (let one = node; one; one = one.parent) names.unshift(one.name);
    const parts = [
      ["", names.length > 1 ? names.slice(1).join(" › ") : names[0]],
      ["", bytes(node.bytes)],
      ["", count(node.blocks, "block")],
      ["", percent(this.root.bytes ? node.bytes / this.root.bytes : 0)]];
    show(this.readout, parts);
  }

  enter(node) {
    const next = node.children.length ? node : node.parent;
    if (!next) return;
    this.focus = next === this.focus && next.parent && node === next ? next.parent : next;
    this.picked = node.children.length ? this.focus : node;
    this.draw();
  }

  leave() {
    if (!this.focus.parent) return;
    this.picked = this.focus;
    this.focus = this.focus.parent;
    this.draw();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const node = this.picked;
    const beside = (by) => {
      const siblings = node.parent ? node.parent.children.filter((one) => this.cells.has(one)) : [];
      const other = siblings[siblings.indexOf(node) + by];
      if (other) this.pick(other);
    };
    const actions = {
      ArrowLeft: () => beside(-1),
      ArrowRight: () => beside(1),
      ArrowDown: () => { const child = node.children.find((one) => this.cells.has(one)); if (child) this.pick(child); },
      ArrowUp: () => { if (node.parent && this.cells.has(node.parent)) this.pick(node.parent); },
      Enter: () => this.enter(node),
      Escape: () => this.leave(),
      Backspace: () => this.leave(),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  legend() {
    const sample = svg("svg", { viewBox: "0 0 18 10", "aria-hidden": "true" }, svg("rect", { class: "swatch", width: 18, height: 10, rx: 2 }));
    return html("ul", { class: "legend" },
      html("li", {}, "width: share of the live bytes; click a part to look into it"),
      html("li", {}, sample, "born where a finding says"));
  }
}
