"use strict";

// Draws the plots in the colours of the style sheet and synchronises the time axes of a run.

const { template, plots: figures } = JSON.parse(document.getElementById("figures").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
// On a touch screen, dragging across a plot scrolls the page.
const finger = matchMedia("(pointer: coarse)");

/** Replaces roles such as "var(--lost/0.2)" in a figure by the colours of the current scheme. */
function painted(node, palette) {
  if (Array.isArray(node)) {
    return typeof node[0] === "number" ? node : node.map((item) => painted(item, palette));
  }
  if (node !== null && typeof node === "object") {
    return Object.fromEntries(
      Object.entries(node).map(([key, value]) => [key, painted(value, palette)]),
    );
  }
  const role = typeof node === "string" && /^var\(--([a-z0-9-]+)(?:\/([0-9.]+))?\)$/.exec(node);
  return role ? palette(role[1], role[2]) : node;
}

function currentPalette() {
  const style = getComputedStyle(document.documentElement);
  return (name, opacity) => {
    const hex = style.getPropertyValue(`--${name}`).trim();
    if (!opacity) return hex;
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    return `rgba(${r},${g},${b},${opacity})`;
  };
}

function clock(milliseconds) {
  return new Date(milliseconds).toISOString().slice(11, 23);
}

function traces(figure, palette) {
  const drawn = painted(figure.data, palette);
  if (figure.layout.hovermode === "x unified") {
    // An invisible line whose hover text, first in the box, is the time of day.
    const { x, y } = drawn[0];
    drawn.unshift({
      type: "scatter", mode: "lines", line: { width: 0 }, x, y,
      customdata: x.map((second) => clock(figure.origin + 1000 * second)),
      hovertemplate: "%{customdata} UTC<extra></extra>",
    });
  }
  return drawn;
}

function duration(value) {
  return value >= 1000 ? `${+(value / 1000).toPrecision(3)} s` : `${+value.toPrecision(3)} ms`;
}

/** The ticks of a log axis: decades, or on a short axis also 2 and 5 times each decade. */
function logTicks([low, high]) {
  const steps = high - low > 2 ? [1] : [1, 2, 5];
  const ticks = [];
  for (let decade = Math.floor(low); decade <= high; decade++) {
    ticks.push(...steps.map((step) => step * 10 ** decade));
  }
  return ticks.filter((tick) => Math.log10(tick) >= low && Math.log10(tick) <= high);
}

function visible(figure, [begin, end]) {
  const points = figure.data.filter((trace) => trace.mode !== "markers" || figure.follow === "log")
    .flatMap((trace) => trace.x.map((x, at) => [x, trace.y[at]]));
  return points.filter(([x, y]) => x >= begin && x <= end && y !== null && y > 0);
}

/**
 * The y axis for the visible values. A burst much higher than the rest, such as clients that catch
 * up, is cut off, and an annotation has its height.
 */
function followed(figure, range) {
  const points = visible(figure, range);
  if (!figure.follow || points.length === 0) return {};
  const values = points.map(([, y]) => y).sort((a, b) => a - b);
  const highest = values[values.length - 1];
  if (figure.follow === "log") {
    const shown = [Math.log10(values[0]) - 0.15, Math.log10(highest) + 0.15];
    const tickvals = logTicks(shown);
    return { yaxis: { range: shown, tickvals, ticktext: tickvals.map(duration) } };
  }
  const usual = 2 * values[Math.floor(0.9 * (values.length - 1))];
  if (figure.follow === "all" || highest <= 1.5 * usual) {
    return { yaxis: { range: [0, 1.08 * highest] } };
  }
  const [at] = points.find(([, y]) => y === highest);
  const right = at > (range[0] + range[1]) / 2;
  return {
    yaxis: { range: [0, usual] },
    annotations: [{
      x: at, y: 1, xref: "x", yref: "paper", yanchor: "top", xanchor: right ? "right" : "left",
      xshift: right ? -6 : 6, bgcolor: "var(--surface)", borderpad: 1,
      text: `\u2191 up to ${Math.round(highest).toLocaleString("en")}/s`,
      font: { size: 11, color: "var(--ink)" },
    }],
  };
}

function layout(figure, palette, range) {
  const { xaxis, annotations, ...rest } = figure.layout;
  const own = figure.run ? followed(figure, range || xaxis.range) : {};
  return painted({
    ...rest,
    template,
    font: { family: getComputedStyle(document.body).fontFamily },
    dragmode: finger.matches ? false : "zoom",
    annotations: [...(annotations || []), ...(own.annotations || [])],
    xaxis: { ...xaxis, ...(range && { range }) },
    yaxis: { ...rest.yaxis, ...own.yaxis },
  }, palette);
}

const ranges = {};

/** The configurations that the filter of a page of trends hides. */
const hidden = new Set();

/** Leaves out the points and rows of hidden configurations; `meta` has that of each. */
function filtered(figure) {
  if (hidden.size === 0) return figure;
  const rows = figure.layout.meta;
  const kept = rows && rows.flatMap((name, at) => (hidden.has(name) ? [] : [at]));
  const data = figure.data.map((trace) => {
    if (!trace.meta) return trace;
    const pick = (node) => {
      if (Array.isArray(node)) return node.filter((_, at) => !hidden.has(trace.meta[at]));
      if (node === null || typeof node !== "object") return node;
      return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, pick(value)]));
    };
    const picked = pick(trace);
    if (kept) picked.y = picked.y.map((y) => -kept.indexOf(-y));
    return picked;
  });
  if (!kept) return { ...figure, data };
  const { height, yaxis, annotations, ...rest } = figure.layout;
  const fewer = rows.length - kept.length;
  const step = (height - 70) / rows.length;
  return {
    ...figure, data,
    layout: {
      ...rest,
      height: height - fewer * step,
      yaxis: { ...yaxis, range: [yaxis.range[0] + fewer, yaxis.range[1]] },
      annotations: kept.map((at, now) => ({ ...annotations[at], y: annotations[at].y + at - now })),
    },
  };
}

function draw(element) {
  const figure = filtered(figures[element.id]);
  element.style.minHeight = `${figure.layout.height}px`;
  const palette = currentPalette();
  return Plotly.react(
    element,
    traces(figure, palette),
    layout(figure, palette, figure.run && ranges[figure.run]),
    { displayModeBar: false, responsive: true, doubleClick: false },
  );
}

function zoom(run, range) {
  ranges[run] = range;
  for (const element of document.querySelectorAll(".plot")) {
    if (figures[element.id].run === run) draw(element);
  }
  for (const button of document.querySelectorAll(`button[data-run="${run}"]`)) {
    const pressed = JSON.parse(button.dataset.range).every((end, at) => end === range[at]);
    button.setAttribute("aria-pressed", String(pressed));
  }
}

function whole(figure) {
  return [...figure.layout.xaxis.range];
}

/** The name of a column without its explanation; it may have hints for line breaks. */
function heading(cell) {
  const parts = [...cell.childNodes].filter((part) => !part.classList?.contains("sub"));
  const name = parts.map((part) => part.textContent).join("").trim();
  return name.replaceAll(".", ".\u200b");  // a line may break there
}

/** Gives each cell its column's name, because on a narrow screen a row is a card. */
function label(table) {
  const names = [...table.tHead.rows[0].cells].map(heading);
  for (const row of table.tBodies[0].rows) {
    let at = 0;
    for (const cell of row.cells) {
      if (cell.colSpan === 1 && at > 0) cell.dataset.label = names[at];
      cell.setAttribute("role", cell.tagName === "TH" ? "rowheader" : "cell");
      at += cell.colSpan;
    }
    row.setAttribute("role", "row");
  }
  table.setAttribute("role", "table");
  table.tBodies[0].setAttribute("role", "rowgroup");
  table.classList.add("stacks");
}

document.querySelectorAll("table").forEach(label);

const elements = document.querySelectorAll(".plot");
if (typeof Plotly === "undefined" && elements.length > 0) {
  const note = document.createElement("p");
  note.className = "notice missing";
  note.textContent = "The plots need the file " +
    `${document.getElementById("library").getAttribute("src")}, which belongs beside this page. ` +
    "The tables hold the numbers.";
  document.querySelector("main").prepend(note);
  elements.forEach((element) => element.closest("figure").remove());
}

for (const element of typeof Plotly === "undefined" ? [] : elements) {
  const figure = figures[element.id];
  draw(element).then(() => {
    element.dataset.drawn = "yes";
    if (!figure.run) {
      element.on("plotly_doubleclick", () => draw(element));
      element.on("plotly_click", ({ points: [point] }) => {
        if (point.customdata) location.href = point.customdata;
      });
      return;
    }
    element.on("plotly_doubleclick", () => zoom(figure.run, whole(figure)));
    element.on("plotly_relayout", (change) => {
      const range = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      if (range.every((end) => typeof end === "number")) zoom(figure.run, range);
    });
  });
}

for (const button of document.querySelectorAll("button[data-range]")) {
  button.addEventListener("click", () => zoom(button.dataset.run, JSON.parse(button.dataset.range)));
}

for (const filter of document.querySelectorAll(".filter")) {
  filter.hidden = false;
  filter.addEventListener("change", ({ target }) => {
    hidden[target.checked ? "delete" : "add"](target.value);
    for (const row of document.querySelectorAll("tr[data-configuration]")) {
      row.hidden = hidden.has(row.dataset.configuration);
    }
    document.querySelectorAll(".plot").forEach(draw);
  });
}

dark.addEventListener("change", () => document.querySelectorAll(".plot").forEach(draw));
