// The page: controls and their levers, the answer in a sentence, tables, and the state in the address.
const seen = OUTPUTS.map((of, k) => k).filter((k) => !OUTPUTS[k].hidden);
const movable = INPUTS.map((own, k) => k).filter((k) => INPUTS[k].title);
const input = (name) => movable.find((k) => INPUTS[k].name === name);
const SIZE = input("n_gpus"), LIFE = input("gpu_mttf");
const MOST_LEVERS = 8;
const controls = new Map();
const drawnAt = new Map(); // what controls show, so that those that stay are left alone
const value = (k) => state.moved.has(k) ? state.moved.get(k) : DATA.bases[state.pick][k];
const plainly = (text) => text.replaceAll("_", " ");

function buildInputs() {
  const first = leading().slice(0, MOST_LEVERS), byTopic = new Map([["What changes it most", first]]);
  for (const k of movable) {
    if (first.includes(k)) continue;
    const topic = INPUTS[k].stated ? "As the spec states" : INPUTS[k].topic;
    once(byTopic, topic, () => []).push(k);
  }
  for (const [topic, rows] of byTopic) {
    if (rows.length) at("groups").append(element("details", rows === first ? { open: "" } : {}, element("summary", {}, topic), ...rows.map(control)));
  }
}

// Inputs by what they do to the goal or the cost; the axes of the spec come first.
function leading() {
  const here = answer(state.pick, state.moved, false);
  const size = (k) => DATA.axes.includes(INPUTS[k].name) ? Infinity : Math.max(...lever(k, here).map(({ gain }) => Math.abs(gain) || 0));
  return movable.filter((k) => INPUTS[k].leads || DATA.axes.includes(INPUTS[k].name)).map((k) => [k, size(k)]).filter(([, most]) => most > 5e-5).sort((a, b) => b[1] - a[1]).map(([k]) => k);
}

// What an input changes, 10 % less and more of it; the stops beside a count.
function lever(k, here) {
  const own = INPUTS[k], now = value(k);
  if (!Number.isFinite(now) || now === 0) return [];
  const row = own.count ? stops(own, now) : [now * 0.9, now * 1.1];
  return [row.findLast((to) => to < now), row.find((to) => to > now)].filter(Boolean).map((to) => {
    if (!valid(own, to)) return { to, why: "out of bounds" };
    const moved = new Map([...state.moved, [k, to]]);
    const one = shownWith(moved);
    if (one.why && OUTPUTS[GOAL].masked) return { to, why: plainly(one.why) };
    const changes = [...new Set([GOAL, COST])].filter((of) => of >= 0 && !OUTPUTS[of].words).map((of) => {
      const change = one.values[of] - here.values[of];
      return { of, change, gain: -OUTPUTS[of].sense * change / Math.abs(here.values[of]) };
    }).filter(({ gain }) => Math.abs(gain) > 5e-5);
    return { to, changes, gain: changes[0]?.gain ?? 0 };  // the goal's, or the cost's where that stays
  });
}

function control(k) {
  const own = INPUTS[k], label = element("label", { for: "n" + k, title: own.about }, own.title);
  const range = element("input", { type: "range", "aria-label": own.title, step: 1, min: 0 });
  const typed = element("input", { type: "text", id: "n" + k, inputmode: "decimal" });
  const error = element("p", { class: "error", id: "e" + k, hidden: "" }), levers = element("div", { class: "levers" });
  const box = element("div", { class: "one" }, label,
    element("div", { class: "pair" }, range, typed, element("span", {}, own.unit)), error, levers);
  controls.set(k, { box, range, typed, error, levers });
  range.addEventListener("input", () => { refuse(k, ""); move(k, range.stops[Number(range.value)]); });
  typed.addEventListener("change", () => {
    const text = typed.value.replaceAll(",", "").replaceAll("−", "-").trim();
    const wanted = /^(∞|inf|infinite)$/.test(text) ? Infinity : text === "" ? NaN : Number(text) * own.factor;
    refuse(k, valid(own, wanted) ? "" : `${typed.value || "Nothing"} is not ${bounds(own)}; the answer is of ${digits(value(k) / own.factor)}`);
    if (valid(own, wanted)) move(k, wanted);
  });
  return box;
}

// Bad input is said below its field, and the answer, which is of the last good one, is dimmed.
function refuse(k, why) {
  const { typed, error } = controls.get(k);
  typed.classList.toggle("wrong", why !== "");
  error.hidden = !why;
  error.textContent = why;
  for (const [name, text] of [["aria-invalid", "true"], ["aria-describedby", error.id]]) if (why) typed.setAttribute(name, text); else typed.removeAttribute(name);
  at("answers").classList.toggle("stale", [...controls.values()].some((own) => !own.error.hidden));
}

const bounds = ({ count, above, low, high, factor }) => `a ${count ? "whole " : ""}number ${above ? "above" : "at least"} ${digits(low / factor)}`
  + (high < Infinity ? ", at most " + digits(high / factor) : "");

function move(k, wanted) {
  if (Object.is(wanted, DATA.bases[state.pick][k]) && DATA.choices.length === 1) state.moved.delete(k);
  else state.moved.set(k, wanted);
  drawnAt.delete(k);
  later();
}

let waiting;
const later = () => { waiting ??= requestAnimationFrame(() => { waiting = undefined; draw(); }); };

// A button that changes the state.
function button(text, act, parts = {}) {
  const made = element("button", { type: "button", ...parts }, text);
  made.addEventListener("click", () => { act(); later(); });
  return made;
}

let resting;
function draw() {
  at("map").classList.add("stale");
  clearTimeout(resting);
  resting = setTimeout(rest, 100); // a slider rests
  if (!PROGRAMS.length) { placePoint(); return; }
  settle();
  for (const [k, { box, range, typed }] of controls) {
    const own = INPUTS[k], now = value(k), base = DATA.bases[state.pick][k];
    const shows = [now, base, state.moved.has(k)].join();
    if (drawnAt.get(k) === shows) continue;
    drawnAt.set(k, shows);
    const row = stops(own, base);
    range.stops = row;
    range.max = row.length - 1;
    range.hidden = row.length < 2;
    range.value = row.reduce((nearest, stop, j) => Math.abs(stop - now) < Math.abs(row[nearest] - now) ? j : nearest, 0);
    range.setAttribute("aria-valuetext", digits(now / own.factor) + " " + own.unit);
    if (!typed.classList.contains("wrong")) typed.value = digits(now / own.factor);
    box.classList.toggle("moved", state.moved.has(k));
  }
  const found = answer(state.pick);
  drawAnswers(found);
  drawAccount(found);
  drawFront(found);
  drawLosses(found);
  placePoint();
  for (const id of ["choices", "groups"]) at(id).classList.add("stale");
}

// What takes longer, and what is said to a screen reader: once a slider rests.
function rest() {
  WIDTHS.clear();
  document.documentElement.style.scrollPaddingTop = at("answers").offsetHeight + 8 + "px";  // it covers what is focused
  drawMap();
  at("command").textContent = (CUBE.axes.length ? cubeCommands() : commands()).join("\n");
  link();
  if (!PROGRAMS.length) return;
  for (const id of ["choices", "groups"]) at(id).classList.remove("stale");
  drawChoices();
  drawLevers();
  const said = sentences(["sentence", "status", "layout"].map((id) => at(id).textContent));
  if (at("said").textContent !== said) at("said").textContent = said;  // else it is read again
}

function drawAnswers(found) {
  const card = (k, text, span) => element("div", { title: OUTPUTS[k].about }, element("dt", {}, OUTPUTS[k].title),
    element("dd", { "data-name": OUTPUTS[k].name }, accounted(k, text)), element("dd", { class: "ends" }, span));
  refill(at("leading"), ...DATA.leading.map((k) => { const { text, span } = brief(found, k); return card(k, text, span); }));
  if (at("more").open) refill(at("cards"), ...seen.map((k) => card(k, cell(found, k), ends(found, k))));
  at("layout").textContent = spelled();
  const parts = DATA.sentence.map((k) => [{ job_time: "takes", job_cost: "costs" }[OUTPUTS[k].name] ?? OUTPUTS[k].title, brief(found, k)]);
  const first = parts.findIndex(([, { span }]) => span);
  const texts = parts.flatMap(([verb, { text, span }], k) => [k ? (parts.length > 2 ? ", " : " and ") : "", k ? verb : sentences([verb]), " ", accounted(DATA.sentence[k], text), span && ` (${k === first ? "9 times in 10: " : ""}${span})`]);
  refill(at("sentence"), ...(found.why ? ["Cannot run: " + plainly(found.why)] : texts));
  drawStatus(found);
}

const sentences = (texts) => texts.filter(Boolean).map((text) => text[0].toUpperCase() + text.slice(1)).join(". ");

// Whether it runs; if not, what does: another layout, another cluster, or nothing.
let status;
function drawStatus(found) {
  const alike = state.layout === null ? null : plan(state.cluster);
  const others = found.why ? CLUSTERS.map((_, cluster) => ({ cluster, ...plan(cluster) })).filter((one) => one.rank) : [];
  const [best] = found.why && alike?.rank ? [alike] : others.sort((a, b) => better(a.found.values[GOAL], b.found.values[GOAL], GOAL) ? -1 : 1);
  const first = choicesOf[state.cluster][0];
  const moved = [...state.moved].filter(([k, now]) => DATA.sizes.includes(INPUTS[k].name) && now !== DATA.bases[state.pick][k]);
  const notes = [
    state.layout === null && state.pick !== first && DATA.layouts.length ? `in another layout than ${DATA.layouts[first]}` : "",
    DATA.layouts.length && state.layout === null && moved.length > 1 ? "the search below may find a better one: several sizes are moved" : "",
    found.values[TIME] === Infinity ? "it never ends" : "",
    isSure(found) ? "" : "memory may not suffice: the model's error decides",
    DATA.slips.length && !known(state.pick) ? "beyond the sizes of measured steps: no interval is known" : ""].filter(Boolean);
  const margin = found.values[MARGIN], short = margin < 0 ? `; ${DATA.choices[state.pick] || "it"} takes ${rounded(1 - margin)} times a GPU's memory` : "";
  const search = DATA.layouts.length ? "; the command below searches all layouts" : "";
  const text = !found.why ? sentences([until(found), ...verdicts(found), limits(found), ...notes])
    : best ? "This can: " : (DATA.choices.length > 1 ? "No other here can" : "Change an input") + short + search;
  if (status === text + best?.choice) return;  // said once
  status = text + best?.choice;
  at("answers").classList.toggle("bad", Boolean(found.why));
  at("status").replaceChildren(text);
  if (best) at("status").append(button(DATA.choices[best.choice], () => Object.assign(state, { cluster: clusterOf[best.choice], layout: null })));
}

// The state is in the page's address: a link says what is seen.
function link() {
  const said = new URLSearchParams();
  if (state.cluster !== clusterOf[BEGIN]) said.set("cluster", CLUSTERS[state.cluster]);
  if (state.layout !== null) said.set("layout", DATA.choices[state.layout]);
  if (state.target) said.set(state.target.by, state.target.at);
  if (state.account) said.set("account", state.account);
  for (const [k, value] of state.moved) said.set(INPUTS[k].name, value);
  linkMap(said);
  try { history.replaceState(null, "", "#" + said); } catch { /* an address that may not change */ }
}

function linked() {
  for (const [name, text] of new URLSearchParams(location.hash.slice(1))) {
    const k = input(name), value = Number(text);
    if (name === "cluster") state.cluster = Math.max(CLUSTERS.indexOf(text), 0);
    else if (name === "layout") state.layout = DATA.choices.indexOf(text);
    else if (OUTPUTS[{ time: TIME, cost: COST }[name]] && value > 0 && value < Infinity) state.target = { by: name, at: value };
    else if (name === "account" && accountable(text)) openAccount(text);
    else if (k !== undefined && text !== "" && valid(INPUTS[k], value)) state.moved.set(k, value);
    else linkedMap(name, text);
  }
  if (state.layout === -1) state.layout = null;
  at("limit").value = state.target?.by ?? "";
}

// The point on the command line; numbers are rounded to six digits, with their units.
function commands() {
  const numbers = movable.filter((k) => state.moved.has(k) || DATA.axes.includes(INPUTS[k].name)).map((k) => {
    const own = INPUTS[k], now = value(k);
    if (!Number.isFinite(now)) return own.name + "=inf";
    if (own.count || !own.unit) return `${own.name}=${Number(now.toPrecision(own.count ? 15 : 6))}`;
    return `${own.name}="${Number((now / own.factor).toPrecision(6))} ${own.unit}"`;
  });
  const given = DATA.given.filter(([name]) => !numbers.some((word) => word.startsWith(name + "="))).map(([, word]) => word);
  const line = (command, words) => [command, words, ...given, ...numbers].filter(Boolean).join(" ");
  const all = DATA.layouts.length ? [line(DATA.command.replace("run", "plan"), DATA.searches[state.pick])] : [];
  return [line(DATA.command, DATA.commands[state.pick]), ...all];
}

function drawChoices() {
  at("choices").hidden = DATA.choices.length < 2;
  if (DATA.choices.length < 2) return;
  const rows = DATA.choices.map((name, choice) => {
    const found = answer(choice), why = found.why ? plainly(found.why) : isTried(choice) ? "" : "too few tokens a rank: not checked";
    return { name, choice, found, why };
  });
  rows.sort((a, b) => (a.why !== "") - (b.why !== "") || (a.why ? 0 : OUTPUTS[GOAL].sense * (a.found.values[GOAL] - b.found.values[GOAL])) || a.choice - b.choice);
  const column = (text) => element("th", { scope: "col" }, text);
  const head = element("tr", {}, element("td", { class: "act" }), column("choice"), ...seen.map((k) => column(OUTPUTS[k].title)), column("why not"));
  const body = rows.map(({ name, choice, found, why }) => {
    const pick = button("show", () => { state.layout = choice; }, { "aria-pressed": choice === state.pick, "aria-label": "show " + name });
    return element("tr", choice === state.pick ? { class: "picked" } : {}, element("td", { class: "act" }, pick), element("td", {}, name),
      ...seen.map((k) => element("td", {}, cell(found, k))), element("td", {}, why));
  });
  at("choices").querySelector("table").replaceChildren(element("thead", {}, head), element("tbody", {}, ...body));
  at("again").hidden = state.layout === null || choicesOf[state.cluster].length < 2;
}

// The bars beside the sliders: what is better is blue and to the right.
function drawLevers() {
  const here = answer(state.pick, state.moved, false);
  const rows = [...controls].filter(([, { box }]) => box.closest("details").open).map(([k, own]) => [own.levers, k, lever(k, here)]);
  const most = Math.max(...rows.flatMap(([, , both]) => both.map(({ gain }) => Math.abs(gain) || 0)), 1e-12);
  for (const [place, k, both] of rows) place.replaceChildren(...both.map((one) => leverBar(k, one, most)).filter(Boolean));
}

function leverBar(k, { to, gain, changes, why }, most) {
  const own = INPUTS[k], by = own.count ? digits(to / own.factor) : (to > value(k) ? "+10 %" : "−10 %");
  if (why) return element("div", {}, element("span", { class: "by" }, by), element("span", { class: "what" }, why));
  if (!changes.length) return null;
  const bar = element("i", { class: gain > 0 ? "gain" : "loss" });
  bar.style.width = Math.max(2, 36 * Math.abs(gain) / most) + "px";
  const told = changes.map(({ of, change }) => (change > 0 ? "+" : "−") + rounded(Math.abs(change) / OUTPUTS[of].factor) + " " + OUTPUTS[of].unit);
  return element("div", {}, element("span", { class: "by" }, by), element("span", { class: "track" }, bar), element("span", { class: "what" }, told.join(", ")));
}

function reset() {
  state.moved.clear();
  Object.assign(state, { cluster: clusterOf[BEGIN], layout: null, target: undefined });
  at("limit").value = "";
  for (const k of controls.keys()) refuse(k, "");
  drawnAt.clear();
  later();
}

function listen() {
  at("reset").addEventListener("click", reset);
  document.addEventListener("click", ({ target }) => { const one = target.closest("[data-account]"); if (one) openAccount(one.dataset.account).then(() => at("account-of").focus()); });
  at("close").addEventListener("click", closeAccount);
  at("account").addEventListener("keydown", ({ key }) => { if (key === "Escape") closeAccount(); });
  at("again").addEventListener("click", () => { state.layout = null; later(); });
  at("limit").addEventListener("change", () => {
    const by = at("limit").value, points = front?.points ?? [], now = answer(state.pick).values[by === "time" ? TIME : COST];
    state.target = by && points.length ? { by, at: Number.isFinite(now) ? now : points[0][by === "time" ? "x" : "y"] } : undefined;
    later();
  });
  at("target").addEventListener("input", ({ target: { value, low, high } }) => { state.target.at = low * (high / low) ** (value / 200); later(); });
  at("typed").addEventListener("change", () => {
    const wanted = Number(at("typed").value.replaceAll(",", "")) * OUTPUTS[state.target.by === "time" ? TIME : COST].factor;
    if (wanted > 0 && wanted < Infinity) state.target.at = wanted;
    later();
  });
  drag(at("front-picture"), (x, y, first) => {
    if (!front) return;
    const { X, Y, points } = front, near = points.map((point) => [Math.hypot(X(point.x) - x, Y(point.y) - y), point]).sort((a, b) => a[0] - b[0])[0];
    if (first && near && near[0] < 14) choose(near[1]);
    else if (state.target?.by !== "cost") state.target = { by: "time", at: valueAt(front, x) };
    else state.target.at = valueAt({ left: front.bottom, right: front.top, across: front.up }, y);
    at("limit").value = state.target?.by ?? "";
    later();
  });
  at("groups").addEventListener("toggle", () => drawLevers(), true);
  at("more").addEventListener("toggle", later);
  addEventListener("beforeprint", () => { WIDTHS.clear(); draw(); });
  at("find").addEventListener("input", () => {
    const text = plainly(at("find").value.toLowerCase());
    for (const { box } of controls.values()) {
      box.hidden = !box.querySelector("label").textContent.toLowerCase().includes(text);
      if (text && !box.hidden) box.parentElement.open = true;
    }
  });
}

function listenSaves() {
  for (const button of document.querySelectorAll("[data-save]")) button.addEventListener("click", () => {
    const { save: kind, of } = button.dataset;
    if (kind === "csv") saveTable(at(of).querySelector("table"), of); else for (const svg of of === "map" ? [at("map-picture"), at("map-other")].filter((own) => !own.parentElement.hidden) : [at(of)]) savePicture(svg, svg.id, kind, [of === "map" ? `${at("map-title").textContent}. ${at("map-read").textContent}` : at("sentence").textContent, `${DATA.caption}, ${new Date().toISOString().slice(0, 10)}`]);
  });
}

// Where a picture is pressed, and where the pointer goes from there, in the picture's units.
function drag(svg, act) {
  const go = (event, first) => act(...spot(svg, event), first);
  svg.addEventListener("pointerdown", (event) => { svg.setPointerCapture(event.pointerId); go(event, true); });
  svg.addEventListener("pointermove", (event) => { if (svg.hasPointerCapture(event.pointerId)) go(event, false); });
}

// A page of a cube without formulas has its map alone.
function start() {
  const alone = !PROGRAMS.length;
  document.querySelector("main").className = alone ? "alone" : "";
  if (alone) for (const part of document.querySelectorAll("main > *")) part.hidden = !["map", "foot"].includes(part.id);
  else begin();
  chooseMap();
  linked();
  if (!alone) { settle(); buildInputs(); listen(); }
  buildMap();
  listenMap();
  listenSaves();
  addEventListener("hashchange", () => { reset(); linked(); buildMap(); });
  addEventListener("resize", () => { WIDTHS.clear(); later(); });
  draw();
  if (alone) return;
  clearTimeout(resting);
  requestAnimationFrame(() => setTimeout(rest));  // after the first paint
}

function begin() {
  for (const part of document.querySelectorAll(".live")) part.hidden = false;
  at("more").open = false;
  at("assumed").firstChild.open = innerWidth > 760;
  for (const axis of CUBE.axes) if (input(axis.name) !== undefined && !axis.labels) INPUTS[input(axis.name)].stops = axis.values;
  settle();
  if (!DATA.layouts.length) at("front").querySelector("h2").textContent = "Cost against time at each size";
}

if (typeof document !== "undefined") start();
