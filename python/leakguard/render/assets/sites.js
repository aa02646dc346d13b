"use strict";

// All call sites of live memory, most bytes first; as many rows as one can read, found by a word.
const MOST_ROWS = 100;

class Sites {
  constructor(holder, data) {
    const text = (number) => (number < 0 ? "" : data.strings[number]);
    const whole = {};
    for (const group of data.groups) whole[group[DEVICE]] = (whole[group[DEVICE]] || 0) + group[BYTES];
    this.rows = [...data.groups].sort((a, b) => b[BYTES] - a[BYTES]).map((group) => {
      const place = (text(group[FILE]) || "an unknown line") + (group[LINE] ? `:${group[LINE]}` : "");
      const asides = [
        text(group[EXPRESSION]), text(group[MODULE]) && `module ${text(group[MODULE])}`,
        text(group[CATEGORY]) === "unknown" ? "" : text(group[CATEGORY]),
        text(group[PHASE]) === "other" ? "" : `in ${text(group[PHASE])}`,
        group[FLAGS] & PENDING ? "waits for a stream" : "", group[FLAGS] & PRIVATE ? "private pool" : ""].filter(Boolean);
      const where = text(group[FUNCTION]) ? `${place} in ${text(group[FUNCTION])}` : place;
      const figures = [text(group[DEVICE]), bytes(group[BYTES]), percent(group[BYTES] / whole[group[DEVICE]]), String(group[BLOCKS])];
      return { figures, where, asides, words: [figures[0], where, ...asides].join(" ").toLowerCase() };
    });
    this.search = html("input", { type: "search", placeholder: "file, function, module …", "aria-label": "Find call sites" });
    this.search.addEventListener("input", () => this.draw());
    this.note = html("span", { class: "dim", role: "status" });
    this.body = html("tbody");
    const head = html("tr", {}, ...["device", "bytes", "share", "blocks"].map((name) => html("th", { scope: "col" }, name)),
      html("th", { scope: "col", class: "words" }, "call site"));
    holder.replaceChildren(
      html("div", { class: "filter" }, html("h3", {}, "Call sites"), this.note, this.search),
      html("div", { class: "scroll sites", tabindex: "0" }, html("table", { class: "figures" }, html("thead", {}, head), this.body)));
    this.draw();
  }

  draw() {
    const wanted = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = this.rows.filter((row) => wanted.every((word) => row.words.includes(word)));
    this.body.replaceChildren(...found.slice(0, MOST_ROWS).map((row) => html("tr", {},
      ...row.figures.map((figure) => html("td", {}, figure)),
      html("td", { class: "words" }, row.where, ...row.asides.flatMap((aside) => [" ", html("span", { class: "aside" }, aside)])))));
    this.note.textContent = found.length > MOST_ROWS ? `the first ${MOST_ROWS} of ${found.length}` : count(found.length, "call site");
  }
}
