// What the page knows. A choice is a cluster in a layout; a layout of null is the best of those here.
const INPUTS = DATA.inputs, OUTPUTS = DATA.outputs, GOAL = DATA.goal;
const output = (name) => OUTPUTS.findIndex((of) => of.name === name);
const REASON = output("infeasible_reason"), NEAR = output("near_memory_limit"), MARGIN = output("memory_margin");
const PLACES = [-1, -0.5, 0, 0.5, 1];
DATA.bases = DATA.bases.map((base, choice) => choice ? Object.assign([...DATA.bases[0]], base) : base);
const CLUSTERS = [...new Set(DATA.clusters)];
const clusterOf = DATA.clusters.map((name) => CLUSTERS.indexOf(name));
const choicesOf = CLUSTERS.map((_, cluster) => clusterOf.flatMap((of, choice) => of === cluster ? [choice] : []));
const BEGIN = DATA.begin.reduce((choice, place, d) => choice * DATA.several[d].labels.length + place, 0);
const state = { cluster: clusterOf[BEGIN], layout: null, pick: 0, moved: new Map() };

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

const isMissing = (found, k) => found.why && (OUTPUTS[k].masked || found.values.every(Number.isNaN));
const cell = (found, k) => isMissing(found, k) ? "—" : shown(OUTPUTS[k], found.values[k]);

function ends(found, k, most) {
  if (found.low[k] === undefined || isMissing(found, k)) return "";
  const [low, high] = [found.low[k], found.high[k]].map((end) => digits(end / OUTPUTS[k].factor, most));
  return low === high ? "" : `${low} to ${high}`;
}

// A number with its unit and interval in three digits; days and hours in words.
function brief(found, k) {
  const of = OUTPUTS[k], unit = { d: "days", h: "hours", min: "minutes" }[of.unit] ?? of.unit, margin = found.values[MARGIN];
  if (of.words || isMissing(found, k)) return { text: cell(found, k), span: "" };
  const most = of.name === "memory_per_gpu" && margin < 1 ? " of " + rounded(found.values[k] / (1 - margin) / of.factor) : "";
  return { text: `${rounded(found.values[k] / of.factor)}${most} ${unit}`.trimEnd(), span: ends(found, k, 3) };
}

// How likely a condition holds: the interval's ends are those of a lognormal factor, which may differ by side.
function chance(found, k, relation, level) {
  const [now, low, high] = [found.values[k], found.low[k], found.high[k]];
  if (!(low > 0 && level > 0)) return "";
  const place = DATA.normal * Math.log(level / now) / (level > now ? Math.log(high / now) : Math.log(now / low));
  const below = 1 / (1 + Math.exp(-place * (1.5976 + 0.070566 * place ** 2))), share = relation === "<=" ? below : 1 - below;
  return `is ${share < 0.01 ? "less than 1" : share > 0.99 ? "more than 99" : Math.round(100 * share)} % likely to hold`;
}

// A deadline or a budget: as a condition, and in words.
const targetOf = ({ by, at: limit }) => [by === "time" ? TIME : COST, "<=", limit];
const levelText = (k, level) => brief({ values: { [k]: level }, low: [] }, k).text;
const limitText = (target) => `a ${target.by === "time" ? "deadline" : "budget"} of ${levelText(targetOf(target)[0], target.at)}`;

// Whether the conditions of a plan, a deadline or a budget hold.
function verdicts(found) {
  const rows = DATA.where.map(([k, relation, level]) => [`${OUTPUTS[k].title} of at ${relation === "<=" ? "most" : "least"} ${levelText(k, level)}`, k, relation, level]);
  if (state.target) rows.push([limitText(state.target), ...targetOf(state.target)]);
  return rows.map(([text, ...condition]) => `${text} ${chance(found, ...condition) || (meets(found, ...condition) ? "holds" : "is missed")}`);
}

// When the job ends, if it starts on a day.
function day(start, seconds) {
  if (Number.isNaN(seconds)) return "-";
  if (seconds > 300 * 365.25 * 86400) return "never"; // as ENDLESS of dates.py
  const last = new Date(Date.parse(start) + 864e5 * Math.max(0, Math.ceil(seconds / 86400) - 1));
  return Number.isNaN(last.getTime()) || last.getUTCFullYear() > 9999 ? "after 9999" : last.toISOString().slice(0, 10);
}

function until(found) {
  const start = OUTPUTS[TIME]?.start;
  if (!start || isMissing(found, TIME)) return "";
  const [low, high] = [found.low[TIME], found.high[TIME]].map((end) => day(start, end ?? NaN));
  return `ends on ${day(start, found.values[TIME])}` + (low < high ? `, 90 %: ${low} to ${high}` : "");
}

// What the wall time goes to most, except to the model.
function limits(found) {
  const rows = DATA.losses.map((k) => [found.values[k], OUTPUTS[k].title.replace(" overhead", "")]).sort((a, b) => b[0] - a[0]).slice(0, 2);
  return rows.length > 1 && Number.isFinite(rows[0][0]) ? "limited by " + rows.map(([share, title], k) => `${title} (${rounded(100 * share)} %${k ? "" : " of the wall time"})`).join(", then ") : "";
}

// The layout in words, with its short form.
function spelled() {
  const known = (name) => DATA.degrees[name][state.pick], degree = (name) => state.moved.get(input(name)) ?? known(name) ?? 1;
  const ways = ["tensor", "pipeline", "context"].map((way) => [degree(way + "_parallel"), way]);
  const size = SIZE === undefined ? known("n_gpus") : value(SIZE);
  if (size) ways.push([size / ways.reduce((product, [count]) => product * count, 1), "data"]);
  const parts = [ways.filter(([count]) => count !== 1).map(([count, way]) => `${digits(count)} ${way}`).join(" × ")];
  for (const [name, text] of [["virtual_stages", "# virtual stages"], ["expert_parallel", "experts over #"], ["micro_batch_size", "micro-batches of #"], ["zero_stage", "ZeRO stage #"]])
    if (degree(name) > 1 || (known(name) !== null && !/virtual|expert/.test(name))) parts.push(text.replace("#", digits(Number(degree(name)))));
  if (String(known("sequence_parallel")) === "true") parts.push("sequence parallel");
  return [size && digits(size) + " GPUs", parts.filter(Boolean).join(", ")].filter(Boolean).join(": ") + (DATA.choices[state.pick] && ` (${DATA.choices[state.pick]})`);
}

const TOKENS = INPUTS.findIndex((own) => own.name === "sequence_length");
const tokens = (choice, moved) => moved.get(TOKENS) ?? DATA.bases[choice][TOKENS] ?? Infinity;
const isTried = (choice, moved = state.moved) => !(tokens(choice, moved) < DATA.shortest[choice]);
const runs = (found) => !found.why && Number.isFinite(found.values[GOAL]);
const isSure = (found) => NEAR < 0 || found.values[NEAR] !== 1;
const meets = (found, k, relation, level) => relation === "<=" ? found.values[k] <= level : found.values[k] >= level;
const keeps = (found) => DATA.where.every(([k, relation, level]) => meets(found, k, relation, level));
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

// Rows of cells as a file; a spreadsheet must not read a cell as a formula.
const saveRows = (rows, name) => save(name + ".csv", new Blob([rows.map(csvLine).join("\n") + "\n"], { type: "text/csv" }));
const csvLine = (cells) => cells.map((text) => '"' + (/^\s*[=+@-]/.test(text) && !Number.isFinite(Number(text)) ? "'" : "") + text.replaceAll('"', '""') + '"').join(",");
