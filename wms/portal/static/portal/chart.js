// Charts. Each <figure data-chart="{…}"> gets a plot of its numbers, drawn by uPlot into its element `.plot`, which has
// data-keep: a live page changes the attribute only, and the plot follows. templates/portal/_chart.html writes both,
// with a table of the same numbers for readers without a script or a screen.
//
//   {"x": "time" | "elapsed",  seconds since 1970, or since a start
//    "at": [0, 30, …],
//    "stacked": false,
//    "series": [{"label": "Memory", "unit": "MB", "color": "--running-mark", "look": "line" | "dashed" | "area" | "bars",
//                "values": [12.5, null, …]}, …]}

const HEIGHT_PX = 240;
const FONT = "12px system-ui, sans-serif";
const COLORS = ["--running-mark", "--done-mark", "--held-mark", "--failed-mark", "--killed-mark", "--waiting-mark"];
const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

// Labels of times, by the seconds between two: the usual one, and what is added when a year or a day begins.
const TIMES = [
  [31536000, "{YYYY}", null, null, null, null, null, null, 1],
  [2419200, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
  [86400, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
  [0.001, "{HH}:{mm}:{ss}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
];

/** The drawn figures: {text of the data, plot}. */
const drawn = new WeakMap();
const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const plot = drawn.get(target.closest("[data-chart]"))?.plot;
    if (plot && target.clientWidth && plot.width !== target.clientWidth) plot.setSize({ width: target.clientWidth, height: HEIGHT_PX });
  }
});

/** Return the color of a custom property as a canvas takes it: resolved for the present theme. */
function colorOf(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const color = getComputedStyle(probe).color;
  probe.remove();
  return color;
}

const number = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en-US", { maximumFractionDigits: 2 }));

/** Return seconds as text, such as "2 h 05 min". */
function duration(seconds) {
  const [h, min, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, Math.round(seconds % 60)];
  if (h) return min ? `${h} h ${String(min).padStart(2, "0")} min` : `${h} h`;
  return min ? (s ? `${min} min ${String(s).padStart(2, "0")} s` : `${min} min`) : `${s} s`;
}

/** Return the values to draw: of a stacked chart, the sums up to each series; what is not known stays a gap. */
function drawnValues({ at, series, stacked }) {
  if (!stacked) return series.map(({ values }) => values);
  const sums = at.map(() => 0);
  return series.map(({ values }) => values.map((value, i) => (value === null ? null : (sums[i] += value))));
}

/** Return whether a number stands between two that are not known, so that no line would show it. */
const isAlone = (value, i, values) => value !== null && (values[i - 1] ?? null) === null && (values[i + 1] ?? null) === null;

function seriesOf(data, { label, unit, color, look, values }, index) {
  const line = colorOf(color || COLORS[index % COLORS.length]);
  const filled = data.stacked || look === "area" || look === "bars";
  return {
    label: unit ? `${label} (${unit})` : label,
    scale: unit || "n",
    stroke: line,
    width: 2,
    dash: look === "dashed" ? [6, 4] : undefined,
    // Opaque where series lie upon each other, so that each keeps its own color.
    fill: filled ? (data.stacked ? line : line.replace(/^rgb\((.*)\)$/, "rgba($1, 0.25)")) : undefined,
    paths: look === "bars" ? uPlot.paths.bars({ size: [0.8, 40] }) : undefined,
    points: { show: look !== "dashed" && values.some(isAlone) },
    spanGaps: false,
    value: (_plot, _drawn, _series, at) => (at === null ? "–" : number(values[at])),
  };
}

function axesOf(data) {
  const [text, grid] = [colorOf("--quiet"), colorOf("--line")];
  const look = { stroke: text, font: FONT, labelFont: FONT, ticks: { stroke: grid } };
  const x = { ...look, grid: { stroke: grid }, values: TIMES };
  if (data.x === "elapsed") Object.assign(x, { incrs: STEPS_S, space: 80, values: (_plot, splits) => splits.map(duration) });
  const units = [...new Set(data.series.map(({ unit }) => unit || "n"))];
  const ys = units.map((unit, index) => ({
    ...look,
    scale: unit,
    side: index ? 1 : 3,
    size: 64,
    label: unit === "n" ? undefined : unit,
    labelSize: 18,
    grid: { show: index === 0, stroke: grid },
    values: (_plot, splits) => splits.map(number),
  }));
  return { axes: [x, ...ys], units };
}

function draw(figure) {
  const text = figure.dataset.chart;
  const place = figure.querySelector(".plot");
  const before = drawn.get(figure);
  if (!place || !place.clientWidth || before?.text === text) return;
  const data = JSON.parse(text);
  before?.plot.destroy();
  for (const old of place.querySelectorAll(".plot-place, .save")) old.remove();
  const { axes, units } = axesOf(data);
  const scales = Object.fromEntries(units.map((unit) => [unit, { range: (_plot, _least, most) => [0, most > 0 ? most * 1.05 : 1] }]));
  const order = data.series.map((_series, index) => index);
  if (data.stacked) order.reverse(); // the highest sum first, the others in front of it
  const values = drawnValues(data);
  const options = {
    width: place.clientWidth,
    height: HEIGHT_PX,
    scales: { x: { time: data.x !== "elapsed" }, ...scales },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    axes,
    series: [
      data.x === "elapsed" ? { label: "After", value: (_plot, at) => (at === null ? "–" : duration(at)) } : { label: "UTC", value: "{YYYY}-{MM}-{DD} {HH}:{mm}" },
      ...order.map((index) => seriesOf(data, data.series[index], index)),
    ],
  };
  const plot = new uPlot(options, [data.at, ...order.map((index) => values[index])], place);
  plot.ctx.canvas.setAttribute("role", "img");
  plot.ctx.canvas.setAttribute("aria-label", `${figure.querySelector("figcaption")?.textContent ?? "Chart"}: the numbers are in the table below.`);
  drawn.set(figure, { text, plot });
  place.append(saveButton(figure, plot));
  sizes.observe(place);
}

/** Return a button that saves the plot as a picture, on the background of its card. */
function saveButton(figure, plot) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "save small quiet";
  button.textContent = "Save as PNG";
  button.addEventListener("click", () => {
    const picture = document.createElement("canvas");
    [picture.width, picture.height] = [plot.ctx.canvas.width, plot.ctx.canvas.height];
    const pen = picture.getContext("2d");
    pen.fillStyle = colorOf("--card");
    pen.fillRect(0, 0, picture.width, picture.height);
    pen.drawImage(plot.ctx.canvas, 0, 0);
    picture.toBlob((blob) => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = `${figure.id || "chart"}.png`;
      link.click();
      URL.revokeObjectURL(link.href);
    });
  });
  return button;
}

function drawAll() {
  document.querySelectorAll("figure[data-chart]").forEach(draw);
}

function redrawAll() {
  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    const before = drawn.get(figure);
    if (before) before.text = "";
  }
  drawAll();
}

drawAll();
document.addEventListener("toggle", drawAll, true); // one in a fold that is opened
new MutationObserver((changes) => {
  if (changes.some(({ target }) => !target.closest(".plot"))) requestAnimationFrame(drawAll);
}).observe(document.querySelector("main") ?? document.body, { childList: true, subtree: true, attributes: true, attributeFilter: ["data-chart"] });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
new MutationObserver(redrawAll).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme", "class", "style"] });
