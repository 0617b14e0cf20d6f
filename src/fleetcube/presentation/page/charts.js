// Pictures: the front of cost and time, the map of what costs more, the bar of losses, a curve.
const MOST_SIZES = 12, MOST_TRIED = 120; // of the front; each size is tried in every layout
const TIME = output("job_time"), RATIO = output("reliability_to_communication_ratio");
const COST = output("job_cost") < 0 ? output("gpu_hours") : output("job_cost");

// A scale of an input or an output, from low to high in base units; its ticks may be given.
const scaled = (of, { low, high, log }, at = ticks(low / of.factor, high / of.factor, log).map((tick) => tick * of.factor)) =>
  ({ low, high, log, heading: heading(of.title, of.unit), marks: at.map((tick) => [tick, digits(tick / of.factor)]) });

// Ends of an axis around values; logarithmic where they span more than a decade.
function around(values, margin) {
  const low = Math.min(...values), high = Math.max(...values), log = low > 0 && high / low > 10;
  if (log) return { low: low / margin, high: high * margin, log };
  const span = (high - low || Math.abs(low) || 1) * (margin - 1);
  return { low: low >= 0 ? Math.max(0, low - span) : low - span, high: high + span, log };
}

// At most so many of a row: of counts those that most powers of two divide, else its ends and those between.
const roundest = (row, most) => [...row].sort((a, b) => (b & -b) - (a & -a)).slice(0, most);
const few = (row, most) => row.length <= most ? row : Array.from({ length: most }, (_, k) => row[Math.round(k * (row.length - 1) / (most - 1))]);

// The value at a place of a picture's horizontal axis.
function valueAt({ left, right, across: { low, high, log } }, x) {
  const part = Math.min(1, Math.max(0, (x - left) / (right - left)));
  return log ? low * (high / low) ** part : low + (high - low) * part;
}

// Answers of the best layout of every cluster at every size, with intervals: those that run.
function frontPoints() {
  const sizes = SIZE === undefined ? [undefined]
    : [...new Set([...roundest(stops(INPUTS[SIZE], DATA.bases[state.pick][SIZE]), Math.max(MOST_SIZES, MOST_TRIED / DATA.choices.length)), value(SIZE)])].sort((a, b) => a - b);
  const all = CLUSTERS.flatMap((_, cluster) => few(sizes.map((size) => {
    const moved = size === undefined ? state.moved : new Map([...state.moved, [SIZE, size]]);
    const { choice, found, rank } = plan(cluster, moved);
    return { cluster, size, choice, moved, rank, x: found.values[TIME], y: found.values[COST] };
  }).filter(({ rank, x, y }) => rank === 2 && Number.isFinite(x) && Number.isFinite(y))
    // sizes beyond the first that costs more and takes longer than another say nothing more
    .filter((_, k, row) => k === 0 || !isBeaten(row[k], row) || !isBeaten(row[k - 1], row)), MOST_SIZES));
  return all.map((one) => ({ ...one, found: answer(one.choice, one.moved), beaten: isBeaten(one, all), pays: !isBeaten(one, all.filter(({ cluster }) => cluster === one.cluster)) }));
}

const isBeaten = (one, all) => all.some(({ x, y }) => x <= one.x && y <= one.y && (x < one.x || y < one.y));

let front;
function drawFront(found) {
  if ((at("front").hidden = TIME < 0 || COST < 0)) return;
  const points = frontPoints(), svg = at("front-picture");
  if (!points.length) { svg.replaceChildren(); at("front-read").textContent = "Nothing here runs."; front = undefined; return; }
  const own = runs(found) ? [{ x: found.values[TIME], y: found.values[COST], found }] : [];
  // a size that costs more and takes longer than another of its cluster does not stretch the axes
  const paying = [...points.filter(({ pays }) => pays), ...own];
  const range = (k, margin) => around(paying.flatMap(({ found: { values, low, high } }) => [values[k], low[k] ?? values[k], high[k] ?? values[k]]), margin);
  const scales = [[TIME, range(TIME, 1.1)], [COST, range(COST, 1.1)]].map(([k, span]) => scaled(OUTPUTS[k], span));
  front = { points, ...blank(svg, widthOf(svg.parentElement) < 420 ? 230 : 300, ...scales, 34) };
  const { X, Y, left, right, top, bottom } = front, inside = (value, low, high) => Math.min(high, Math.max(low, value));
  const [across, up] = [(x) => inside(X(x), left, right), (y) => inside(Y(y), top, bottom)];
  for (const [cluster] of CLUSTERS.entries()) {
    const row = points.filter((point) => point.cluster === cluster);
    if (row.length > 1) svg.append(drawn("path", { class: "line", d: "M" + row.map(({ x, y }) => across(x) + " " + up(y)).join("L") }));
  }
  const spans = points.filter(({ pays, found: { low } }) => pays && low[TIME] && low[COST]).map(({ found: { low, high } }) =>
    `M${across(low[TIME])} ${up(low[COST])}L${across(high[TIME])} ${up(high[COST])}`);
  svg.append(drawn("path", { class: "span", d: spans.join("") }));
  const taken = points.map(({ x, y }) => ({ start: across(x) - 6, end: across(x) + 6, y: up(y) + 4 }));
  for (const [k, point] of points.entries()) {
    const [x, y] = [across(point.x), up(point.y)], named = points.filter(({ cluster }) => cluster === point.cluster).slice(0, 2).at(-1) === point;
    const dot = drawn("circle", { class: point.beaten ? "beaten" : "dot", r: 4.5, cx: x, cy: y });
    dot.append(drawn("title", {}, pointText(point)));
    svg.append(dot);
    const cluster = CLUSTERS.length > 1 && (named || point.size === undefined) ? CLUSTERS[point.cluster].replace(/^\w+=/, "") : "";
    const beyond = [Y(point.y) < top && "↑ " + shown(OUTPUTS[COST], point.y), X(point.x) > right && "→ " + shown(OUTPUTS[TIME], point.x)];
    const name = [cluster, point.size && digits(point.size), ...beyond].filter(Boolean).join(" "), wide = 6.6 * name.length;
    if (!name) continue;
    // next to it, above or below: where nothing is yet, or further away with a line to it
    const boxes = [14, 32, 50].flatMap((far) => [[8, 4], [8, -far / 2], [8, far], [-8 - wide, 4], [-8 - wide, -far / 2], [-8 - wide, far], [-wide / 2, 6 - far], [-wide / 2, far + 6], [far, -far], [-far - wide, far]].map(([right, down]) => ({ start: x + right, end: x + right + wide, y: y + down, far })));
    const free = boxes.find((box) => box.start > left && box.end < right + 34 && box.y > top - 6 && box.y < bottom
      && !taken.some((own, j) => j !== k && box.start < own.end + 3 && own.start < box.end + 3 && Math.abs(own.y - box.y) < 13));
    if (!free) continue;
    taken.push(free);
    if (free.far > 14) svg.append(drawn("path", { class: "grid", d: `M${x} ${y}L${inside(x, free.start, free.end)} ${free.y + (free.y < y ? 2 : -9)}` }));
    svg.append(drawn("text", { class: point.beaten ? "name dim" : "name", x: free.start, y: free.y }, name));
  }
  for (const { x, y } of own) svg.append(drawn("circle", { class: "here", r: 6.5, cx: X(x), cy: Y(y) }));
  const best = atTarget(points);
  if (best) svg.append(drawn("circle", { class: "best", r: 9.5, cx: across(best.x), cy: up(best.y) }));
  if (state.target) {
    const deadline = state.target.by === "time", middle = deadline ? X(state.target.at) : Y(state.target.at);
    if (deadline ? middle >= left && middle <= right : middle >= top && middle <= bottom) svg.append(drawn("path", { class: "target", d: deadline ? `M${middle} ${top}V${bottom}` : `M${left} ${middle}H${right}` }));
  }
  drawTarget(points, best);
  svg.setAttribute("aria-label", `${OUTPUTS[COST].title} over ${OUTPUTS[TIME].title}: ${points.map(pointText).join("; ")}`);
}

function pointText({ cluster, size, choice, found, beaten }) {
  const name = [CLUSTERS[cluster], size && digits(size) + " GPUs", DATA.layouts[choice]].filter(Boolean).join(" ");
  const [time, cost] = [TIME, COST].map((k) => { const { text, span } = brief(found, k); return text + (span && ` (${span})`); });
  return `${name}: ${time}, ${cost}` + (beaten ? "; another costs less and takes less time" : "");
}

// The cheapest by a deadline, the fastest within a budget; without either the best by the goal.
function atTarget(points) {
  const { by, at: limit } = state.target ?? {};
  const able = points.filter(({ x, y }) => !by || (by === "time" ? x : y) <= limit);
  const k = by === "time" ? COST : by === "cost" ? TIME : GOAL;
  return able.reduce((best, one) => !best || better(one.found.values[k], best.found.values[k], k) ? one : best, undefined);
}

function drawTarget(points, best) {
  const { by, at: limit } = state.target ?? {}, range = at("target"), typed = at("typed");
  range.hidden = typed.hidden = at("unit").hidden = !by;
  const of = OUTPUTS[by === "time" ? TIME : COST];
  if (by) {
    const { low, high } = (by === "time" ? front.across : front.up);
    range.min = 0, range.max = 200, range.low = low, range.high = high;
    range.value = Math.round(200 * Math.log(limit / low) / Math.log(high / low));
    range.setAttribute("aria-valuetext", shown(of, limit));
    typed.value = digits(limit / of.factor);
    at("unit").textContent = of.unit;
  }
  const question = !by ? `Best ${OUTPUTS[GOAL].title}: ` : `${by === "time" ? "Cheapest" : "Fastest"} within ${limitText(state.target)}: `;
  const nearest = by && points.reduce((a, b) => (by === "time" ? a.x < b.x : a.y < b.y) ? a : b);
  const sure = best && by && chance(best.found, ...targetOf(state.target));
  const told = (best ? question + pointText(best) : question + "nothing; the nearest is " + pointText(nearest)) + (sure ? "; the limit " + sure : "");
  at("front-read").replaceChildren(told + " ", button("Show", () => choose(best ?? nearest)));
}

function choose({ cluster, size }) {
  Object.assign(state, { cluster, layout: null });
  if (size !== undefined) state.moved.set(SIZE, size);
}

// What costs more, failures or communication, over the size of the cluster and the life of a GPU. Columns are
// filled one a frame, so that a slider never waits for them.
let filling = 0;
function drawFlips(found) {
  at("flips").hidden = RATIO < 0 || SIZE === undefined || LIFE === undefined || !Number.isFinite(value(LIFE));
  if (at("flips").hidden) return;
  const sizes = roundest(stops(INPUTS[SIZE], DATA.bases[state.pick][SIZE]).filter((n) => n > 0), 2 * MOST_SIZES).sort((a, b) => a - b);
  const lives = few(stops(INPUTS[LIFE], DATA.bases[state.pick][LIFE]), 13);
  if (sizes.length < 2 || lives.length < 2) { at("flips").hidden = true; return; }
  const [wide, high] = [sizes, lives].map(borders);
  const svg = at("flips-picture");
  const made = blank(svg, 280,
    scaled(INPUTS[SIZE], { low: wide[0], high: wide.at(-1), log: true }, sizes),
    scaled(INPUTS[LIFE], { low: high[0], high: high.at(-1), log: true }));
  const { X, Y } = made, cells = drawn("g", {}), line = drawn("path", { class: "flip" });
  const dot = drawn("circle", { class: "here", r: 6.5, cx: X(value(SIZE)), cy: Y(value(LIFE)) });
  svg.append(cells, line, dot);
  svg.grid = { X, Y, sizes, lives };
  const run = ++filling, columns = [];
  const fill = (k) => {
    if (run !== filling) return;
    const column = lives.map((life) => {
      const found = shownWith(new Map([...state.moved, [SIZE, sizes[k]], [LIFE, life]]));
      return runs(found) ? found.values[RATIO] : NaN;
    });
    columns.push(column);
    column.forEach((ratio, j) => cells.append(drawn("rect", {
      class: shade(ratio), x: X(wide[k]), width: X(wide[k + 1]) - X(wide[k]) + 0.5,
      y: Y(high[j + 1]), height: Y(high[j]) - Y(high[j + 1]) + 0.5 })));
    line.setAttribute("d", crossing(columns, sizes, lives, X, Y));
    if (k + 1 < sizes.length) requestAnimationFrame(() => fill(k + 1));
    else svg.setAttribute("aria-label", at("flips-read").textContent);
  };
  fill(0);
  at("flips-read").textContent = flipText(found);
}

// Where cells around points meet: halfway on a logarithmic axis.
const borders = (row) => [row[0] ** 1.5 / row[1] ** 0.5, ...row.slice(1).map((own, k) => Math.sqrt(own * row[k])), row.at(-1) ** 1.5 / row.at(-2) ** 0.5];

const shade = (ratio) => !Number.isFinite(ratio) ? "none"
  : "r" + Math.min(6, Math.max(0, Math.round(Math.log2(ratio)) + 3));

// The line where both cost the same, between the points of each column.
function crossing(columns, sizes, lives, X, Y) {
  let path = "", pen = "M";
  columns.forEach((column, k) => {
    const j = column.findIndex((ratio, j) => j && (column[j - 1] > 1) !== (ratio > 1) && Number.isFinite(ratio) && Number.isFinite(column[j - 1]));
    if (j < 0) { pen = "M"; return; }
    const part = Math.log(column[j - 1]) / Math.log(column[j - 1] / column[j]);
    path += `${pen}${X(sizes[k])} ${Y(lives[j - 1] * (lives[j] / lives[j - 1]) ** part)}`;
    pen = "L";
  });
  return path;
}

// Both in words, and the life of a GPU at which they cost the same.
function flipText(found) {
  if (!runs(found)) return "";
  const here = `At ${digits(value(SIZE))} GPUs that fail every ${shown(INPUTS[LIFE], value(LIFE))}, failures cost `;
  const now = found.values[RATIO];
  const ratio = (life) => shownWith(new Map([...state.moved, [LIFE, life]])).values[RATIO];
  let [low, high] = [value(LIFE) / 64, value(LIFE) * 64];
  const told = here + `${rounded(now)} of what communication does`;
  if (!(ratio(low) > 1 && ratio(high) < 1)) return `${told}; that turns at no life of a GPU from 1/64 to 64 times that one.`;
  for (let k = 0; k < 40; k++) { const middle = Math.sqrt(low * high); if (ratio(middle) > 1) low = middle; else high = middle; }
  return `${told}; both cost the same at ${rounded(low / INPUTS[LIFE].factor)} ${INPUTS[LIFE].unit}.`;
}

function drawLosses(found) {
  const known = DATA.losses.every((k) => Number.isFinite(found.values[k])) && !found.why;
  at("losses").hidden = !DATA.losses.length;
  at("losses").style.visibility = known ? "" : "hidden";  // what is below stays where it is
  if (at("losses").hidden || !known) return;
  const bar = at("bar"), shares = at("shares"), width = widthOf(at("losses"));
  const parts = DATA.losses.map((k, j) => [OUTPUTS[k].title.replace(" overhead", ""), found.values[k], j, k]);
  parts.push(["model operations at peak", 1 - parts.reduce((sum, [, share]) => sum + share, 0), 7]);
  bar.setAttribute("viewBox", `0 0 ${width} 34`);
  bar.replaceChildren();
  refill(shares, ...parts.filter(([, share]) => share > 0.0005).map(([name, share, colour, k]) =>
    element("span", {}, element("i", { class: "c" + colour }), name + " ", k === undefined ? rounded(100 * share) + " %" : accounted(k, rounded(100 * share) + " %"))));
  let from = 0;
  for (const [name, share, colour] of parts) {
    const wide = Math.max(0, width * share), text = `${name} ${rounded(100 * share)} %`;
    bar.append(drawn("rect", { class: "c" + colour, x: from, y: 0, width: wide, height: 34 }));
    if (wide > 7 * text.length + 8) bar.append(drawn("text", { class: colour > 3 ? "dark" : "light", x: from + 6, y: 21 }, text));
    from += wide;
  }
  bar.setAttribute("aria-label", parts.filter(([, share]) => share > 0.0005).map(([name, share]) => `${name} ${rounded(100 * share)} %`).join(", "));
}

function drawCurve(found) {
  if (!at("curve").open) return;
  const up = Number(at("up").value), across = Number(at("across").value), own = INPUTS[across], of = OUTPUTS[up], svg = at("chart");
  const xs = [...new Set([...few(stops(own, DATA.bases[state.pick][across]), 51), value(across)])].filter(Number.isFinite).sort((a, b) => a - b);
  const at_ = (cluster, x) => cluster === state.cluster && state.layout !== null
    ? answer(state.layout, new Map([...state.moved, [across, x]]))
    : answer(plan(cluster, new Map([...state.moved, [across, x]])).choice, new Map([...state.moved, [across, x]]), cluster === state.cluster);
  const lines = xs.length < 2 ? [] : CLUSTERS.map((_, cluster) => xs.map((x) => at_(cluster, x)));
  const good = (one) => !(one.why && of.masked) && Number.isFinite(one.values[up]);
  const ys = lines.flatMap((row) => row.filter(good).flatMap((one) => [one.values[up], one.low[up] ?? one.values[up], one.high[up] ?? one.values[up]])).filter(Number.isFinite);
  svg.replaceChildren();
  at("read").textContent = xs.length < 2 ? "No range is known of " + own.title + "; type a value." : ys.length ? "" : "Nothing on this curve can run.";
  if (!ys.length) return;
  const span = { low: xs[0], high: xs.at(-1), log: xs[0] > 0 && xs.at(-1) / xs[0] > 4 };
  const { X, Y, top, bottom } = blank(svg, 300, scaled(own, span, own.count && xs.length < 12 ? xs : undefined), scaled(of, around(ys, 1.05)));
  const row = lines[state.cluster];
  xs.forEach((x, j) => {  // a curve stops where nothing runs
    if (good(row[j])) return;
    const ends = [j && xs[j - 1], j + 1 < xs.length && xs[j + 1]].map((other) => other === false || other === 0 ? X(x) : (X(x) + X(other)) / 2);
    svg.append(drawn("rect", { class: "none", x: Math.min(...ends), width: Math.abs(ends[1] - ends[0]), y: top, height: bottom - top }));
  });
  const band = row.map((one, j) => [one, xs[j]]).filter(([one]) => good(one) && one.low[up] !== undefined);
  if (band.length > 1) {
    const upper = band.map(([one, x]) => X(x) + " " + Y(one.high[up])), lower = band.map(([one, x]) => X(x) + " " + Y(one.low[up])).reverse();
    svg.append(drawn("path", { class: "band", d: "M" + [...upper, ...lower].join("L") + "Z" }));
  }
  for (const [cluster, line] of lines.entries()) {
    let path = "", pen = "M";
    line.forEach((one, j) => { if (good(one)) { path += pen + X(xs[j]) + " " + Y(one.values[up]); pen = "L"; } else pen = "M"; });
    if (path) svg.append(drawn("path", { class: cluster === state.cluster ? "line picked" : "line", d: path }));
  }
  if (good(found)) svg.append(drawn("circle", { class: "here", r: 5, cx: X(value(across)), cy: Y(found.values[up]) }));
  const said = of.title + " over " + own.title + ": " + cell(found, up) + " at " + shown(own, value(across));
  svg.setAttribute("aria-label", said);
  at("read").textContent = said + (ends(found, up) ? ", " + Math.round(100 * DATA.share) + " % interval " + ends(found, up) : "");
}

const saveTable = (table, name) => save(name + ".csv", new Blob(
  [[...table.rows].map((row) => csvLine([...row.cells].filter((one) => one.className !== "act").map((one) => one.textContent))).join("\n") + "\n"],
  { type: "text/csv" }));
