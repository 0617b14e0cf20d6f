"use strict";
// Scales, colours and pictures; page.js holds the data, the state and the controls.

const VIRIDIS = ["440154", "482878", "3e4989", "31688e", "26828e", "1f9e89", "35b779", "6ece58",
  "b5de2b", "fde725"].map((text) => [0, 2, 4].map((k) => parseInt(text.slice(k, k + 2), 16)));
// By code, as in the pictures of `fleetcube plot`: PARTS of show/theme.py
const PALETTE = ["3b1f5b", "1f4e9e", "b3401c", "0b8a6f", "d9822b", "6fb7e8", "f2cf4a", "e9edf1"]
  .map((text) => [0, 2, 4].map((k) => parseInt(text.slice(k, k + 2), 16)));
const INFEASIBLE = [217, 217, 217];
const FEASIBLE = PALETTE[7];
const REASONS = [1, 4, 3, 6, 0, 5, 2]; // of the palette, for more flags than it has; as in plot
const UNDEFINED = [244, 244, 244];
const BELOW = [120, 0, 160], ABOVE = [200, 30, 30]; // beyond the colour scale
const DASHES = [[6, 3], [2, 3], [9, 3, 2, 3], [4, 2, 1, 2], [12, 4]];
let INK, SOFT, LINE, BLUE, FRAME, MARK, PAPER; // of the page's colour scheme
const FONT = "12px system-ui, sans-serif";

let grey = true; // whether infeasible points are grey
let kept = null; // the value scale that is kept, and of what

// Colours of the page, which follow the scheme and forced colours
function themed() {
  const style = getComputedStyle(document.documentElement);
  [INK, SOFT, LINE, BLUE, FRAME, MARK, PAPER] = ["ink", "soft", "line", "blue", "frame", "ink", "paper"]
    .map((name) => style.getPropertyValue(`--${name}`).trim());
  if (!matchMedia("(forced-colors: active)").matches) return;
  INK = SOFT = FRAME = MARK = "CanvasText";
  [LINE, BLUE, PAPER] = ["GrayText", "LinkText", "Canvas"];
}

// Scales: positions of points and values

function places(axis) {
  if (axis.scale === "labels") return axis.labels.map((_, k) => k);
  return axis.scale === "log" ? axis.values.map(Math.log10) : axis.values;
}

function edgesOf(at) {
  const n = at.length;
  if (n === 1) return [at[0] - 0.5, at[0] + 0.5];
  const inner = at.slice(1).map((value, k) => (value + at[k]) / 2);
  return [(3 * at[0] - at[1]) / 2, ...inner, (3 * at[n - 1] - at[n - 2]) / 2];
}

function evenTicks(low, high, most) {
  const rough = (high - low) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((m) => m * power >= rough) ?? 10);
  const ticks = [];
  for (let k = Math.ceil(low / step); k * step <= high && ticks.length < 50; k++) ticks.push(k * step);
  return ticks.map((value) => [value, formatted(Number(value.toPrecision(10)), 6)]);
}

function logTicks(low, high, most) {
  const all = (steps) => {
    const ticks = [];
    for (let p = Math.floor(low); p <= Math.ceil(high); p++) {
      for (const m of steps) {
        const at = p + Math.log10(m);
        if (at >= low && at <= high) ticks.push([at, formatted(m * 10 ** p, 6)]);
      }
    }
    return ticks;
  };
  const ticks = [[1, 2, 5], [1, 3], [1]].map(all).find((ticks) => ticks.length <= most);
  if (ticks && ticks.length > 1) return ticks;
  const wide = all([1]);
  if (wide.length > most) return wide.filter((_, k) => k % Math.ceil(wide.length / most) === 0);
  return evenTicks(10 ** low, 10 ** high, most).filter(([v]) => v > 0)
    .map(([v, text]) => [Math.log10(v), text]);
}

function axisTicks(axis, low, high, most) {
  const at = places(axis);
  if (axis.scale === "labels" || at.length <= 12) return at.map((v, k) => [v, axis.labels[k]]);
  return (axis.scale === "log" ? logTicks : evenTicks)(low, high, most);
}

// The range of values, on a log scale if it is wide
function valueScale(values, use) {
  if (data.flags) return { flags: true };
  let low = Infinity, high = -Infinity;
  for (let k = 0; k < values.length; k++) {
    if (Number.isFinite(values[k]) && use(k)) {
      low = Math.min(low, values[k]);
      high = Math.max(high, values[k]);
    }
  }
  if (low > high) return { low: 0, high: 1, log: false, empty: true };
  const chosen = $("spacing").value;
  const log = low > 0 && (chosen === "auto" ? high / low > 50 : chosen === "log");
  if (log) [low, high] = [Math.log10(low), Math.log10(high)];
  if (high - low <= 1e-12 * Math.abs(high)) {
    const room = log ? 0.1 : Math.abs(high) * 0.1 || 1;
    [low, high] = [low - room, high + room];
  }
  return { low, high, log };
}

const scaled = (scale, value) => (scale.log ? Math.log10(value) : value);

function mapScale() {
  const scale = valueScale(data.values, (k) => !greyAt(k));
  const of = `${data.variable} ${data.unit}`;
  if ($("keep").checked && kept && kept.of === of) return kept.scale;
  for (const end of scale.flags ? [] : ["low", "high"]) {
    const text = $(end).value.trim(), limit = Number(text);
    const good = text === "" || (Number.isFinite(limit) && (!scale.log || limit > 0));
    $(end).setAttribute("aria-invalid", String(!good));
    if (text !== "" && good) scale[end] = scaled(scale, limit);
  }
  if (scale.low >= scale.high) {
    report("the lower limit of the colours is not below the upper; they are not used", true);
    return valueScale(data.values, (k) => !greyAt(k));
  }
  if (!scale.empty) kept = { of, scale };
  return scale;
}

function blend(share) {
  const at = Math.min(1, Math.max(0, share)) * (VIRIDIS.length - 1);
  const k = Math.min(VIRIDIS.length - 2, Math.floor(at));
  return VIRIDIS[k].map((from, c) => Math.round(from + (VIRIDIS[k + 1][c] - from) * (at - k)));
}

const RAMP = Array.from({ length: 256 }, (_, k) => blend(k / 255));

function flagColour(code) {
  const codes = Object.keys(data.flags).map(Number);
  if (!codes.includes(code)) return UNDEFINED;
  if (codes.length <= PALETTE.length) return PALETTE[codes.indexOf(code)]; // by code
  if (code === 0) return FEASIBLE;
  const present = [...new Set(data.values)].filter((each) => each > 0).sort((a, b) => a - b);
  return PALETTE[REASONS[present.indexOf(code) % REASONS.length]];
}

const greyAt = (k) => grey && data.reason !== null && data.reason[k] !== 0;

function colourAt(k, scale) {
  if (greyAt(k)) return INFEASIBLE;
  const value = data.values[k];
  if (data.flags) return flagColour(value);
  if (Number.isNaN(value)) return UNDEFINED;
  const share = (scaled(scale, value) - scale.low) / (scale.high - scale.low);
  if (share < -1e-9) return BELOW;
  if (share > 1 + 1e-9) return ABOVE;
  return Number.isNaN(share) ? UNDEFINED : RAMP[Math.round(255 * Math.min(1, Math.max(0, share)))];
}

const css = (colour) => `rgb(${colour.join(",")})`;

// Drawing

function prepared(canvas) {
  const width = canvas.clientWidth, height = canvas.clientHeight;
  if (recorder) return { pen: recorder, width, height, ratio: 1 };
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.font = FONT;
  pen.textBaseline = "middle";
  return { pen, width, height, ratio };
}

// A function from values to pixels
function along(from, to, low, high) {
  return (value) => from + ((value - low) / (high - low)) * (to - from);
}

function short(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  let cut = text, kept = text.length;
  while (--kept > 1 && pen.measureText(cut).width > room) {
    cut = `${text.slice(0, Math.ceil(kept / 2))}\u2026${text.slice(-Math.floor(kept / 2))}`;
  }
  return cut;
}

// The least stride of labelled ticks at which neighbouring labels do not touch
function strideOf(ticks, clear) {
  for (let stride = 1; stride < ticks.length; stride++) {
    let good = true;
    for (let k = stride; k < ticks.length && good; k += stride) good = clear(k - stride, k);
    if (good) return stride;
  }
  return Math.max(1, ticks.length);
}

function ticksAcross(pen, ticks, place, box, name) {
  pen.textAlign = "center";
  pen.fillStyle = INK;
  pen.strokeStyle = FRAME;
  const room = Math.max(70, (box.right - box.left) / Math.max(1, ticks.length) - 6);
  const shown = ticks.map(([value, text]) => [place(value), short(pen, text, room)])
    .filter(([at]) => at > box.left - 0.5 && at < box.right + 0.5);
  const half = shown.map(([, text]) => pen.measureText(text).width / 2);
  const stride = strideOf(shown, (a, b) => shown[b][0] - shown[a][0] > half[a] + half[b] + 8);
  shown.forEach(([at, text], k) => {
    pen.beginPath();
    pen.moveTo(at, box.bottom);
    pen.lineTo(at, box.bottom + 4);
    pen.stroke();
    if (k % stride === 0) pen.fillText(text, at, box.bottom + 13);
  });
  pen.fillStyle = SOFT;
  pen.fillText(short(pen, name, box.right - box.left + 60), (box.left + box.right) / 2, box.bottom + 31);
}

function ticksUp(pen, ticks, place, box, name) {
  pen.textAlign = "right";
  pen.fillStyle = INK;
  pen.strokeStyle = FRAME;
  const shown = ticks.map(([value, text]) => [place(value), text])
    .filter(([at]) => at > box.top - 0.5 && at < box.bottom + 0.5);
  const stride = strideOf(shown, (a, b) => shown[a][0] - shown[b][0] > 14);
  shown.forEach(([at, text], k) => {
    pen.beginPath();
    pen.moveTo(box.left, at);
    pen.lineTo(box.left - 4, at);
    pen.stroke();
    if (k % stride === 0) pen.fillText(short(pen, text, box.left - 26), box.left - 7, at);
  });
  pen.save();
  pen.translate(9, (box.top + box.bottom) / 2);
  pen.rotate(-Math.PI / 2);
  pen.textAlign = "center";
  pen.fillStyle = SOFT;
  pen.fillText(short(pen, name, box.bottom - box.top + 40), 0, 0);
  pen.restore();
}

function leftFor(pen, ticks) {
  return 30 + Math.min(135, Math.max(20, ...ticks.map(([, text]) => pen.measureText(text).width)));
}

const pickOf = (axis) => {
  const wanted = state.at[axis.name];
  let best = 0;
  axis.picks.forEach((k, n) => {
    if (Math.abs(k - wanted) < Math.abs(axis.picks[best] - wanted)) best = n;
  });
  return best;
};

const within = (edges, value) => {
  let k = edges.findIndex((edge) => edge > value) - 1;
  if (k === -2) k = edges.length - 2;
  return Math.max(0, k);
};

const hits = {}; // by canvas: a function from pixels to the point there

function drawMap() {
  const { pen, width, height, ratio } = prepared($("map"));
  const { x, y } = data;
  const edges = { x: edgesOf(places(x)), y: edgesOf(places(y)) };
  const ends = (row) => [row[0], row[row.length - 1]];
  const box = { left: 0, right: width - (data.flags ? 30 : 104), top: 10, bottom: height - 44 };
  const up = axisTicks(y, ...ends(edges.y), 10);
  box.left = leftFor(pen, up);
  const acrossAt = along(box.left, box.right, ...ends(edges.x));
  const upAt = along(box.bottom, box.top, ...ends(edges.y));
  const scale = mapScale();

  const wide = Math.round((box.right - box.left) * ratio);
  const high = Math.round((box.bottom - box.top) * ratio);
  const image = pen.createImageData(wide, high);
  const columns = Array.from({ length: wide }, (_, p) => {
    const share = (p + 0.5) / wide;
    return within(edges.x, edges.x[0] + share * (edges.x.at(-1) - edges.x[0]));
  });
  const pixels = new Uint32Array(image.data.buffer); // ABGR
  const colours = Uint32Array.from(data.values, (_, k) => {
    const [red, green, blue] = colourAt(k, scale);
    return 0xff000000 + blue * 65536 + green * 256 + red;
  });
  for (let q = 0; q < high; q++) {
    const share = 1 - (q + 0.5) / high;
    const row = within(edges.y, edges.y[0] + share * (edges.y.at(-1) - edges.y[0]));
    for (let p = 0; p < wide; p++) {
      pixels[q * wide + p] = colours[row * x.picks.length + columns[p]];
    }
  }
  pen.putImageData(image, Math.round(box.left * ratio), Math.round(box.top * ratio));
  pen.strokeStyle = FRAME;
  pen.strokeRect(box.left, box.top, box.right - box.left, box.bottom - box.top);
  ticksAcross(pen, axisTicks(x, ...ends(edges.x), 9), acrossAt, box, heading(x.title, x.unit));
  ticksUp(pen, up, upAt, box, heading(y.title, y.unit));
  if (!data.flags && !scale.empty) colourBar(pen, scale, { ...box, left: box.right + 16, right: box.right + 30 });
  const i = pickOf(x), j = pickOf(y);
  cross(pen, acrossAt(places(x)[i]), upAt(places(y)[j]), box);
  hits.map = (px, py) => {
    if (px < box.left || px > box.right || py < box.top || py > box.bottom) return null;
    const share = (px - box.left) / (box.right - box.left);
    const rise = (box.bottom - py) / (box.bottom - box.top);
    const a = within(edges.x, edges.x[0] + share * (edges.x.at(-1) - edges.x[0]));
    const b = within(edges.y, edges.y[0] + rise * (edges.y.at(-1) - edges.y[0]));
    return { k: b * x.picks.length + a, at: { [x.name]: x.picks[a], [y.name]: y.picks[b] },
      labels: [[x, a], [y, b]] };
  };
  legend();
}

function cross(pen, px, py, box) {
  for (const [style, width] of [["#fff", 3], ["#000", 1]]) {
    pen.strokeStyle = style;
    pen.lineWidth = width;
    pen.beginPath();
    pen.moveTo(px, box.top);
    pen.lineTo(px, py - 5);
    pen.moveTo(px, py + 5);
    pen.lineTo(px, box.bottom);
    pen.moveTo(box.left, py);
    pen.lineTo(px - 5, py);
    pen.moveTo(px + 5, py);
    pen.lineTo(box.right, py);
    pen.globalAlpha = 0.45;
    pen.stroke();
    pen.globalAlpha = 1;
    pen.beginPath();
    pen.arc(px, py, 5, 0, 7);
    pen.stroke();
  }
  pen.lineWidth = 1;
}

function colourBar(pen, scale, box) {
  for (let q = 0; q < box.bottom - box.top; q++) {
    pen.fillStyle = css(RAMP[Math.round(255 * (1 - q / (box.bottom - box.top)))]);
    pen.fillRect(box.left, box.top + q, box.right - box.left, 1.5);
  }
  pen.strokeStyle = FRAME;
  pen.strokeRect(box.left, box.top, box.right - box.left, box.bottom - box.top);
  pen.fillStyle = INK;
  pen.textAlign = "left";
  const place = along(box.bottom, box.top, scale.low, scale.high);
  for (const [value, text] of (scale.log ? logTicks : evenTicks)(scale.low, scale.high, 9)) {
    const at = place(value);
    if (at >= box.top && at <= box.bottom) pen.fillText(text, box.right + 5, at);
  }
  pen.save();
  pen.translate(box.right + 64, (box.top + box.bottom) / 2);
  pen.rotate(-Math.PI / 2);
  pen.textAlign = "center";
  pen.fillStyle = SOFT;
  pen.fillText(short(pen, heading(data.title, data.unit), box.bottom - box.top), 0, 0);
  pen.restore();
}

function legend() {
  const entries = [];
  if (data.flags) {
    const seen = data.values.filter((_, k) => !greyAt(k));
    for (const code of [...new Set(seen)].sort((a, b) => a - b)) {
      entries.push([flagColour(code), data.flags[code] ?? "undefined"]);
    }
  } else if (data.values.some((value, k) => Number.isNaN(value) && !greyAt(k))) {
    entries.push([UNDEFINED, "undefined"]);
  }
  for (const [beyond, text] of data.flags || !data.y ? [] : [[BELOW, "below"], [ABOVE, "above"]]) {
    const scale = mapScale();
    const count = data.values.filter((_, k) => colourAt(k, scale) === beyond).length;
    if (count) entries.push([beyond, `${text} the colour scale: ${count.toLocaleString("en-US")}`]);
  }
  const codes = [...new Set(data.reason ?? [])].filter((code) => code !== 0);
  if (grey && codes.length) {
    const why = codes.map((code) => data.reasons[code] ?? "undefined").join(", ");
    entries.push([INFEASIBLE, `infeasible: ${why}`]);
  }
  $("legend").replaceChildren(...entries.map(([colour, text]) => {
    const entry = document.createElement("span"), swatch = document.createElement("i");
    swatch.style.background = css(colour);
    entry.append(swatch, text);
    return entry;
  }));
}

// A curve over one axis: the values at `row` of the slice; `marked` is the current point
function drawCurve(canvas, axis, row, marked) {
  const { pen, width, height } = prepared(canvas);
  const at = places(axis), edges = edgesOf(at);
  const values = row.map((k) => data.values[k]);
  const feasible = (n) => !greyAt(row[n]);
  const ends90 = band?.[axis.name];
  const others = over.filter((other) => other.axis === axis.name);
  const base = values[marked];
  // several variables share no unit: each is drawn as a ratio to its value at the point
  const ratio = others.length > 0 && !data.flags && Number.isFinite(base) && base !== 0;
  if (ratio) values.forEach((value, n) => { values[n] = value / base; });
  const lines = ratio ? others.map((other) => ({ title: other.title,
    values: Array.from(other.values, (value) => value / other.values[marked]) })) : [];
  const span = ends90 && !ratio ? ["low", "high"].map((end) =>
    Array.from(ends90[end], (value) => value / data.factor)) : [];
  const all = [...values, ...span.flat(), ...lines.flatMap((line) => line.values)];
  const scale = valueScale(all, (n) => n >= values.length + span.flat().length
    ? feasible((n - values.length - span.flat().length) % values.length)
    : n < values.length ? feasible(n) : true);
  if (scale.empty) Object.assign(scale, valueScale(values, () => true));
  let up, codes = [];
  if (scale.flags) {
    codes = [...new Set(values)].sort((a, b) => a - b);
    Object.assign(scale, { low: -0.5, high: codes.length - 0.5 });
    up = codes.map((code, k) => [k, data.flags[code] ?? "undefined"]);
  } else {
    const room = scale.empty ? 0 : 0.06 * (scale.high - scale.low);
    Object.assign(scale, { low: scale.low - room, high: scale.high + room });
    up = (scale.log ? logTicks : evenTicks)(scale.low, scale.high, height / 34);
  }
  const box = { left: leftFor(pen, up), right: width - 30, top: 8, bottom: height - 44 };
  const ends = [edges[0], edges.at(-1)];
  const acrossAt = along(box.left, box.right, ...ends);
  const upAt = along(box.bottom, box.top, scale.low, scale.high);
  pen.strokeStyle = LINE;
  for (const [value] of up) {
    pen.beginPath();
    pen.moveTo(box.left, upAt(value));
    pen.lineTo(box.right, upAt(value));
    pen.stroke();
  }
  pen.strokeStyle = FRAME;
  pen.strokeRect(box.left, box.top, box.right - box.left, box.bottom - box.top);
  if (span.length) {
    pen.fillStyle = BLUE;
    pen.globalAlpha = 0.18;
    pen.beginPath();
    const known = ends90.places.map((n, m) => [n, m]).filter(([n, m]) => feasible(n) &&
      Number.isFinite(span[0][m]) && Number.isFinite(span[1][m]));
    const edge = (end, list) => list.forEach(([n, m]) =>
      pen.lineTo(acrossAt(at[n]), upAt(scaled(scale, span[end][m]))));
    edge(0, known);
    edge(1, known.reverse());
    pen.fill();
    pen.globalAlpha = 1;
  }
  lines.forEach((line, m) => {
    pen.strokeStyle = m % 2 ? INK : css(PALETTE[2]);
    pen.setLineDash(DASHES[m % DASHES.length]);
    pen.lineWidth = 1.5;
    pen.beginPath();
    let down = false;
    line.values.forEach((value, n) => {
      const y = upAt(scaled(scale, value));
      const inside = Number.isFinite(y) && y >= box.top && y <= box.bottom && feasible(n);
      if (inside && down) pen.lineTo(acrossAt(at[n]), y);
      else if (inside) pen.moveTo(acrossAt(at[n]), y);
      down = inside;
    });
    pen.stroke();
    pen.setLineDash([]);
    pen.beginPath();
    pen.setLineDash(DASHES[m % DASHES.length]);
    pen.moveTo(box.left + 8, box.top + 26 + 15 * m);
    pen.lineTo(box.left + 34, box.top + 26 + 15 * m);
    pen.stroke();
    pen.setLineDash([]);
    pen.fillStyle = INK;
    pen.textAlign = "left";
    pen.fillText(line.title, box.left + 40, box.top + 26 + 15 * m);
  });
  if (ratio) {
    pen.fillStyle = BLUE;
    pen.textAlign = "left";
    pen.fillText(data.title, box.left + 40, box.top + 11);
    pen.fillRect(box.left + 8, box.top + 10, 26, 2);
  }
  const points = values.map((value, k) => {
    const shown = scale.flags ? codes.indexOf(value) : scaled(scale, value);
    const y = Number.isFinite(shown) ? upAt(shown) : NaN;
    return [acrossAt(at[k]), y >= box.top - 1 && y <= box.bottom + 1 ? y : NaN]; // infeasible ones may lie beyond
  });
  const x = acrossAt(at[marked]);
  pen.strokeStyle = MARK;
  pen.globalAlpha = 0.5;
  pen.beginPath();
  pen.moveTo(x, box.top);
  pen.lineTo(x, box.bottom);
  pen.stroke();
  pen.globalAlpha = 1;
  pen.strokeStyle = BLUE;
  pen.lineWidth = 1.8;
  if (axis.scale !== "labels" && !scale.flags) {
    pen.beginPath();
    let pens = false;
    for (const [px, py] of points) {
      if (Number.isNaN(py)) pens = false;
      else if (pens) pen.lineTo(px, py);
      else pen.moveTo(px, py);
      pens = !Number.isNaN(py);
    }
    pen.stroke();
  }
  const dots = points.length <= 80 || scale.flags;
  points.forEach(([px, py], k) => {
    if (Number.isNaN(py) || !(dots || k === marked)) return;
    pen.beginPath();
    pen.arc(px, py, k === marked ? 5 : 2.6, 0, 7);
    const infeasible = data.reason && data.reason[row[k]] !== 0;
    pen.fillStyle = infeasible ? css(INFEASIBLE) : BLUE;
    pen.strokeStyle = k === marked ? MARK : infeasible ? "#888" : BLUE;
    pen.fill();
    pen.lineWidth = 1;
    pen.stroke();
  });
  ticksAcross(pen, axisTicks(axis, ...ends, width / 62), acrossAt, box, heading(axis.title, axis.unit));
  ticksUp(pen, up, upAt, box, ratio ? "ratio to the point" : heading(data.title, data.unit));
  hits[canvas.id] = (px) => {
    if (px < box.left || px > box.right) return null;
    const share = (px - box.left) / (box.right - box.left);
    const n = within(edges, ends[0] + share * (ends[1] - ends[0]));
    return { k: row[n], at: { [axis.name]: axis.picks[n] }, labels: [[axis, n]] };
  };
}

// Pictures as SVG: the same drawing, by a pen that writes

let recorder = null;

function svgPen(width, height) {
  const escaped = (text) => String(text).replace(/[&<>"]/g, (letter) =>
    ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", "\"": "&quot;" })[letter]);
  const measure = document.createElement("canvas").getContext("2d");
  measure.font = FONT;
  const colour = (style) => { measure.fillStyle = style; return measure.fillStyle; };
  const kept = [], out = [];
  let path = "", move = "";
  const round = (value) => Math.round(100 * value) / 100;
  const put = (tag, attributes, text) => {
    const written = Object.entries(attributes).map(([key, value]) => ` ${key}="${escaped(value)}"`).join("");
    out.push(`<${tag}${written}${move ? ` transform="${move}"` : ""}` +
      (text === undefined ? "/>" : `>${escaped(text)}</${tag}>`));
  };
  const pen = {
    globalAlpha: 1, lineWidth: 1, fillStyle: "#000", strokeStyle: "#000", textAlign: "left", dash: [],
    beginPath() { path = ""; },
    moveTo(x, y) { path += `M${round(x)} ${round(y)}`; },
    lineTo(x, y) { path += `${path ? "L" : "M"}${round(x)} ${round(y)}`; },
    arc(x, y, r) { path += `M${round(x - r)} ${round(y)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`; },
    setLineDash(dash) { pen.dash = dash; },
    stroke() {
      put("path", { d: path, fill: "none", stroke: colour(pen.strokeStyle), "stroke-width": pen.lineWidth,
        "stroke-opacity": pen.globalAlpha, "stroke-dasharray": pen.dash.join(" ") || "none" });
    },
    fill() { put("path", { d: path, fill: colour(pen.fillStyle), "fill-opacity": pen.globalAlpha }); },
    fillRect(x, y, w, h) { put("rect", { x, y, width: w, height: h, fill: colour(pen.fillStyle) }); },
    strokeRect(x, y, w, h) {
      put("rect", { x, y, width: w, height: h, fill: "none", stroke: colour(pen.strokeStyle) });
    },
    fillText(text, x, y) {
      const anchor = { left: "start", center: "middle", right: "end" }[pen.textAlign];
      put("text", { x: round(x), y: round(y + 4), "text-anchor": anchor, fill: colour(pen.fillStyle) }, text);
    },
    measureText: (text) => measure.measureText(text),
    save() { kept.push(move); },
    restore() { move = kept.pop(); },
    translate(x, y) { move += ` translate(${round(x)} ${round(y)})`; },
    rotate(angle) { move += ` rotate(${round((180 * angle) / Math.PI)})`; },
    createImageData: (w, h) => new ImageData(w, h),
    putImageData(image, x, y) {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [image.width, image.height];
      canvas.getContext("2d").putImageData(image, 0, 0);
      put("image", { x, y, width: image.width, height: image.height, href: canvas.toDataURL() });
    },
    text: (title, about) => `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" ` +
      `viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="12">` +
      `<title>${escaped(title)}</title><desc>${escaped(about)}</desc>` +
      `<rect width="100%" height="100%" fill="${colour(PAPER)}"/>${out.join("\n")}</svg>\n`,
  };
  return pen;
}

// The main picture as SVG
function asSvg() {
  const { x, y } = data;
  recorder = svgPen($("map").clientWidth, $("map").clientHeight);
  try {
    if (y) drawMap();
    else if (x) drawCurve($("map"), x, x.picks.map((_, a) => a), pickOf(x));
    return recorder.text($("title").textContent, $("point").textContent);
  } finally {
    recorder = null;
    draw();
  }
}
