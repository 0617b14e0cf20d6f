"use strict";
// Colours and pictures of a slice; page.js holds the data, the state and the controls.

const VIRIDIS = ["440154", "482878", "3e4989", "31688e", "26828e", "1f9e89", "35b779", "6ece58",
  "b5de2b", "fde725"].map((text) => [0, 2, 4].map((k) => parseInt(text.slice(k, k + 2), 16)));
// By code, as in the pictures of `fleetcube plot`: those of the parts in base.css
const PALETTE = Array.from({ length: 8 }, (_, k) => {
  const probe = document.body.appendChild(element("i", { class: `c${k}` })), { fill } = getComputedStyle(probe);
  probe.remove();
  return fill.match(/\d+/g).map(Number);
});
const INFEASIBLE = [217, 217, 217];
const FEASIBLE = PALETTE[7];
const REASONS = [1, 4, 3, 6, 0, 5, 2]; // of the palette, for more flags than it has; as in plot
const UNDEFINED = [244, 244, 244];
const BELOW = [120, 0, 160], ABOVE = [200, 30, 30]; // beyond the colour scale

let grey = true; // whether infeasible points are grey
let kept = null; // the value scale that is kept, and of what
const hits = {}; // by picture: a function from its units to the point there

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

// Ticks of a scale whose logarithms are drawn
const marks = (low, high, log, most) => log
  ? ticks(10 ** low, 10 ** high, true, most).filter((v) => v > 0).map((v) => [Math.log10(v), digits(v, 6)])
  : ticks(low, high, false, most).map((v) => [v, digits(v, 6)]);

function axisScale(axis, most) {
  const row = places(axis), edges = edgesOf(row), [low, high] = [edges[0], edges.at(-1)];
  const few = axis.scale === "labels" || row.length <= 12;
  return { low, high, edges, row, heading: heading(axis.title, axis.unit),
    marks: few ? row.map((v, k) => [v, axis.labels[k]]) : marks(low, high, axis.scale === "log", most) };
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
  const chosen = at("spacing").value;
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
  if (at("keep").checked && kept && kept.of === of) return kept.scale;
  for (const end of scale.flags ? [] : ["low", "high"]) {
    const text = at(end).value.trim(), limit = Number(text);
    const good = text === "" || (Number.isFinite(limit) && (!scale.log || limit > 0));
    at(end).setAttribute("aria-invalid", String(!good));
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

const path = (name, d) => drawn("path", { class: name, d });
const tall = (share, least) => Math.max(least, Math.min(900, share * innerHeight));

// An image of colours by the share of its width and of its height
function raster(box, width, height, colourOf) {
  const canvas = element("canvas", { width, height }), pen = canvas.getContext("2d");
  const image = pen.createImageData(width, height), pixels = new Uint32Array(image.data.buffer); // ABGR
  for (let q = 0; q < height; q++) for (let p = 0; p < width; p++) pixels[q * width + p] = colourOf((p + 0.5) / width, 1 - (q + 0.5) / height);
  pen.putImageData(image, 0, 0);
  return drawn("image", { href: canvas.toDataURL(), x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top, preserveAspectRatio: "none" });
}

// Cells of equal width are a pixel each, others as many as the screen has
function fineness({ edges }, size) {
  const steps = edges.slice(1).map((edge, k) => edge - edges[k]);
  return Math.max(...steps) < 1.001 * Math.min(...steps) ? steps.length : Math.max(1, Math.round(size * (window.devicePixelRatio || 1)));
}

const packed = ([red, green, blue]) => 0xff000000 + blue * 65536 + green * 256 + red;
const place = ({ edges }, share) => within(edges, edges[0] + share * (edges.at(-1) - edges[0]));

function drawMap() {
  const { x, y } = data, svg = at("map"), across = axisScale(x, 9), up = axisScale(y, 10), n = x.picks.length;
  const box = blank(svg, tall(0.46, 300), across, up, data.flags ? 30 : 110);
  const scale = mapScale(), colours = Uint32Array.from(data.values, (_, k) => packed(colourAt(k, scale)));
  const cells = new Map(); // of a share across
  const column = (share) => cells.get(share) ?? (cells.set(share, place(across, share)), cells.get(share));
  let row = [];
  svg.append(raster(box, fineness(across, box.right - box.left), fineness(up, box.bottom - box.top), (p, q) => {
    if (row[0] !== q) row = [q, n * place(up, q)];
    return colours[row[1] + column(p)];
  }));
  if (!data.flags && !scale.empty) colourBar(svg, scale, { ...box, left: box.right + 16, right: box.right + 30 });
  const px = box.X(across.row[pickOf(x)]), py = box.Y(up.row[pickOf(y)]);
  for (const name of ["under", "over"]) svg.append(drawn("circle", { class: name, r: 5, cx: px, cy: py }), path(name,
    `M${px} ${box.top}V${py - 5}M${px} ${py + 5}V${box.bottom}M${box.left} ${py}H${px - 5}M${px + 5} ${py}H${box.right}`));
  hits.map = (px, py) => {
    const [right, rise] = [(px - box.left) / (box.right - box.left), (box.bottom - py) / (box.bottom - box.top)];
    if (right < 0 || right > 1 || rise < 0 || rise > 1) return null;
    const a = place(across, right), b = place(up, rise);
    return { k: b * n + a, at: { [x.name]: x.picks[a], [y.name]: y.picks[b] }, labels: [[x, a], [y, b]] };
  };
  legend();
}

function colourBar(svg, scale, box) {
  const Y = (value) => box.bottom - (value - scale.low) / (scale.high - scale.low) * (box.bottom - box.top);
  svg.append(raster(box, 1, 256, (_, share) => packed(RAMP[Math.round(255 * share)])));
  for (const [value, text] of marks(scale.low, scale.high, scale.log, 9))
    if (Y(value) >= box.top && Y(value) <= box.bottom) svg.append(drawn("text", { x: box.right + 5, y: Y(value) + 4 }, text));
  svg.append(drawn("text", { x: box.right + 40, y: 12, "text-anchor": "end" }, data.unit));
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
  at("legend").replaceChildren(...entries.map(([colour, text]) => {
    const swatch = element("i");
    swatch.style.background = css(colour);
    return element("span", {}, swatch, text);
  }));
}

// A line through the points that are seen
function joined(points) {
  let d = "", pen = "M";
  for (const [x, y] of points) {
    if (Number.isFinite(y)) { d += `${pen}${x} ${y}`; pen = "L"; } else pen = "M";
  }
  return d;
}

// A curve over one axis: the values at `row` of the slice; `marked` is the current point
function drawCurve(svg, axis, row, marked) {
  const values = row.map((k) => data.values[k]), base = values[marked];
  const feasible = (n) => !greyAt(row[n]), ends = band?.[axis.name];
  const others = over.filter((other) => other.axis === axis.name);
  // several variables share no unit: each is drawn as a ratio to its value at the point
  const ratio = others.length > 0 && !data.flags && Number.isFinite(base) && base !== 0;
  if (ratio) values.forEach((value, n) => { values[n] = value / base; });
  const more = ratio ? others.map((other) => ({ title: other.title,
    values: Array.from(other.values, (value) => value / other.values[marked]) })) : [];
  const span = ends && !ratio ? ["low", "high"].map((end) => Array.from(ends[end], (value) => value / data.factor)) : [];
  const seen = [...values, ...more.flatMap((line) => line.values)].filter((_, n) => feasible(n % values.length));
  const scale = valueScale([...seen, ...span.flat()], () => true);
  if (scale.empty) Object.assign(scale, valueScale(values, () => true));
  const across = axisScale(axis, widthOf(svg.parentElement) / 62), up = { heading: ratio ? "ratio to the point" : heading(data.title, data.unit) };
  const codes = scale.flags ? [...new Set(values)].sort((a, b) => a - b) : [];
  const room = scale.empty ? 0 : 0.06 * (scale.high - scale.low);
  const height = svg.id === "map" ? tall(0.46, 300) : tall(0.36, 230);
  Object.assign(up, scale.flags ? { low: -0.5, high: codes.length - 0.5, marks: codes.map((code, k) => [k, data.flags[code] ?? "undefined"]) }
    : { low: scale.low - room, high: scale.high + room, marks: marks(scale.low - room, scale.high + room, scale.log, height / 34) });
  const { X, Y, left, right, top, bottom } = blank(svg, height, across, up);
  // infeasible points may lie beyond the picture
  const point = (value, n) => {
    const y = Y(scale.flags ? codes.indexOf(value) : scaled(scale, value));
    return [X(across.row[n]), y >= top - 1 && y <= bottom + 1 ? y : NaN];
  };
  const known = span.length ? ends.places.map((n, m) => [n, m]).filter(([n, m]) => feasible(n) && span.every((end) => Number.isFinite(end[m]))) : [];
  const edge = (end) => known.map(([n, m]) => `${X(across.row[n])} ${Y(scaled(scale, span[end][m]))}`);
  if (known.length) svg.append(path("band", `M${[...edge(0), ...edge(1).reverse()].join("L")}Z`));
  more.forEach((line, m) => svg.append(
    path(`other${m}`, joined(line.values.map((value, n) => feasible(n) ? point(value, n) : [0, NaN])) + `M${left + 8} ${top + 26 + 15 * m}h26`),
    drawn("text", { x: left + 40, y: top + 30 + 15 * m }, line.title)));
  if (ratio) svg.append(path("line picked", `M${left + 8} ${top + 11}h26`), drawn("text", { x: left + 40, y: top + 15 }, data.title));
  const points = values.map(point);
  svg.append(path("mark", `M${X(across.row[marked])} ${top}V${bottom}`));
  if (axis.scale !== "labels" && !scale.flags) svg.append(path("line picked", joined(points)));
  points.forEach(([cx, cy], k) => {
    if (Number.isNaN(cy) || !(points.length <= 80 || scale.flags || k === marked)) return;
    const infeasible = data.reason && data.reason[row[k]] !== 0;
    svg.append(drawn("circle", { class: `${infeasible ? "none" : "dot"}${k === marked ? " now" : ""}`, r: k === marked ? 5 : 2.6, cx, cy }));
  });
  hits[svg.id] = (px) => {
    if (px < left || px > right) return null;
    const n = place(across, (px - left) / (right - left));
    return { k: row[n], at: { [axis.name]: axis.picks[n] }, labels: [[axis, n]] };
  };
}
