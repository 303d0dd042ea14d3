"use strict";

// Draws the plots in the colours of the style sheet and synchronises the time axes of a run.

const figures = JSON.parse(document.getElementById("figures").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
// On a touch screen, dragging across a plot scrolls the page.
const finger = matchMedia("(pointer: coarse)");

/** Replaces colour roles such as "@lost/0.2" in a figure by the colours of the present scheme. */
function painted(node, palette) {
  if (Array.isArray(node)) {
    return typeof node[0] === "number" ? node : node.map((item) => painted(item, palette));
  }
  if (node !== null && typeof node === "object") {
    return Object.fromEntries(
      Object.entries(node).map(([key, value]) => [key, painted(value, palette)]),
    );
  }
  return typeof node === "string" && /^@[a-z0-9-]+(\/[0-9.]+)?$/.test(node) ? palette(node) : node;
}

function currentPalette() {
  const style = getComputedStyle(document.documentElement);
  return (role) => {
    const [name, opacity] = role.slice(1).split("/");
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
  const drawn = painted(figure.data, palette).map((trace) => ({ showlegend: false, ...trace }));
  if (figure.layout.hovermode === "x unified") {
    // An invisible line whose hover text, first in the box, is the time of day.
    const { x, y } = drawn[0];
    drawn.unshift({
      type: "scatter", mode: "lines", line: { width: 0 }, showlegend: false, x, y,
      customdata: x.map((second) => clock(figure.origin + 1000 * second)),
      hovertemplate: "%{customdata} UTC<extra></extra>",
    });
  }
  return drawn;
}

function layout(figure, palette, range) {
  const axis = {
    gridcolor: "@line", linecolor: "@line", zerolinecolor: "@line", automargin: false,
    tickfont: { color: "@muted" }, title: { font: { size: 12, color: "@muted" } },
  };
  const { xaxis, yaxis, ...rest } = figure.layout;
  return painted({
    paper_bgcolor: "@clear", plot_bgcolor: "@clear",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: "@ink" },
    hoverlabel: { bgcolor: "@surface", bordercolor: "@edge", font: { color: "@ink" } },
    dragmode: finger.matches ? false : "zoom",
    ...rest,
    xaxis: {
      ...axis, showline: true, showgrid: false, zeroline: false, spikethickness: 1,
      spikecolor: "@muted", spikedash: "dot", ...xaxis,
      title: { ...axis.title, ...xaxis.title }, ...(range && { range }),
    },
    yaxis: { ...axis, fixedrange: true, zeroline: false, ...yaxis },
  }, (role) => (role === "@clear" ? "rgba(0,0,0,0)" : palette(role)));
}

const ranges = {};

function draw(element) {
  const figure = figures[element.id];
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
    if (figures[element.id].run === run) Plotly.relayout(element, { "xaxis.range": range });
  }
  for (const button of document.querySelectorAll(`button[data-run="${run}"]`)) {
    const pressed = JSON.parse(button.dataset.range).every((end, at) => end === range[at]);
    button.setAttribute("aria-pressed", String(pressed));
  }
}

function whole(figure) {
  return [...figure.layout.xaxis.range];
}

for (const element of document.querySelectorAll(".plot")) {
  const figure = figures[element.id];
  draw(element).then(() => {
    element.dataset.drawn = "yes";
    if (!figure.run) {
      element.on("plotly_doubleclick", () => draw(element));
      return;
    }
    element.on("plotly_doubleclick", () => zoom(figure.run, whole(figure)));
    element.on("plotly_relayout", (change) => {
      const range = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      // A drag reports its range in two keys, our own relayout in one.
      if (range.every((end) => typeof end === "number")) zoom(figure.run, range);
    });
  });
}

for (const button of document.querySelectorAll("button[data-range]")) {
  button.addEventListener("click", () => zoom(button.dataset.run, JSON.parse(button.dataset.range)));
}

dark.addEventListener("change", () => document.querySelectorAll(".plot").forEach(draw));
