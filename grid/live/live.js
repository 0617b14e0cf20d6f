// State: the choice picked, and inputs moved away from what the choices say.
const INPUTS = DATA.inputs, OUTPUTS = DATA.outputs;
const REASON = OUTPUTS.findIndex((of) => of.name === "infeasible_reason");
const PLACES = [-1, -0.5, 0, 0.5, 1];
const state = { pick: 0, moved: new Map() };

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
      if (!(low[k] < high[k])) low[k] = high[k] = undefined;
    });
  }
  const code = REASON < 0 ? 0 : values[REASON];
  return { values, low, high, why: code === 0 ? null : OUTPUTS[REASON].words[code] || "undefined" };
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
    const row = [-4, -3, -2, -1, 0, 1, 2, 3, 4].map((k) => value * 2 ** k);
    return row.filter((v) => valid(own, v));
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

function digits(value) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "—" : value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return value.toExponential(3);
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  return value.toLocaleString("en-US", { maximumSignificantDigits: 4 });
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

// Drawing

const at = (id) => document.getElementById(id);

function element(name, parts = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(parts)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function drawn(name, parts, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(parts)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

const seen = OUTPUTS.map((of, k) => k).filter((k) => !OUTPUTS[k].hidden);
const numeric = seen.filter((k) => !OUTPUTS[k].words);
const movable = INPUTS.map((own, k) => k).filter((k) => INPUTS[k].title);
const controls = new Map();
const drawnAt = new Map(); // what controls show, so that those that stay are left alone
const value = (k) => state.moved.has(k) ? state.moved.get(k) : DATA.bases[state.pick][k];

function buildInputs() {
  const open = new Set(), byTopic = new Map();
  for (const k of movable) {
    const own = INPUTS[k];
    const topic = own.stated ? "As the spec states" : own.topic;
    if (own.stated) open.add(topic);
    if (!byTopic.has(topic)) byTopic.set(topic, []);
    byTopic.get(topic).push(k);
  }
  const order = [...byTopic.keys()].sort((a, b) => open.has(b) - open.has(a));
  for (const topic of order) {
    const group = element("details", open.has(topic) ? { open: "" } : {}, element("summary", {}, topic));
    for (const k of byTopic.get(topic)) group.append(control(k));
    at("groups").append(group);
  }
}

function control(k) {
  const own = INPUTS[k], label = element("label", { for: "n" + k, title: own.about }, own.title);
  const range = element("input", { type: "range", "aria-label": own.title, step: 1, min: 0 });
  const typed = element("input", { type: "text", id: "n" + k, inputmode: "decimal" });
  const box = element("div", { class: "one" }, label,
    element("div", { class: "pair" }, range, typed, element("span", {}, own.unit)));
  controls.set(k, { box, range, typed });
  range.addEventListener("input", () => move(k, range.stops[Number(range.value)]));
  typed.addEventListener("change", () => {
    const text = typed.value.replaceAll(",", "").replaceAll("−", "-").trim();
    const wanted = /^(∞|inf|infinite)$/.test(text) ? Infinity : text === "" ? NaN : Number(text) * own.factor;
    const good = valid(own, wanted);
    typed.classList.toggle("wrong", !good);
    typed.title = good ? "" : own.title + " is " + bounds(own);
    if (good) move(k, wanted);
  });
  return box;
}

function bounds(own) {
  const from = (own.above ? "above " : "at least ") + digits(own.low / own.factor);
  const to = own.high < Infinity ? ", at most " + digits(own.high / own.factor) : "";
  return (own.count ? "a whole number " : "") + from + to;
}

function move(k, wanted) {
  if (Object.is(wanted, DATA.bases[state.pick][k]) && DATA.choices.length === 1) state.moved.delete(k);
  else state.moved.set(k, wanted);
  drawnAt.delete(k);
  later();
}

let waiting = false;
function later() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; draw(); });
}

let resting;
function draw() {
  for (const [k, { box, range, typed }] of controls) {
    const own = INPUTS[k], now = value(k), base = DATA.bases[state.pick][k];
    const shows = [now, base, state.moved.has(k)].join();
    if (drawnAt.get(k) === shows && !typed.classList.contains("wrong")) continue;
    drawnAt.set(k, shows);
    const row = stops(own, base);
    range.stops = row;
    range.max = row.length - 1;
    range.hidden = row.length < 2;
    let nearest = 0;
    row.forEach((stop, j) => { if (Math.abs(stop - now) < Math.abs(row[nearest] - now)) nearest = j; });
    range.value = nearest;
    range.setAttribute("aria-valuetext", digits(now / own.factor) + " " + own.unit);
    if (document.activeElement !== typed || !typed.classList.contains("wrong"))
      typed.value = digits(now / own.factor), typed.classList.remove("wrong");
    box.classList.toggle("moved", state.moved.has(k));
  }
  const found = answer(state.pick);
  drawAnswers(found);
  drawCurve(found);
  drawLosses(found);
  for (const id of ["choices", "levers"]) at(id).classList.add("stale");
  clearTimeout(resting);
  resting = setTimeout(() => { drawChoices(); drawLevers(answer(state.pick)); link(); }, 100); // a slider rests
  at("command").textContent = command();
}

function drawAnswers(found) {
  const cards = seen.map((k) => element("div", { title: OUTPUTS[k].about }, element("dt", {}, OUTPUTS[k].title),
    element("dd", { "data-name": OUTPUTS[k].name }, cell(found, k)), element("dd", { class: "ends" }, ends(found, k)),
    ...until(found, k)));
  at("cards").replaceChildren(...cards);
  const cost = numeric.slice(1).find((k) => OUTPUTS[k].unit.includes("USD")) ?? numeric[1];
  const told = [numeric[0], cost].filter((k) => k !== undefined).map((k) => OUTPUTS[k].title + " " + cell(found, k) + (ends(found, k) ? " (" + ends(found, k) + ")" : ""));
  at("sentence").textContent = (DATA.choices[state.pick] ? DATA.choices[state.pick].replace(/^layout=/, "") + ": " : "") + told.join(", ");
  drawStatus(found);
}

// Whether it runs, and if not, which choice does: the best by what the curve shows.
let status;
function drawStatus(found) {
  const up = Number(at("up").value);
  const others = found.why ? DATA.choices.map((_, choice) => [choice, answer(choice, state.moved, false)]) : [];
  const able = others.filter(([, one]) => !one.why && Number.isFinite(one.values[up]));
  const [best] = able.sort((a, b) => a[1].values[up] - b[1].values[up])[0] ?? [];
  const why = found.why && "cannot run: " + found.why.replaceAll("_", " ");
  const text = !why ? (DATA.slips.length && !known(state.pick) ? "runs, beyond the sizes of measured steps: no interval is known" : "runs")
    : best !== undefined ? why + "; this can: " : DATA.choices.length > 1 ? why + ", nor can any other choice" : why;
  if (status === text + best) return;  // said once
  status = text + best;
  at("status").className = why ? "bad" : "";
  at("status").replaceChildren(text);
  if (best === undefined) return;
  const take = element("button", { type: "button" }, DATA.choices[best]);
  take.addEventListener("click", () => { state.pick = best; later(); });
  at("status").append(take);
}

// The state is in the page's address: a link says what is seen.
function link() {
  const said = new URLSearchParams(state.pick ? [["choice", DATA.choices[state.pick]]] : []);
  for (const [k, value] of state.moved) said.set(INPUTS[k].name, value);
  try { history.replaceState(null, "", "#" + said); } catch { /* an address that may not change */ }
}

function linked() {
  for (const [name, text] of new URLSearchParams(location.hash.slice(1))) {
    const k = movable.find((k) => INPUTS[k].name === name), value = Number(text);
    if (name === "choice") state.pick = Math.max(DATA.choices.indexOf(text), 0);
    else if (k !== undefined && text !== "" && valid(INPUTS[k], value)) state.moved.set(k, value);
  }
}

function command() {
  const said = movable.filter((k) => state.moved.has(k) || DATA.axes.includes(INPUTS[k].name));
  const numbers = said.map((k) => INPUTS[k].name + "=" + (value(k) === Infinity ? "inf" : String(value(k))));
  return ["fleetcube run", DATA.file, DATA.commands[state.pick], ...numbers].filter(Boolean).join(" ");
}

function drawCurve(found) {
  const up = Number(at("up").value), across = Number(at("across").value);
  const own = INPUTS[across], of = OUTPUTS[up], chart = at("chart");
  const now = value(across);
  const xs = [...new Set([...stops(own, DATA.bases[state.pick][across]), now])].filter(Number.isFinite).sort((a, b) => a - b);
  chart.replaceChildren();
  if (xs.length < 2) { at("read").textContent = "No range is known of " + own.title + "; type a value."; return; }
  const lines = DATA.choices.map((_, choice) => xs.map((x) =>
    answer(choice, new Map([...state.moved, [across, x]]), choice === state.pick)));
  const good = (one) => !(one.why && of.masked) && Number.isFinite(one.values[up]);
  const ys = lines.flatMap((row) => row.filter(good).flatMap((one) => [one.values[up], one.low[up], one.high[up]]))
    .filter((y) => y !== undefined && Number.isFinite(y)).map((y) => y / of.factor);
  if (!ys.length) { at("read").textContent = "Nothing on this curve can run."; return; }
  const logX = xs[0] > 0 && xs.at(-1) / xs[0] > 4, low = Math.min(...ys), high = Math.max(...ys);
  const logY = low > 0 && high / low > 8;
  const place = (log, v, a, b) => log ? Math.log(v / a) / Math.log(b / a || 2) : (v - a) / (b - a || 1);
  const X = (x) => 62 + 560 * place(logX, x, xs[0], xs.at(-1));
  const Y = (y) => 270 - 250 * place(logY, y / of.factor, low, high > low ? high : low + Math.abs(low) + 1);
  chart.append(drawn("path", { class: "axis", d: "M62 20V270H622", fill: "none" }));
  const ticks = [...new Set([0, 0.25, 0.5, 0.75, 1].map((part) => xs[Math.round(part * (xs.length - 1))]))];
  for (const x of ticks) {
    const anchor = x === xs[0] ? "start" : x === xs.at(-1) ? "end" : "middle";
    chart.append(drawn("text", { x: X(x), y: 288, "text-anchor": anchor }, digits(own.count ? x : Number((x / own.factor).toPrecision(3)))));
  }
  for (const part of [0, 0.5, 1]) {
    const y = logY ? low * (high / low) ** part : low + (high - low) * part;
    chart.append(drawn("text", { x: 56, y: Y(y * of.factor) + 4, "text-anchor": "end" }, digits(Number(y.toPrecision(3)))));
  }
  chart.append(drawn("text", { x: 342, y: 310, "text-anchor": "middle" }, own.title + (own.unit ? " (" + own.unit + ")" : "")));
  chart.append(drawn("text", { x: 62, y: 12 }, of.title + (of.unit ? " (" + of.unit + ")" : "")));
  const band = lines[state.pick].map((one, j) => [one, xs[j]]).filter(([one]) => good(one) && one.low[up] !== undefined);
  if (band.length > 1) {
    const upper = band.map(([one, x]) => X(x) + " " + Y(one.high[up])), lower = band.map(([one, x]) => X(x) + " " + Y(one.low[up])).reverse();
    chart.append(drawn("path", { class: "band", d: "M" + [...upper, ...lower].join("L") + "Z" }));
  }
  const order = [...lines.keys()].sort((a, b) => (a === state.pick) - (b === state.pick));
  for (const choice of order) {
    const row = lines[choice];
    let path = "", pen = "M";
    row.forEach((one, j) => { if (good(one)) { path += pen + X(xs[j]) + " " + Y(one.values[up]); pen = "L"; } else pen = "M"; });
    if (path) chart.append(drawn("path", { class: choice === state.pick ? "line picked" : "line", d: path }));
  }
  if (good(found)) chart.append(drawn("circle", { class: "here", r: 5, cx: X(now), cy: Y(found.values[up]) }));
  const said = of.title + " over " + own.title + ": " + cell(found, up) + " at " + shown(own, now);
  chart.setAttribute("aria-label", said);
  at("read").textContent = said + (ends(found, up) ? ", " + Math.round(100 * DATA.share) + " % interval " + ends(found, up) : "");
}

function drawLosses(found) {
  const bar = at("bar"), shares = at("shares");
  at("losses").hidden = !DATA.losses.length || Boolean(found.why);
  if (at("losses").hidden) return;
  const parts = DATA.losses.map((k, j) => [OUTPUTS[k].title.replace(" overhead", ""), found.values[k], "c" + j]);
  const rest = 1 - parts.reduce((sum, part) => sum + part[1], 0);
  parts.push(["model operations at peak", rest, "c7"]);
  bar.replaceChildren();
  let from = 0;
  for (const [, share, colour] of parts) {
    bar.append(drawn("rect", { class: colour, x: 640 * from, y: 0, width: Math.max(0, 640 * share), height: 26 }));
    from += share;
  }
  const said = parts.filter(([, share]) => share > 0.0005).map(([name, share, colour]) => [name + " " + digits(Number((100 * share).toPrecision(3))) + " %", colour]);
  shares.replaceChildren(...said.map(([text, colour]) => element("span", {}, element("i", { class: colour }), text)));
  bar.setAttribute("aria-label", said.map(([text]) => text).join(", "));
}

function drawChoices() {
  at("choices").classList.remove("stale");
  at("choices").hidden = DATA.choices.length < 2;
  if (DATA.choices.length < 2) return;
  const up = Number(at("up").value);
  const rows = DATA.choices.map((name, choice) => ({ name, choice, found: answer(choice) }));
  const size = ({ found }) => found.why || !Number.isFinite(found.values[up]) ? Infinity : found.values[up];
  rows.sort((a, b) => size(a) - size(b) || a.choice - b.choice);
  const column = (text) => element("th", { scope: "col" }, text);
  const head = element("tr", {}, element("td"), column("choice"), ...seen.map((k) => column(OUTPUTS[k].title)), element("td"));
  const body = rows.map(({ name, choice, found }) => {
    const pick = element("button", { type: "button", "aria-pressed": choice === state.pick, "aria-label": "show " + name }, "show");
    pick.addEventListener("click", () => { state.pick = choice; later(); });
    return element("tr", choice === state.pick ? { class: "picked" } : {}, element("td", {}, pick), element("td", {}, name),
      ...seen.map((k) => element("td", {}, cell(found, k))), element("td", {}, found.why ? found.why.replaceAll("_", " ") : ""));
  });
  at("choices").querySelector("table").replaceChildren(element("thead", {}, head), element("tbody", {}, ...body));
}

function drawLevers(found) {
  const up = Number(at("up").value), of = OUTPUTS[up], here = found.values[up], table = at("levers").querySelector("table");
  at("levers").classList.remove("stale");
  if (found.why && of.masked) { table.replaceChildren(); return; }
  const rows = [];
  for (const k of movable) {
    const own = INPUTS[k], now = value(k);
    if (!Number.isFinite(now) || now === 0) continue;
    const tried = own.count ? [now / 2, now * 2] : [now * 0.9, now * 1.1];
    const both = tried.map((v) => {
      if (!valid(own, v)) return "out of bounds";
      const one = answer(state.pick, new Map([...state.moved, [k, v]]), false);
      return one.why && of.masked ? one.why.replaceAll("_", " ") : one.values[up] / here - 1;
    });
    const most = Math.max(...both.filter(Number.isFinite).map(Math.abs), 0);
    if (most > 5e-5) rows.push({ own, now, both, most });
  }
  rows.sort((a, b) => b.most - a.most);
  const percent = (x) => typeof x === "string" ? x : (x > 0 ? "+" : x < 0 ? "−" : "") + digits(Number((100 * Math.abs(x)).toPrecision(2))) + " %";
  const head = element("tr", {}, ...["input", "kind", "now", "10 % less (a count: half)", "10 % more (a count: double)"].map((text) => element("th", { scope: "col" }, text)));
  table.replaceChildren(element("thead", {}, head), element("tbody", {}, ...rows.slice(0, 12).map(({ own, now, both }) =>
    element("tr", {}, element("td", {}, own.title), element("td", {}, own.kind), element("td", {}, shown(own, now)), ...both.map((x) => element("td", {}, percent(x)))))));
  at("levers").querySelector("h2").textContent = "What matters here: change of " + of.title;
}

function start() {
  document.querySelector("main").classList.remove("still");
  for (const id of ["inputs", "shown"]) at(id).hidden = false;
  buildInputs();
  for (const k of numeric) at("up").append(element("option", { value: k }, OUTPUTS[k].title));
  const first = movable.find((k) => DATA.axes.includes(INPUTS[k].name)) ?? movable.find((k) => INPUTS[k].name === "n_gpus") ?? movable.find((k) => INPUTS[k].stated) ?? movable[0];
  for (const k of movable) at("across").append(element("option", k === first ? { value: k, selected: "" } : { value: k }, INPUTS[k].title));
  for (const id of ["up", "across"]) at(id).addEventListener("change", later);
  at("reset").addEventListener("click", () => { state.moved.clear(); later(); });
  at("find").addEventListener("input", () => {
    const text = at("find").value.toLowerCase().replaceAll("_", " ");
    for (const group of at("groups").children) {
      let any = false;
      for (const box of group.querySelectorAll(".one")) {
        box.hidden = text !== "" && !box.textContent.toLowerCase().includes(text);
        any = any || !box.hidden;
      }
      group.hidden = !any;
      if (text) group.open = any;
    }
  });
  at("about").replaceChildren(...DATA.about.map((text) => element("li", {}, text)));
  linked();
  draw();
}

if (typeof document !== "undefined") start();
