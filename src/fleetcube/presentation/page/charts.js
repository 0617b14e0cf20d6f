// Pictures: the front of cost and time, the bar of losses.
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
  const part = clamp((x - left) / (right - left), 0, 1);
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
  const { X, Y, left, right, top, bottom } = front, [across, up] = [(x) => clamp(X(x), left, right), (y) => clamp(Y(y), top, bottom)];
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
    if (free.far > 14) svg.append(drawn("path", { class: "grid", d: `M${x} ${y}L${clamp(x, free.start, free.end)} ${free.y + (free.y < y ? 2 : -9)}` }));
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

const saveTable = (table, name) => saveRows([...table.rows].map((row) => [...row.cells].filter((one) => one.className !== "act").map((one) => one.textContent)), name);
