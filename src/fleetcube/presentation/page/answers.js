// What the page knows. A choice is a cluster in a layout; a layout of null is the best of those here.
const INPUTS = DATA.inputs, OUTPUTS = DATA.outputs, GOAL = DATA.goal;
const output = (name) => OUTPUTS.findIndex((of) => of.name === name);
const REASON = output("infeasible_reason"), NEAR = output("near_memory_limit"), MARGIN = output("memory_margin");
const PLACES = [-1, -0.5, 0, 0.5, 1];
const CLUSTERS = [...new Set(DATA.clusters)];
const clusterOf = DATA.clusters.map((name) => CLUSTERS.indexOf(name));
const choicesOf = CLUSTERS.map((_, cluster) => clusterOf.flatMap((of, choice) => of === cluster ? [choice] : []));
const state = { cluster: 0, layout: null, pick: 0, moved: new Map() };

function vector(choice, moved = state.moved) {
  const all = DATA.bases[choice].slice();
  for (const [k, value] of moved) all[k] = value;
  return all;
}

// Why numbers together are refused; null where they are not.
function refused(all) {
  for (const own of DATA.shares)
    if (own.reduce((sum, k) => sum + all[k], 0) > 1 + 1e-9)
      return own.map((k) => INPUTS[k].title).join(" and ") + " are shares of one whole, 1 at most";
  for (const [low, high] of DATA.growing)
    if (0 < all[high] && all[high] < all[low])
      return INPUTS[high].title + " must be at least " + INPUTS[low].title;
  return null;
}

// All outputs: values, the ends of intervals, and why a layout cannot run.
function answer(choice, moved = state.moved, withEnds = true) {
  const all = vector(choice, moved), why = refused(all);
  if (why) return { values: OUTPUTS.map(() => NaN), low: [], high: [], why };
  const program = PROGRAMS[DATA.programs[choice]];
  const values = program(all), low = [], high = [];
  if (withEnds && known(choice, moved)) {
    const slipped = PLACES.map((place) => {
      for (const k of DATA.slips) all[k] = place;
      return program(all);
    });
    OUTPUTS.forEach((of, k) => {
      if (of.ends) [low[k], high[k]] = of.ends.map((end) => values[end]);
      else if (of.slips) {
        low[k] = Math.min(...slipped.map((row) => row[k]));
        high[k] = Math.max(...slipped.map((row) => row[k]));
      }
      if (of.counted && low[k] < high[k]) [low[k], high[k]] = countEnds(values[k], low[k], high[k]);
      if (!(low[k] < high[k])) low[k] = high[k] = undefined;
    });
  }
  const code = REASON < 0 ? 0 : values[REASON];
  return { values, low, high, why: code === 0 ? null : OUTPUTS[REASON].words[code] || "undefined" };
}

// Ends of the interval of a Poisson count around a lognormal mean, as `prediction_interval` finds them.
function countEnds(mean, low, high) {
  const spread = Math.log(high / low) / (2 * DATA.normal), tail = (1 - DATA.share) / 2;
  if (mean > 100) return [-DATA.normal, DATA.normal].map((place) => {
    let count = mean;
    for (let k = 0; k < 30; k++) count = mean * Math.exp(place * Math.sqrt(spread ** 2 + 1 / count));
    return Math.ceil(count - 0.5);
  });
  const places = Array.from({ length: 65 }, (_, k) => (k - 32) / 4);
  const means = places.map((z) => mean * Math.exp(z * spread)), weights = places.map((z) => Math.exp(-z * z / 2));
  const terms = means.map((own, k) => weights[k] * Math.exp(-own)), whole = weights.reduce((sum, own) => sum + own, 0);
  const ends = [];
  for (let count = 0, below = 0; ends.length < 2; count++) {
    below += terms.reduce((sum, own) => sum + own, 0) / whole;
    while (ends.length < 2 && (below >= (ends.length ? 1 - tail : tail) || count > 1e4)) ends.push(count);
    means.forEach((own, k) => { terms[k] *= own / (count + 1); });
  }
  return ends;
}

// Whether intervals hold: no size is moved further from what was measured than the choice is.
function known(choice, moved = state.moved) {
  const base = DATA.bases[choice];
  for (const [k, value] of moved) {
    const range = INPUTS[k].measured;
    if (range && (value < Math.min(range[0], base[k]) || value > Math.max(range[1], base[k])))
      return false;
  }
  return true;
}

function valid(own, value) {
  if (Number.isNaN(value) || (own.count && !Number.isInteger(value))) return false;
  if (value === Infinity) return own.infinite;
  return (own.above ? value > 0 : value >= own.low) && value <= own.high;
}

// Values that a slider stops at; one alone where no scale is known.
function stops(own, value) {
  if (own.stops) return own.stops;
  if (!Number.isFinite(value)) return [value];
  if (own.count && value > 0) {
    const parts = [16, 12, 8, 6, 4, 3, 2].map((part) => value / part); // those that divide it
    return [...parts, ...[1, 2, 4, 8, 16].map((times) => value * times)].filter((v) => valid(own, v));
  }
  if (own.count) return [0, 1, 2, 4, 8, 16].filter((v) => valid(own, v));
  if (own.unit === "" && Number.isFinite(own.high)) {
    const row = Array.from({ length: 51 }, (_, k) => own.low + (own.high - own.low) * k / 50);
    return [...new Set([...row, value])].sort((a, b) => a - b).filter((v) => valid(own, v));
  }
  if (value <= 0) return [value];
  const row = Array.from({ length: 49 }, (_, k) => k === 24 ? value : value * 8 ** ((k - 24) / 24));
  return row.filter((v) => valid(own, v));
}

function shown(of, value) {
  if (of.words) return (of.words[value] || "undefined").replaceAll("_", " ");
  const text = digits(value / of.factor);
  return of.unit && text !== "—" ? text + " " + of.unit : text;
}

function cell(found, k) {
  const of = OUTPUTS[k];
  return found.why && (of.masked || found.values.every(Number.isNaN)) ? "—" : shown(of, found.values[k]);
}

function ends(found, k) {
  if (found.low[k] === undefined || (found.why && OUTPUTS[k].masked)) return "";
  const own = OUTPUTS[k];
  return digits(found.low[k] / own.factor) + " to " + digits(found.high[k] / own.factor);
}

// When the job ends, if it starts on a day.
function day(start, seconds) {
  if (!Number.isFinite(seconds)) return Number.isNaN(seconds) ? "-" : "never";
  const last = new Date(Date.parse(start) + 864e5 * Math.max(0, Math.ceil(seconds / 86400) - 1));
  return Number.isNaN(last.getTime()) || last.getUTCFullYear() > 9999 ? "after 9999" : last.toISOString().slice(0, 10);
}

function until(found, k) {
  const of = OUTPUTS[k];
  if (!of.start || cell(found, k) === "—") return [];
  const [low, high] = [found.low[k], found.high[k]].map((end) => day(of.start, end ?? NaN));
  const told = low < high ? `, 90 %: ${low} to ${high}` : "";
  return [element("dd", { class: "ends" }, `ends on ${day(of.start, found.values[k])}${told}`)];
}

const TOKENS = INPUTS.findIndex((own) => own.name === "sequence_length");
const tokens = (choice, moved) => moved.get(TOKENS) ?? DATA.bases[choice][TOKENS] ?? Infinity;
const isTried = (choice, moved = state.moved) => !(tokens(choice, moved) < DATA.shortest[choice]);
const runs = (found) => !found.why && Number.isFinite(found.values[GOAL]);
const isSure = (found) => NEAR < 0 || found.values[NEAR] !== 1;
const keeps = (found) => DATA.where.every(([k, relation, level]) =>
  relation === "<=" ? found.values[k] <= level : found.values[k] >= level);
const better = (a, b, k) => OUTPUTS[k].sense * a < OUTPUTS[k].sense * b - 1e-9 * Math.abs(b);

// The best layout of a cluster as `plan` ranks: what runs for sure and keeps to the conditions; else what
// runs; else what comes nearest to a GPU's memory.
function plan(cluster, moved = state.moved) {
  let best;
  for (const choice of choicesOf[cluster]) {
    const found = answer(choice, moved, false);
    const rank = !runs(found) || !isTried(choice, moved) ? 0 : isSure(found) && keeps(found) ? 2 : 1;
    const one = { choice, found, rank };
    const k = rank || MARGIN < 0 ? GOAL : MARGIN;
    const now = best?.found.values[k];
    if (!best || rank > best.rank || (rank === best.rank && (Number.isNaN(now) || better(found.values[k], now, k)))) best = one;
  }
  return best;
}

// The answer that the page would show with other numbers.
const shownWith = (moved) => state.layout === null ? plan(state.cluster, moved).found : answer(state.layout, moved, false);

// What the page shows: the layout that was chosen, or the best one.
function settle() {
  if (state.layout !== null) state.cluster = clusterOf[state.layout];
  state.pick = state.layout ?? plan(state.cluster).choice;
}

// A comma-separated line; a spreadsheet must not read a cell as a formula.
const csvLine = (cells) => cells.map((text) => '"' + (/^\s*[=+@-]/.test(text) && !Number.isFinite(Number(text)) ? "'" : "") + text.replaceAll('"', '""') + '"').join(",");
