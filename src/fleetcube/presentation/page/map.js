// A map of any output over two of inputs, axes of choices and axes of a cube, or a curve over one of them: what
// cannot run is hatched, and the point is a control.
const CUBE = DATA.cube ?? { axes: [], variables: [] };
const MOST_CELLS = 40000, MOST_SIDE = 40, MOST_CURVES = 8; // layouts tried for a map; points along its side
const colours = (text) => text.split(" ").map((each) => [0, 2, 4].map((k) => parseInt(each.slice(k, k + 2), 16)));
const VIRIDIS = colours("440154 482878 3e4989 31688e 26828e 1f9e89 35b779 6ece58 b5de2b fde725");
const DIVERGING = colours("1f4e9e 5f8fce b4cdea f4f4f4 f3c79b dd8a3c a04a00"); // of a ratio; 1 in the middle
const view = { of: "", x: "", y: "", beside: "", from: CUBE.axes.length ? "stored" : "computed" };
state.at = Object.fromEntries(CUBE.axes.map(({ name, picks }) => [name, nearest(picks ?? [], CUBE.start[name], CUBE.start[name])]));

const named = (name) => OUTPUTS.find((of) => of.name === name) ?? CUBE.variables.find((of) => of.name === name);
const digit = (choice, d) => Math.floor(choice / span(d)) % DATA.several[d].labels.length;
const span = (d) => DATA.several.slice(d + 1).reduce((product, { labels }) => product * labels.length, 1);
const withDigit = (choice, d, j) => choice + (j - digit(choice, d)) * span(d);

// The place of the nearest number of a row.
function nearest(row, wanted, none = 0) {
  return row.length ? row.reduce((best, own, j) => Math.abs(own - wanted) < Math.abs(row[best] - wanted) ? j : best, 0) : none;
}

// An axis: its points as numbers in base units or places of labels, and where they are among all of a cube's.
function axisOf(key, most) {
  const cube = CUBE.axes.find(({ name }) => name === key), d = DATA.several.findIndex(({ name }) => name === key);
  const k = d < 0 ? input(key) : undefined, own = cube ?? DATA.several[d] ?? INPUTS[k], { title, unit = "", factor = 1, labels } = own;
  const all = labels?.map((_, j) => j) ?? cube?.values ?? stops(INPUTS[k], DATA.bases[state.pick][k]);
  const row = !labels && INPUTS[k]?.count && !cube ? roundest(all, most).sort((a, b) => a - b) : [...few(all, most)];
  const now = k === undefined || labels ? row[0] : value(k);
  if (!cube && Number.isFinite(now) && (now < row[0] || now > row.at(-1))) row[now < row[0] ? "unshift" : "push"](now);
  const log = cube ? cube.log : row[0] > 0 && row.at(-1) / row[0] > 4;
  return { key, k, d, cube, title, unit, factor, labels, row, places: row.map((own) => all.indexOf(own)), log: !labels && log, count: INPUTS[k]?.count };
}

// Where the point is on an axis, and how it goes elsewhere.
function here({ key, k, d, cube, labels }) {
  if (d >= 0) return digit(choicesOf[state.cluster][0], d);
  if (k !== undefined) return labels ? nearest(cube.values, value(k)) : value(k);
  return labels ? state.at[key] : cube.values[state.at[key]];
}

function put({ key, k, d, cube, labels }, to) {
  if (d >= 0) Object.assign(state, { cluster: clusterOf[withDigit(choicesOf[state.cluster][0], d, to)], layout: null });
  else if (k !== undefined) move(k, labels ? cube.values[to] : to);
  else state.at[key] = labels ? to : cube.values.indexOf(to);
  later();
}

const pointOf = (axis, at) => axis.labels ? axis.labels[at] : `${digits(at / axis.factor, 6)} ${axis.unit}`.trimEnd();
const besides = () => [...CLUSTERS.length > 1 ? CLUSTERS.map((name, cluster) => ({ name, cluster, layout: null })) : [],
  ...DATA.layouts.length ? DATA.choices.map((name, layout) => ({ name, cluster: clusterOf[layout], layout })) : []];

// What is drawn: this choice, the one beside it; in a curve all clusters, where they are few.
function sidesOf() {
  const own = { name: state.layout === null ? CLUSTERS[state.cluster] : DATA.choices[state.layout], cluster: state.cluster, layout: state.layout };
  const other = besides().filter(({ name }) => name === view.beside);
  const rest = view.y || other.length || CLUSTERS.length > MOST_CURVES || view.from !== "computed" ? [] : CLUSTERS.map((name, cluster) => ({ name, cluster, layout: null })).filter(({ cluster }) => cluster !== state.cluster);
  return [own, ...other, ...rest];
}

const frame = () => new Promise(requestAnimationFrame);
let filling = 0;

// Values computed at each point of a grid, some milliseconds a frame, so that a slider never waits for them.
async function computed(side, x, y, of, run) {
  const k = OUTPUTS.indexOf(of), grid = { values: [], why: [], low: [], high: [] };
  let end = performance.now() + 6;
  for (const b of y ? y.row : [0]) for (const a of x.row) {
    if (performance.now() > end) { await frame(); if (run !== filling) return grid; end = performance.now() + 6; }
    const moved = new Map(state.moved);
    let choice = side.layout ?? (DATA.several.length ? choicesOf[side.cluster][0] : null);
    for (const [axis, at] of [[x, a], [y, b]]) {
      if (axis?.d >= 0) choice = withDigit(choice, axis.d, at);
      else if (axis) moved.set(axis.k, axis.labels ? axis.cube.values[at] : at);
    }
    const found = answer(choice ?? plan(side.cluster, moved).choice, moved, !y && !of.words);
    grid.values.push(isMissing(found, k) ? NaN : found.values[k]);
    grid.why.push(of.masked && found.why ? plainly(found.why) : null);
    grid.low.push(found.low[k]);
    grid.high.push(found.high[k]);
  }
  return grid;
}

// The values that a cube has at the points of a grid.
const replies = new Map();
const indexOn = (axis, side) => {
  const d = DATA.several.findIndex(({ name }) => name === axis.name), k = d < 0 ? input(axis.name) : undefined;
  const j = d >= 0 ? digit(choicesOf[side.cluster][0], d) : k === undefined ? state.at[axis.name] : nearest(axis.values, value(k));
  return axis.picks ? axis.picks[j] : j;
};

function queryOf(side) {
  const query = new URLSearchParams({ variable: view.of, x: view.x, ...view.y && { y: view.y } });
  for (const axis of CUBE.axes) if (axis.name !== view.x && axis.name !== view.y) query.set("at." + axis.name, indexOn(axis, side));
  return query;
}

async function stored(side, x, y) {
  const path = "/api/slice?" + queryOf(side);
  if (!replies.has(path)) {
    if (replies.size > 20) replies.clear();
    const reply = await fetch(path), slice = await reply.json();
    if (!reply.ok) throw new Error(slice.error);
    const unpacked = (text, Kind) => text && new Kind(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
    replies.set(path, { ...slice, values: unpacked(slice.values, Float64Array), reason: unpacked(slice.reason, Int8Array) });
  }
  const { values, reason, reasons, factor, unit } = replies.get(path), wide = x.cube.picks?.length ?? x.cube.size;
  const places = (y ? y.places : [0]).flatMap((b) => x.places.map((a) => b * wide + a));
  return { values: places.map((place) => values[place]), low: [], high: [], factor, unit,
    why: places.map((place) => named(view.of).masked && reason?.[place] ? plainly(reasons[reason[place]] ?? "undefined") : null) };
}

// The grids in view; a difference is of what is stored from what is computed.
async function gridsOf(sides, x, y, of, run) {
  const grids = [];
  for (const side of sides) {
    const kept = view.from === "computed" ? null : await stored(side, x, y), made = view.from === "stored" ? null : await computed(side, x, y, of, run);
    if (run !== filling) return null;
    grids.push(kept && made ? { ...kept, low: [], high: [], values: kept.values.map((own, j) => own === made.values[j] ? 0 : own / made.values[j] - 1) } : kept ?? made);
  }
  return grids;
}

let drawnMap; // what the map shows: its axes, its pictures, and the state that it is of
async function drawMap() {
  if (at("map").hidden) return;
  const run = ++filling, of = named(view.of), side = Math.max(12, Math.min(MOST_SIDE, Math.floor(Math.sqrt(MOST_CELLS / Math.max(...choicesOf.map((own) => own.length))))));
  const most = view.from === "stored" ? Infinity : side, [x, y] = [view.x, view.y].map((key) => key && axisOf(key, most)), sides = sidesOf();
  const free = [x, y].filter(Boolean), isFree = ({ k, key, d }) => free.some((axis) => axis.key === key || (k !== undefined && axis.k === k) || (d >= 0 && axis.d === d));
  const fixed = [...state.moved].filter(([k]) => !isFree({ k })), places = CUBE.axes.filter(({ name }) => !isFree({ key: name })).map((axis) => indexOn(axis, sides[0]));
  const choices = sides.map(({ cluster, layout }) => [layout, ...DATA.several.map((_, d) => isFree({ d }) ? "" : digit(choicesOf[cluster][0], d)), DATA.several.length || cluster]);
  const key = JSON.stringify([view, fixed, places, choices, free.map(({ row }) => row), widthOf(at("map"))]);
  buildOthers();
  if (drawnMap?.key === key) { at("map").classList.remove("stale"); placePoint(); return; }
  let grids;
  try { grids = await gridsOf(sides, x, y, of, run); } catch (error) {
    at("map-read").textContent = error instanceof TypeError ? "No answer: is fleetcube still running?" : error.message;
    return;
  }
  if (!grids || run !== filling) return;
  const kind = view.from === "difference" ? { ...of, title: of.title + ", stored over computed less 1", ...tiny(grids) } : { ...of, ...OUTPUTS.includes(of) && PROGRAMS.length ? {} : { factor: grids[0].factor, unit: grids[0].unit } };
  drawnMap = { key, of: kind, x, y, sides, grids, frames: [] };
  at("map").classList.toggle("broad", sides.length > 1 && Boolean(y));
  WIDTHS.clear();
  const across = cells(x), shade = y ? shadesOf(kind, grids) : undefined;
  const pictures = [at("map-picture"), at("map-other")];
  pictures[1].parentElement.hidden = !(y && sides[1]);
  if (y) sides.forEach((own, j) => paint(pictures[j], own, grids[j], kind, across, cells(y), shade));
  else curve(pictures[0], kind, across, sides, grids);
  at("map").classList.remove("stale");
  at("map-key").replaceChildren(...keysOf(kind, grids, shade));
  placePoint();
}

// The power of ten of small numbers, as their unit.
function tiny(grids) {
  const most = Math.max(...grids.flatMap(({ values }) => values.map(Math.abs).filter((own) => own < Infinity)), 1e-300), power = Math.floor(Math.log10(most));
  return { factor: 10 ** power, unit: "1e" + power };
}

// The scale of an axis, with a cell around each of its points.
function cells(axis) {
  const { row, labels, log, count } = axis, [to, back] = log ? [Math.log, Math.exp] : [Number, Number], at = row.map(to), n = at.length;
  const inner = at.slice(1).map((own, j) => (own + at[j]) / 2);
  const edges = n > 1 ? [2 * at[0] - inner[0], ...inner, 2 * at[n - 1] - inner[n - 2]].map(back) : [at[0] - 0.5, at[0] + 0.5].map(back);
  const ends = { low: edges[0], high: edges.at(-1), log };
  const scale = labels ? { ...ends, heading: axis.title, marks: row.map((own) => [own, labels[own]]) } : scaled(axis, ends, (count || axis.cube) && n <= 12 ? row : undefined);
  return { ...scale, marks: scale.marks.filter(([own]) => own >= ends.low && own <= ends.high), edges, row };
}

// Colours of values: of flags by code, of the ratio of losses around 1, of others from low to high.
function shadesOf(of, grids) {
  if (of.words) {
    const codes = Object.keys(of.words).map(Number), parts = Array.from({ length: 8 }, (_, k) => {
      const probe = document.body.appendChild(element("i", { class: "c" + k })), fill = getComputedStyle(probe).fill.match(/\d+/g).map(Number);
      probe.remove();
      return fill;
    });
    return { colour: (code) => code === 0 ? parts[7] : parts[codes.indexOf(code) % 7] };
  }
  const good = grids.flatMap(({ values, why }) => values.filter((own, j) => Number.isFinite(own) && !why[j])), ramp = OUTPUTS[RATIO]?.name === of.name ? DIVERGING : VIRIDIS;
  let [low, high] = ramp === DIVERGING ? [1 / 8, 8] : [good.reduce((a, b) => Math.min(a, b), Infinity), good.reduce((a, b) => Math.max(a, b), -Infinity)];
  const log = low > 0 && high / low > 50;
  if (!(low < high)) [low, high] = low === high ? [low - Math.abs(low || 1) * 0.1, low + Math.abs(low || 1) * 0.1] : [0, 1];
  const part = (own) => clamp(log ? Math.log(own / low) / Math.log(high / low) : (own - low) / (high - low), 0, 1);
  const colour = (own) => {
    const place = part(own) * (ramp.length - 1), k = Math.min(ramp.length - 2, Math.floor(place));
    return ramp[k].map((from, c) => Math.round(from + (ramp[k + 1][c] - from) * (place - k)));
  };
  const levels = ramp === DIVERGING ? [1] : ticks(low / of.factor, high / of.factor, log, 5).map((own) => own * of.factor).filter((own) => own > low && own < high);
  return { low, high, log, part, colour, levels, empty: !good.length };
}

// A picture of colours, a pixel each; those without a colour are left out.
function raster(left, top, width, height, colourOf) {
  const [wide, tall] = [width, height].map((own) => Math.max(1, Math.round(own))), canvas = element("canvas", { width: wide, height: tall }), pen = canvas.getContext("2d");
  const image = pen.createImageData(wide, tall), pixels = new Uint32Array(image.data.buffer);
  for (let q = 0; q < tall; q++) for (let p = 0; p < wide; p++) pixels[q * wide + p] = colourOf(p / wide, q / tall);
  pen.putImageData(image, 0, 0);
  return drawn("image", { href: canvas.toDataURL(), x: left, y: top, width, height, preserveAspectRatio: "none" });
}

const packed = ([red, green, blue]) => 0xff000000 + blue * 65536 + green * 256 + red;

// Paths where a grid crosses a level, between neighbours: marching squares.
function contour(px, py, values, level) {
  const segments = [], n = px.length;
  for (let b = 0; b + 1 < py.length; b++) for (let a = 0; a + 1 < n; a++) {
    const corners = [[a, b], [a + 1, b], [a + 1, b + 1], [a, b + 1]], own = corners.map(([i, j]) => values[j * n + i]);
    if (!own.every(Number.isFinite)) continue;
    const ends = own.flatMap((from, k) => {
      const to = own[(k + 1) % 4], [[i, j], [u, v]] = [corners[k], corners[(k + 1) % 4]], part = (level - from) / (to - from);
      return (from > level) === (to > level) ? [] : [[px[i] + part * (px[u] - px[i]), py[j] + part * (py[v] - py[j])]];
    });
    for (let k = 0; k + 1 < ends.length; k += 2) segments.push([ends[k], ends[k + 1]]);
  }
  return segments;
}

function paint(svg, side, { values, why }, of, across, up, shade) {
  const made = blank(svg, drawnMap.sides.length > 1 || !PROGRAMS.length ? 340 : 280, drawnMap.sides.length > 1 ? { ...across, heading: `${across.heading}: ${side.name}` } : across, up, of.words ? 14 : 66), { X, Y, left, right, top, bottom } = made;
  const n = across.row.length, px = across.edges.map(X), py = up.edges.map(Y), wide = right - left, tall = bottom - top;
  const column = Array.from({ length: Math.round(wide) }, (_, p) => px.findLastIndex((own) => own <= left + p + 0.5)), line = Array.from({ length: Math.round(tall) }, (_, q) => py.findLastIndex((own) => own >= top + q + 0.5));
  const shades = values.map((own, j) => why[j] || Number.isNaN(own) ? 0 : packed(shade.colour(own)));
  svg.append(raster(left, top, wide, tall, (p, q) => shades[line[Math.round(q * line.length)] * n + column[Math.round(p * column.length)]] ?? 0));
  hatch(svg, up.row.flatMap((_, b) => across.row.map((_, a) => [a, b])).filter(([a, b]) => why[b * n + a]).map(([a, b]) => `M${px[a]} ${py[b]}H${px[a + 1]}V${py[b + 1]}H${px[a]}Z`).join(""));
  const plain = values.map((own, j) => why[j] ? NaN : shade.log ? Math.log(own) : own), taken = [];
  for (const level of drawnMap.x.labels || drawnMap.y.labels || of.words || view.from === "difference" ? [] : shade.levels) {
    const segments = contour(across.row.map(X), up.row.map(Y), plain, shade.log ? Math.log(level) : level), ink = shade.levels.length > 1 && shade.part(level) < 0.55 ? "#fff" : "#000";
    if (!segments.length) continue;
    const width = shade.levels.length > 1 ? 1.1 : 2.2, text = digits(level / of.factor);
    svg.append(drawn("path", { fill: "none", stroke: ink, "stroke-width": width, d: segments.map(([a, b]) => `M${a.map((own) => own.toFixed(1)).join(" ")}L${b.map((own) => own.toFixed(1)).join(" ")}`).join("") }));
    const [place] = segments.map(([a]) => a).filter(([x, y]) => x > left + 24 && x < right - 24 && y > top + 14 && y < bottom - 8 && !taken.some(([u, v]) => Math.abs(u - x) < 48 && Math.abs(v - y) < 16)).sort((a, b) => Math.abs(a[0] - (left + right) / 2) - Math.abs(b[0] - (left + right) / 2));
    if (!place || shade.levels.length < 2) continue;
    taken.push(place);
    const label = svg.appendChild(drawn("text", { class: "level", x: place[0], y: place[1] + 4, "text-anchor": "middle" }, text));
    Object.assign(label.style, { fill: ink, stroke: `rgb(${shade.colour(level).join()})` });
  }
  if (!of.words && !shade.empty) {
    svg.append(raster(right + 10, top, 12, tall, (_, q) => packed(shade.colour(shade.log ? shade.low * (shade.high / shade.low) ** (1 - q) : shade.low + (shade.high - shade.low) * (1 - q)))));
    for (const own of ticks(shade.low / of.factor, shade.high / of.factor, shade.log, 6)) svg.append(drawn("text", { x: right + 26, y: bottom - shade.part(own * of.factor) * tall + 4 }, digits(own, 3)));
    svg.append(drawn("text", { x: right + 10, y: top - 6 }, of.unit));
  }
  drawnMap.frames.push({ made, X, Y, across, up, dot: svg.appendChild(drawn("circle", { class: "here", r: 6.5 })) });
  svg.setAttribute("aria-label", `${at("map-title").textContent}: ${keysOf(of, [{ values, why }], shade).map((own) => own.textContent).join(", ")}`);
}

// An area of what cannot run.
function hatch(svg, d) {
  const id = "hatch-" + svg.id, pattern = drawn("pattern", { id, width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
  pattern.append(drawn("rect", { class: "none", width: 7, height: 7 }), drawn("path", { class: "axis", d: "M0 0V7" }));
  if (d) svg.append(pattern, drawn("path", { class: "hatched", fill: `url(#${id})`, d }));
}

// A curve for each side, with the first one's interval; codes of flags and points of labels are dots.
function curve(svg, of, across, sides, grids) {
  const shown = grids.flatMap(({ values, why, low, high }) => values.flatMap((own, j) => why[j] ? [] : [own, low[j] ?? own, high[j] ?? own])).filter(Number.isFinite);
  const codes = [...new Set(shown)].sort((a, b) => a - b), ends = around(shown.length ? shown : [0, 1], 1.05);
  const up = of.words ? { low: -0.5, high: codes.length - 0.5, heading: of.title, marks: codes.map((code, j) => [j, plainly(of.words[code] ?? "undefined")]) } : scaled(of, ends);
  const made = blank(svg, PROGRAMS.length ? 280 : 340, across, up), { X, top, bottom } = made, Y = of.words ? (code) => made.Y(codes.indexOf(code)) : made.Y;
  const { values, why, low, high } = grids[0], px = across.edges.map(X), good = (grid, j) => !grid.why[j] && Number.isFinite(grid.values[j]);
  hatch(svg, why.map((own, j) => own ? `M${px[j]} ${top}H${px[j + 1]}V${bottom}H${px[j]}Z` : "").join(""));
  const known = across.row.map((_, j) => j).filter((j) => good(grids[0], j) && low[j] !== undefined);
  if (known.length > 1) svg.append(drawn("path", { class: "band", d: "M" + [...known.map((j) => `${X(across.row[j])} ${Y(high[j])}`), ...known.reverse().map((j) => `${X(across.row[j])} ${Y(low[j])}`)].join("L") + "Z" }));
  grids.toReversed().forEach((grid, back) => {
    const first = grid === grids[0], line = [];
    across.row.forEach((own, j) => good(grid, j) ? line.push((line.at(-1) === "" || !line.length ? "M" : "L") + X(own) + " " + Y(grid.values[j])) : line.push(""));
    if (!drawnMap.x.labels && !of.words) svg.append(drawn("path", { class: first ? "line picked" : "line", d: line.join("") }));
    else across.row.forEach((own, j) => good(grid, j) && svg.append(drawn("circle", { class: first ? "dot" : "beaten", r: 3, cx: X(own), cy: Y(grid.values[j]) })));
    const last = values.length - 1 - [...grid.values].reverse().findIndex((_, j) => good(grid, values.length - 1 - j)), name = sides[grids.length - 1 - back].name;
    if (sides.length > 1 && last < values.length) svg.append(drawn("text", { class: first ? "name" : "name dim", x: X(across.row[last]) - 4, y: Y(grid.values[last]) - 6, "text-anchor": "end" }, short(name, 200)));
  });
  drawnMap.frames.push({ made, X, Y, across, up: null, dot: svg.appendChild(drawn("circle", { class: "here", r: 5 })) });
  svg.setAttribute("aria-label", at("map-title").textContent);
}

// What the colours of a picture mean: reasons, codes, and values that end nowhere.
function keysOf(of, grids, shade) {
  const reasons = [...new Set(grids.flatMap(({ why }) => why.filter(Boolean)))];
  const key = (text, fill) => { const own = element("i", fill ? {} : { class: "none" }); if (fill) own.style.background = `rgb(${fill.join()})`; return element("span", {}, own, text); };
  const codes = of.words && shade ? [...new Set(grids.flatMap(({ values, why }) => values.filter((_, j) => !why[j])))].sort((a, b) => a - b).filter((code) => of.words[code]) : [];
  return [...codes.map((code) => key(plainly(of.words[code]), shade.colour(code))),
    ...shade && OUTPUTS[RATIO]?.name === of.name ? [key("communication costs more", DIVERGING[1]), key("failures", DIVERGING[5])] : [],
    ...reasons.length ? [key("cannot run: " + reasons.join(", "))] : []];
}

// The point on the picture and in words, also while it moves.
function placePoint() {
  if (!drawnMap) return;
  const { of, x, y, grids, frames } = drawnMap, inside = (own, { low, high }) => clamp(own, low, high), k = OUTPUTS.findIndex(({ name }) => name === of.name);
  const [a, b] = [x, y].map((axis) => axis ? nearest(axis.row, here(axis)) : 0), j = b * x.row.length + a;
  const kept = view.from !== "computed", found = PROGRAMS.length && k >= 0 ? answer(state.pick, kept ? onCube() : state.moved) : null, own = kept || !found ? grids[0].values[j] : isMissing(found, k) ? NaN : found.values[k];
  const why = found ? found.why && plainly(found.why) : grids[0].why[j];
  for (const { made, X, Y, across, up, dot } of frames) {
    const cy = up ? Y(inside(here(y), up)) : Y(own);
    dot.toggleAttribute("hidden", !Number.isFinite(cy));
    if (Number.isFinite(cy)) for (const [name, place] of [["cx", X(inside(here(x), across))], ["cy", clamp(cy, made.top, made.bottom)]]) dot.setAttribute(name, place);
  }
  const where = [x, y].filter(Boolean).map((axis) => `${axis.title} ${pointOf(axis, kept ? axis.row[nearest(axis.row, here(axis))] : here(axis))}`).join(", ");
  const span = !kept && found ? ends(found, k) : "";
  const told = [`${of.title} is ${Number.isNaN(own) ? "—" : shown(of, own)}${span && ` (9 times in 10: ${span})`} at ${where}${why ? `, which cannot run: ${why}` : ""}.`];
  if (view.from === "stored" && found && !of.words && isFollowed()) told.push(`It is stored as ${CUBE.variables.find(({ name }) => name === of.name)?.kind}; the formulas give ${digits(found.values[k] / of.factor, 9)}${isMoved() ? " with inputs moved that are no axes of the cube" : `, ${own === found.values[k] || !Number.isFinite(own) ? "the same" : `${(own / found.values[k] - 1).toExponential(1)} of it apart`}`}.`);
  at("map-read").textContent = view.from === "computed" && isTurn() ? flipText(found) : told.join(" ");
}

// What is moved, with the point at the nearest of the cube's.
const onCube = () => new Map([...state.moved, ...CUBE.axes.flatMap(({ name, values }) => values && input(name) !== undefined ? [[input(name), values[nearest(values, value(input(name)))]]] : [])]);
// Whether the page's formulas can follow the point: not along an axis that no slider has.
const isFollowed = () => CUBE.axes.every((axis) => input(axis.name) !== undefined || DATA.several.some(({ name }) => name === axis.name) || indexOn(axis) === CUBE.start[axis.name]);
const isMoved = () => [...state.moved.keys()].some((k) => !CUBE.axes.some(({ name }) => name === INPUTS[k].name));
const isTurn = () => RATIO >= 0 && view.of === OUTPUTS[RATIO].name && view.x === INPUTS[SIZE]?.name && view.y === INPUTS[LIFE]?.name;

// Both losses in words, and the life of a GPU at which they cost the same.
function flipText(found) {
  if (!runs(found)) return "";
  const ratio = (life) => shownWith(new Map([...state.moved, [LIFE, life]])).values[RATIO];
  let [low, high] = [value(LIFE) / 64, value(LIFE) * 64];
  const told = `At ${digits(value(SIZE))} GPUs that fail every ${shown(INPUTS[LIFE], value(LIFE))}, failures cost ${rounded(found.values[RATIO])} of what communication does`;
  if (!(ratio(low) > 1 && ratio(high) < 1)) return `${told}; that turns at no life of a GPU from 1/64 to 64 times that one.`;
  for (let k = 0; k < 40; k++) { const middle = Math.sqrt(low * high); if (ratio(middle) > 1) low = middle; else high = middle; }
  return `${told}; both cost the same at ${rounded(low / INPUTS[LIFE].factor)} ${INPUTS[LIFE].unit}.`;
}

// Axes that the picture does not have, and that no slider moves.
let others = [];
function buildOthers() {
  const names = [...new Set([...DATA.several, ...CUBE.axes].map(({ name }) => name))].filter((name) => name !== view.x && name !== view.y && (input(name) === undefined || DATA.several.some((own) => own.name === name)));
  if (others.map(({ axis }) => axis.key).join() !== names.join()) {
    others = names.map((name) => {
      const axis = axisOf(name, Infinity), text = element("span"), isList = axis.labels && axis.row.length <= 100;
      const own = isList ? element("select") : element("input", { type: "range", min: 0, max: axis.row.length - 1, step: 1 });
      if (isList) own.append(...axis.row.map((row) => new Option(axis.labels[row], row)));
      own.addEventListener("input", () => { put(axis, axis.row[Number(own.value)]); if (!isList) text.textContent = pointOf(axis, axis.row[Number(own.value)]); });
      return { axis, own, text, isList };
    });
    at("map-others").replaceChildren(...others.map(({ axis, own, text }) => element("label", {}, axis.title + " ", own, " ", text)));
  }
  for (const { axis, own, text, isList } of others) {
    own.value = axis.row.indexOf(here(axis));
    if (!isList) text.textContent = pointOf(axis, here(axis));
  }
}

// The same slice and picture as commands and in Python.
function cubeCommands() {
  const quoted = (text) => /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`, all = CUBE.axes.map((own) => axisOf(own.name, Infinity));
  const at_ = (axis) => axis.labels ? axis.labels[nearest(axis.row, here(axis))] : axis.row[nearest(axis.row, here(axis))];
  const fixed = all.filter(({ key }) => key !== view.x && key !== view.y);
  const words = fixed.map((axis) => quoted(`${axis.key}=${axis.labels ? at_(axis) : `${Number((at_(axis) / axis.factor).toPrecision(12))} ${axis.unit}`.trimEnd()}`));
  const selected = (labels) => JSON.stringify(Object.fromEntries(fixed.filter((axis) => Boolean(axis.labels) === labels).map((axis) => [axis.key, at_(axis)])));
  const opened = CUBE.stored ? `open_cube(${JSON.stringify(CUBE.source)})` : `Sweep.from_file(${JSON.stringify(CUBE.source)}).virtual()`;
  const sels = [[true, ""], [false, ', method="nearest"']].map(([labels, how]) => selected(labels) === "{}" ? "" : `.sel(${selected(labels)}${how})`).join("");
  return [["fleetcube", CUBE.stored ? "slice" : "run", quoted(CUBE.source), ...words, "-v", view.of].join(" "),
    ["fleetcube plot", quoted(CUBE.source), "-v", view.of, "-x", view.x, ...view.y ? ["-y", view.y] : [], "-o map.png", ...words].join(" "),
    `python -c ${quoted(`import fleetcube; print(fleetcube.${opened}[${JSON.stringify(view.of)}]${sels})`)}`];
}

function saveGrid() {
  const { of, x, y, sides, grids } = drawnMap, unit = (own) => heading(own.title, own.unit);
  const rows = (y ? y.row : [0]).flatMap((b, j) => x.row.map((a, i) => [pointOf({ ...x, unit: "" }, a), ...y ? [pointOf({ ...y, unit: "" }, b)] : [],
    ...grids.flatMap(({ values, why }) => { const own = values[j * x.row.length + i]; return [of.words ? shown(of, own) : String(own / of.factor), why[j * x.row.length + i] ?? ""]; })]));
  const head = [x, y].filter(Boolean).map(unit), names = sides.flatMap(({ name }) => [unit(of) + (sides.length > 1 ? " " + name : ""), "why not"]);
  saveRows([[...head, ...names], ...rows], "map");
}

// What the map begins with: which loss is larger, else the goal over the first two axes; a cube's first variable.
function chooseMap() {
  const keys = mapKeys(), numeric = (name) => !axisOf(name, Infinity).labels;
  const first = CUBE.variables.find((of) => of.varies && !of.words) ?? CUBE.variables[0], turn = RATIO >= 0 && [SIZE, LIFE].every((k) => k !== undefined && Number.isFinite(value(k)) && keys.includes(INPUTS[k].name));
  const sorted = [...keys].sort((a, b) => numeric(b) - numeric(a));
  if (CUBE.axes.length || !turn) [view.of, view.x, view.y] = [first?.name ?? OUTPUTS[GOAL].name, sorted[0], sorted[1] ?? ""];
  else [view.of, view.x, view.y] = [OUTPUTS[RATIO].name, INPUTS[SIZE].name, INPUTS[LIFE].name];
}

// What may be an axis: those of the cube or of the spec first; what is stored has no others.
function mapKeys() {
  const axes = CUBE.axes.filter(({ size }) => size > 1).map(({ name }) => name), own = [...axes, ...DATA.axes, ...DATA.several.filter(({ labels }) => labels.length > 1).map(({ name }) => name)];
  const others = PROGRAMS.length ? [...leading(), ...movable].filter((k) => stops(INPUTS[k], DATA.bases[state.pick][k]).length > 1).map((k) => INPUTS[k].name) : [];
  return view.from === "computed" ? [...new Set([...own.filter((name) => DATA.several.some((axis) => axis.name === name)), ...others])].sort((a, b) => own.includes(b) - own.includes(a)) : axes;
}

function buildMap() {
  const outputs = [...new Set([...OUTPUTS.filter((of, k) => !of.hidden || k === RATIO || k === REASON), ...CUBE.variables].map(({ name }) => name))];
  const options = (id, rows) => at(id).replaceChildren(...rows.map(([own, text]) => new Option(text, own, own === view[id.slice(4)], own === view[id.slice(4)])));
  const keys = mapKeys(), titles = keys.map((key) => [key, axisOf(key, 2).title]);
  if ((at("map").hidden = !keys.length)) return;
  if (!keys.includes(view.x)) view.x = keys.find((key) => key !== view.y);
  if (view.y && (!keys.includes(view.y) || view.y === view.x)) view.y = keys.find((key) => key !== view.x) ?? "";
  if (!OUTPUTS.some(({ name }) => name === view.of)) view.from = "stored";
  const known = outputs.filter((name) => view.from === "computed" || CUBE.variables.some((of) => of.name === name));
  if (!known.includes(view.of)) [view.of] = known;
  options("map-of", known.map((name) => [name, named(name).title]));
  options("map-x", titles);
  options("map-y", [["", "none: a curve"], ...titles.filter(([key]) => key !== view.x)]);
  options("map-beside", [["", "nothing"], ...besides().map(({ name }) => [name, name])]);
  options("map-from", [["stored", "as stored"], ["computed", "as computed"], ["difference", "stored over computed"]]);
  at("map-from").parentElement.hidden = !CUBE.axes.length || !PROGRAMS.length;
  at("map-beside").parentElement.hidden = !besides().length;
  for (const link of at("map").querySelectorAll("a")) link.hidden = !CUBE.axes.length;
  const axes = [view.x, view.y].filter(Boolean).map((key) => axisOf(key, 2).title);
  at("map-title").textContent = isTurn() ? "Which costs more: communication or failures?" : `${named(view.of).title} over ${axes.join(" and ")}`;
  at("map-title").title = named(view.of).about;
}

function listenMap() {
  for (const id of ["of", "x", "y", "beside", "from"]) at("map-" + id).addEventListener("change", ({ target }) => {
    if (id === "x" && target.value === view.y) view.y = view.x;
    view[id] = target.value;
    buildMap();
    later();
  });
  at("map-csv").addEventListener("click", saveGrid);
  for (const link of at("map").querySelectorAll("a")) link.addEventListener("click", () => { link.href = `/api/download.${link.textContent.endsWith("CSV") ? "csv" : "nc"}?${queryOf(sidesOf()[0])}`; });
  [at("map-picture"), at("map-other")].forEach((svg, j) => {
    const placed = (px, py) => {
      const { X, Y, across, up } = drawnMap.frames[Math.min(j, drawnMap.frames.length - 1)];
      return [across.row[nearest(across.row.map(X), px)], up?.row[nearest(up.row.map(Y), py)]];
    };
    drag(svg, (px, py) => {
      const [a, b] = placed(px, py);
      put(drawnMap.x, a);
      if (drawnMap.y) put(drawnMap.y, b);
    });
    svg.addEventListener("pointermove", (event) => {
      if (!drawnMap || event.buttons) return;
      const { of, x, y, grids } = drawnMap, [a, b] = placed(...spot(svg, event)), cell = (y ? y.row.indexOf(b) : 0) * x.row.length + x.row.indexOf(a), { values, why } = grids[Math.min(j, grids.length - 1)];
      at("map-hover").textContent = `Under the pointer: ${why[cell] ? why[cell] : shown(of, values[cell])} at ${pointOf(x, a)}${y ? ", " + pointOf(y, b) : ""}`;
    });
    svg.addEventListener("pointerleave", () => { at("map-hover").textContent = ""; });
  });
}

// The map in the page's address: what it shows, and the place on axes that no slider has.
function linkMap(said) {
  if (at("map").hidden) return;
  said.set("map", [view.of, view.x, view.y].join(","));
  if (view.beside) said.set("beside", view.beside);
  if (CUBE.axes.length) said.set("from", view.from);
  for (const { name } of CUBE.axes) if (input(name) === undefined && !DATA.several.some((own) => own.name === name)) { const axis = axisOf(name, Infinity); said.set(name, axis.labels ? pointOf(axis, here(axis)) : here(axis)); }
}

function linkedMap(name, text) {
  const [of, x, y] = text.split(","), keys = mapKeys(), cube = CUBE.axes.find((axis) => axis.name === name);
  if (name === "map" && named(of) && keys.includes(x) && (!y || keys.includes(y)) && x !== y) Object.assign(view, { of, x, y: y ?? "" });
  else if (name === "beside" && besides().some((own) => own.name === text)) view.beside = text;
  else if (name === "from" && CUBE.axes.length && PROGRAMS.length && ["stored", "computed", "difference"].includes(text)) view.from = text;
  else if (cube && input(name) === undefined) state.at[name] = cube.labels ? Math.max(0, cube.labels.indexOf(text)) : nearest(cube.values, Number(text));
}
