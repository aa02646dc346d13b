"use strict";

// Memory by step, and below it what of each step is still alive. Both share one axis of steps, which can be narrowed.
class Timeline {
  constructor(holder, data) {
    this.data = data;
    this.holder = holder;
    this.devices = Object.keys(data.series);
    this.device = this.busiest();
    this.fromZero = true;
    this.readout = html("div", { class: "readout", "aria-live": "polite" });
    this.chart = svg("svg", { class: "chart", tabindex: "0", role: "application" });
    this.chart.setAttribute(
      "aria-label",
      "Memory by step. Arrow keys move, plus and minus zoom, shift with arrows pans, escape shows all steps.");
    this.reset = button("All steps", () => this.zoomTo(...this.whole), { title: "Escape" });
    const controls = html("div", { class: "controls" });
    const devices = choice("Device", this.devices.map((name) => [name, name]), this.device, (name) => this.pick(name));
    if (devices) controls.append(devices);
    controls.append(
      html("span", { class: "space" }),
      button("Fit height", (event) => {
        this.fromZero = !this.fromZero;
        event.currentTarget.setAttribute("aria-pressed", !this.fromZero);
        this.draw();
      }, { "aria-pressed": "false", title: "Let the axis of bytes begin where the memory does" }),
      button("−", () => this.zoomBy(2), { "aria-label": "Zoom out" }),
      button("+", () => this.zoomBy(0.5), { "aria-label": "Zoom in" }),
      this.reset);
    holder.replaceChildren(controls, this.readout, this.chart, this.legend());
    this.listen();
    this.pick(this.device);
    followWidth(holder, () => this.draw());
  }

  // The device that a finding is about, else the one with most bytes.
  busiest() {
    const found = this.data.findings.find((one) => one.counts && this.devices.includes(one.device));
    const peak = (name) => Math.max(...[0, ...this.data.series[name].peak.slice(-1)]);
    return found ? found.device : [...this.devices].sort((a, b) => peak(b) - peak(a))[0];
  }

  pick(device) {
    this.device = device;
    this.rows = this.data.series[device];
    this.earlier = this.data.before[device] || null;
    const ends = [this.rows, this.earlier].filter(Boolean).map((rows) => rows.last_step[rows.last_step.length - 1]);
    this.whole = [Math.min(this.rows.first_step[0], ...(this.earlier ? [this.earlier.first_step[0]] : [])) - 1,
      Math.max(...ends)];
    this.cursor = null;
    this.zoomTo(...this.whole);
  }

  zoomTo(from, to) {
    const [first, last] = this.whole;
    const span = Math.min(Math.max(to - from, Math.min(4, last - first)), last - first);
    this.from = Math.min(Math.max(from, first), last - span);
    this.to = this.from + span;
    this.draw();
  }

  zoomBy(factor, around = (this.from + this.to) / 2) {
    this.zoomTo(around - (around - this.from) * factor, around + (this.to - around) * factor);
  }

  get zoomed() {
    return this.from > this.whole[0] || this.to < this.whole[1];
  }

  // The first row that ends at `step` or later.
  rowAt(step, rows = this.rows) {
    let low = 0;
    let high = rows.last_step.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (rows.last_step[middle] < step) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // Rows in sight, gathered so that there is no more than one for each column of pixels.
  gathered(rows) {
    const first = this.rowAt(this.from + 1e-9, rows);
    const last = this.rowAt(this.to, rows);
    const columns = Math.max(Math.floor(this.width), 1);
    const each = Math.max(1, (last - first + 1) / columns);
    const out = [];
    for (let at = first; at <= last; at = Math.max(Math.round(first + (out.length) * each), at + 1)) {
      const end = Math.min(Math.max(Math.round(first + (out.length + 1) * each), at + 1), last + 1);
      const one = { first: rows.first_step[at], trough: Infinity, peak: 0, survivors: 0, found: 0, reserved: null };
      for (let row = at; row < end; row++) {
        one.trough = Math.min(one.trough, rows.trough[row]);
        one.peak = Math.max(one.peak, rows.peak[row]);
        one.survivors += rows.survivors[row];
        one.found += Math.min(rows.found[row] || 0, rows.survivors[row]);
        if (rows.reserved[row] !== null) one.reserved = Math.max(one.reserved, rows.reserved[row]);
      }
      one.last = rows.last_step[end - 1];
      one.allocated = rows.allocated[end - 1];
      out.push(one);
    }
    return out;
  }

  draw() {
    this.full = Math.max(Math.round(widthOf(this.holder)), 240);
    const left = 66;
    const top = { at: 22, height: 220 };
    const low = { at: 282, height: 74 };
    this.left = left;
    this.width = this.full - left - 10;
    this.x = (step) => left + ((step - this.from) / (this.to - this.from)) * this.width;
    this.chart.setAttribute("viewBox", `0 0 ${this.full} 384`);
    const rows = this.gathered(this.rows);
    const before = this.earlier ? this.gathered(this.earlier) : [];
    const atEnd = rows.some((one) => one.reserved !== null) ? null : this.data.reserved[this.device];
    const all = [...rows, ...before];
    let highest = 0;
    let lowest = Infinity;
    for (const one of all) {
      highest = Math.max(highest, one.peak, one.reserved, atEnd || 0);
      lowest = Math.min(lowest, one.trough);
    }
    const base = this.fromZero ? 0 : lowest;
    const room = Math.max(highest - base, 1) * 1.06;
    const y = (size) => top.at + top.height * (1 - (size - base) / room);
    const parts = [];
    this.axis(parts, byteTicks(base, base + room), y);
    parts.push(svg("text", { x: left, y: top.at - 8 }, this.fromZero ? "in use" : "in use; the axis does not begin at zero"));
    if (this.from < this.data.warmup) {
      const end = Math.min(this.x(Math.min(this.data.warmup, this.to)), left + this.width);
      parts.push(svg("rect", { class: "warmup", x: left, y: top.at, width: Math.max(end - left, 0), height: low.at + low.height - top.at }));
      if (end - left > 58) parts.push(svg("text", { x: left + 5, y: top.at + 12 }, "warm-up"));
    }
    parts.push(svg("path", { class: "band", d: this.bandPath(rows, y) }));
    if (before.length) parts.push(svg("path", { class: "earlier", d: this.linePath(before, y) }));
    parts.push(svg("path", { class: "allocated", d: this.linePath(rows, y) }));
    parts.push(svg("path", { class: "reserved", d: atEnd ? `M${left} ${y(atEnd)}H${left + this.width}` : this.reservedPath(rows, y) }));
    this.since(parts, [[top.at, top.at + top.height], [low.at, low.at + low.height]]);
    this.bars(parts, rows, low);
    this.steps(parts, low.at + low.height);
    this.mark = svg("path", { class: "cursor", d: "" });
    this.brush = svg("rect", { class: "brush", y: top.at, height: low.at + low.height - top.at, width: 0 });
    parts.push(this.mark, this.brush);
    this.chart.replaceChildren(...parts);
    this.reset.disabled = !this.zoomed;
    this.point(this.cursor);
  }

  axis(parts, ticks, y) {
    for (const tick of ticks) {
      parts.push(
        svg("path", { class: tick === 0 ? "axis" : "grid", d: `M${this.left} ${y(tick)}H${this.left + this.width}` }),
        svg("text", { x: this.left - 8, y: y(tick) + 4, "text-anchor": "end" }, tickBytes(tick)));
    }
  }

  steps(parts, at) {
    for (const tick of stepTicks(Math.max(this.from, 1), this.to, Math.floor(this.width / 80))) {
      parts.push(svg("text", { x: this.x(tick), y: at + 18, "text-anchor": "middle" }, String(tick)));
    }
    parts.push(svg("text", { x: this.left - 8, y: at + 18, "text-anchor": "end" }, "step"));
  }

  // Where the growth of the first finding begins.
  since(parts, panels) {
    const found = this.data.findings.find((one) => one.counts && one.device === this.device && one.first !== null);
    if (!found || found.first <= this.from || found.first > this.to) return;
    const x = this.x(found.first - 0.5);
    const right = x > this.left + this.width - 110;
    parts.push(
      svg("path", { class: "since", d: panels.map(([top, bottom]) => `M${x} ${top}V${bottom}`).join("") }),
      svg("text", { class: "since", x: right ? x - 5 : x + 5, y: panels[0][0] + 12, "text-anchor": right ? "end" : "start" },
        `since step ${found.first}`));
  }

  linePath(rows, y) {
    return rows.map((one, index) => `${index ? "L" : "M"}${this.clip(this.x(one.last))} ${y(one.allocated).toFixed(1)}`).join("");
  }

  bandPath(rows, y) {
    let there = "";
    let back = "";
    for (const one of rows) {
      const [a, b] = [this.clip(this.x(one.first - 1)), this.clip(this.x(one.last))];
      there += `${there ? "L" : "M"}${a} ${y(one.peak).toFixed(1)}H${b}`;
      back = `L${b} ${y(one.trough).toFixed(1)}H${a}${back}`;
    }
    return there ? `${there}${back}Z` : "";
  }

  reservedPath(rows, y) {
    let d = "";
    for (const one of rows) {
      if (one.reserved === null) continue;
      d += `${d ? "L" : "M"}${this.clip(this.x(one.first - 1))} ${y(one.reserved).toFixed(1)}H${this.clip(this.x(one.last))}`;
    }
    return d;
  }

  // Bytes a step: the area of a bar is what is alive of its steps.
  bars(parts, rows, low) {
    const each = (one) => one.survivors / (one.last - one.first + 1);
    const highest = Math.max(1, ...rows.map(each)) * 1.1;
    const floor = low.at + low.height;
    let all = "";
    let found = "";
    for (const one of rows) {
      const height = (each(one) / highest) * low.height;
      if (height <= 0) continue;
      const a = Number(this.clip(this.x(one.first - 1)));
      const b = Number(this.clip(this.x(one.last)));
      const gap = b - a > 4 ? 1 : 0;
      const bar = (size) => `M${a + gap / 2} ${floor}V${(floor - Math.max(size, 0.75)).toFixed(1)}H${b - gap / 2}V${floor}Z`;
      all += bar(height);
      if (one.found) found += bar((height * one.found) / one.survivors);
    }
    const tick = byteTicks(0, highest).slice(-1)[0];
    for (const value of tick ? [0, tick] : [0]) {
      const at = floor - (value / highest) * low.height;
      parts.push(
        svg("path", { class: value ? "grid" : "axis", d: `M${this.left} ${at}H${this.left + this.width}` }),
        svg("text", { x: this.left - 8, y: at + 4, "text-anchor": "end" }, tickBytes(value)));
    }
    parts.push(
      svg("text", { x: this.left, y: low.at - 8 }, "still alive, by the step of birth"),
      svg("path", { class: "survivors", d: all }),
      svg("path", { class: "found", d: found }));
  }

  clip(x) {
    return Math.min(Math.max(x, this.left), this.left + this.width).toFixed(1);
  }

  // Shows the figures of a step; of the whole run when there is none.
  point(step) {
    this.cursor = step;
    if (step === null || step < this.from || step > this.to + 1) {
      this.mark.setAttribute("d", "");
      const last = this.rows.last_step.length - 1;
      show(this.readout, [
        ["steps", `${Math.floor(this.from) + 1} to ${Math.ceil(this.to)}`],
        ["at the end", bytes(this.rows.allocated[last])],
        ["peak", bytes(this.rows.peak.reduce((a, b) => Math.max(a, b), 0))],
        ["drag, wheel or + − to zoom, arrow keys to step", ""]]);
      return;
    }
    const row = this.rowAt(step);
    const rows = this.rows;
    const x = this.x((rows.first_step[row] - 1 + rows.last_step[row]) / 2);
    this.mark.setAttribute("d", `M${x} 22V356`);
    const several = rows.last_step[row] > rows.first_step[row];
    const parts = [
      [several ? "steps" : "step", several ? `${rows.first_step[row]} to ${rows.last_step[row]}` : String(rows.last_step[row])],
      ["at its end", bytes(rows.allocated[row])],
      ["peak", bytes(rows.peak[row])],
      ["trough", bytes(rows.trough[row])]];
    if (row > 0) parts.push(["change", change(rows.allocated[row] - rows.allocated[row - 1])]);
    parts.push(["born", bytes(rows.consumed[row])], ["of it alive", bytes(rows.survivors[row])]);
    if (rows.found[row]) parts.push(["where findings say", bytes(rows.found[row])]);
    if (rows.reserved[row] !== null) parts.push(["reserved", bytes(rows.reserved[row])]);
    if (rows.seconds[row] !== null) parts.push(["took", duration(rows.seconds[row])]);
    if (this.earlier) {
      const other = this.rowAt(step, this.earlier);
      if (this.earlier.last_step[other] >= step) parts.push(["before", bytes(this.earlier.allocated[other])]);
    }
    show(this.readout, parts);
  }

  legend() {
    const sample = (part) => svg("svg", { viewBox: "0 0 18 10", "aria-hidden": "true" }, part);
    const list = html("ul", { class: "legend" },
      html("li", {}, sample(svg("path", { class: "allocated", d: "M0 5H18" })), "in use at the end of a step, bytes as requested"),
      html("li", {}, sample(svg("rect", { class: "band", width: 18, height: 10 })), "least to most within it"));
    const known = Object.values(this.data.series).some((rows) => rows.reserved.some((size) => size !== null));
    if (known || Object.keys(this.data.reserved).length) {
      const when = known ? "" : " at the end of the run";
      list.append(html("li", {}, sample(svg("path", { class: "reserved", d: "M0 5H18" })), `reserved by the allocator${when}`));
    }
    if (Object.values(this.data.series).some((rows) => rows.found.some(Boolean))) {
      list.append(html("li", {}, sample(svg("rect", { class: "found", width: 18, height: 10 })), "alive, and born where a finding says"));
    }
    if (Object.keys(this.data.before).length) {
      list.append(html("li", {}, sample(svg("path", { class: "earlier", d: "M0 5H18" })), "in use in the run before"));
    }
    return list;
  }

  stepUnder(event) {
    const box = this.chart.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * this.full;
    const step = this.from + ((x - this.left) / this.width) * (this.to - this.from);
    return Math.min(Math.max(step, this.from), this.to);
  }

  listen() {
    let start = null;
    this.chart.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      start = this.stepUnder(event);
      this.chart.setPointerCapture(event.pointerId);
    });
    this.chart.addEventListener("pointermove", (event) => {
      const step = this.stepUnder(event);
      this.point(Math.max(Math.ceil(step), 1));
      if (start === null) return;
      const [a, b] = [this.x(Math.min(start, step)), this.x(Math.max(start, step))];
      this.brush.setAttribute("x", a);
      this.brush.setAttribute("width", b - a);
    });
    this.chart.addEventListener("pointerup", (event) => {
      if (start === null) return;
      const end = this.stepUnder(event);
      const [a, b] = [Math.min(start, end), Math.max(start, end)];
      start = null;
      if (this.x(b) - this.x(a) > 5) this.zoomTo(a, b);
      else this.brush.setAttribute("width", 0);
    });
    this.chart.addEventListener("pointercancel", () => {
      start = null;
      this.brush.setAttribute("width", 0);
    });
    this.chart.addEventListener("pointerleave", () => { if (start === null) this.point(null); });
    this.chart.addEventListener("dblclick", () => this.zoomTo(...this.whole));
    this.chart.addEventListener("keydown", (event) => this.key(event));
    this.wheel();
  }

  // A scroll that began elsewhere goes on over the chart, and one outwards goes on when all steps are in sight.
  wheel() {
    let last = 0;
    let elsewhere = false;
    window.addEventListener("wheel", (event) => {
      if (event.timeStamp - last > 300) elsewhere = !this.chart.contains(event.target);
      last = event.timeStamp;
    }, { capture: true, passive: true });
    this.chart.addEventListener("wheel", (event) => {
      if (elsewhere || (event.deltaY > 0 && !this.zoomed) || event.deltaY === 0) return;
      event.preventDefault();
      this.zoomBy(event.deltaY > 0 ? 1.25 : 0.8, this.stepUnder(event));
      this.point(Math.max(Math.ceil(this.stepUnder(event)), 1));
    }, { passive: false });
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const span = this.to - this.from;
    const [first, last] = this.whole;
    const at = this.cursor === null ? Math.ceil(this.to) : this.cursor;
    const move = (step) => {
      step = Math.min(Math.max(step, first + 1), last);
      if (step <= this.from) this.zoomTo(step - 1, step - 1 + span);
      if (step > this.to) this.zoomTo(step - span, step);
      this.point(step);
    };
    const rows = this.rows;
    const actions = {
      ArrowLeft: () => (event.shiftKey ? this.zoomTo(this.from - span / 4, this.to - span / 4)
        : move(rows.first_step[this.rowAt(at)] - 1)),
      ArrowRight: () => (event.shiftKey ? this.zoomTo(this.from + span / 4, this.to + span / 4)
        : move(rows.last_step[this.rowAt(at)] + 1)),
      Home: () => move(first + 1),
      End: () => move(last),
      "+": () => this.zoomBy(0.5, at),
      "=": () => this.zoomBy(0.5, at),
      "-": () => this.zoomBy(2, at),
      0: () => this.zoomTo(...this.whole),
      Escape: () => this.zoomTo(...this.whole),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }
}
