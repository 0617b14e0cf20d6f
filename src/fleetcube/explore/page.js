"use strict";
// The page of `fleetcube explore`: data, state and controls; plot.js draws. Text from the cube goes
// to textContent and canvases only: it may be hostile, and must not become HTML.

let cube; // the axes and variables to choose from
let data = null; // the slice shown
let pinned = []; // points to compare, as rows of text
let band = null; // the ends of an interval along each axis shown
let over = []; // slices of further variables, through the point
const state = { variable: "", x: "", y: "", curve: false, at: {} }; // at: a place on every axis

const axisOf = (name) => cube.axes.find((axis) => axis.name === name);
const variableOf = (name) => cube.variables.find((variable) => variable.name === name);

const withUnit = (text, unit) => (unit ? `${text} ${unit}` : text);

function valueAt(k) {
  const value = data.values[k];
  if (data.flags) return data.flags[value] ?? "undefined";
  return Number.isNaN(value) ? "undefined" : withUnit(digits(value), data.unit);
}

function reasonAt(k) {
  const code = data.reason ? data.reason[k] : 0;
  return code === 0 ? "" : data.reasons[code] ?? "undefined";
}

// Requests

function query(names) {
  const parameters = new URLSearchParams({ variable: state.variable });
  if (names.x) parameters.set("x", names.x);
  if (names.y) parameters.set("y", names.y);
  for (const axis of cube.axes) parameters.set(`at.${axis.name}`, state.at[axis.name]);
  return parameters;
}

async function ask(path) {
  const answer = await fetch(path);
  if (!answer.ok) {
    const { error } = await answer.json().catch(() => ({ error: answer.statusText }));
    throw new Error(error);
  }
  return answer;
}

function report(text, bad = false) {
  at("status").textContent = text;
  at("status").classList.toggle("bad", bad);
}

// What is drawn is not what the controls say
const stale = (is) => document.querySelector("main").classList.toggle("stale", is);

// One request at a time, and then one for the latest state
function latest(work) {
  let busy = false, again = false;
  return async () => {
    again = true;
    if (busy) return;
    busy = true;
    while (again) {
      again = false;
      try {
        await work();
      } catch (error) {
        const gone = error instanceof TypeError;
        report(gone ? "no answer: is fleetcube still running?" : error.message, true);
        stale(true);
      }
    }
    busy = false;
  };
}

function unpacked(text, Kind) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Kind(bytes.buffer);
}

const refresh = latest(async () => {
  const slice = await (await ask(`/api/slice?${query(state)}`)).json();
  slice.values = unpacked(slice.values, Float64Array);
  if (slice.reason) slice.reason = unpacked(slice.reason, Int8Array);
  band = null; // of another point
  data = slice;
  WIDTHS.clear();
  over = [];
  stale(false);
  for (const axis of [data.x, data.y]) {
    if (axis) state.at[axis.name] = axis.picks[pickOf(axis)]; // the nearest point shown
  }
  const text = `${data.values.length.toLocaleString("en-US")} point${data.values.length > 1 ? "s" : ""} in ` +
    `${digits(Number((1000 * data.seconds).toPrecision(2)))} ms`;
  const thin = [data.x, data.y].filter((axis) => axis && axis.picks.length < axisOf(axis.name).size);
  const some = thin.map((axis) => `${axis.picks.length} of ` +
    `${axisOf(axis.name).size.toLocaleString("en-US")} along ${axis.name}`);
  at("size").textContent = [text, ...some].join("; "); // beside what is announced
  report(notes.splice(0).join("; "), warned);
  warned = false;
  remember();
  draw();
  rest();
});

let waiting = 0;
const notes = []; // what of a link was not understood
let warned = false;
function rest() { // once the point rests
  clearTimeout(waiting);
  waiting = setTimeout(askMore, 150);
}

// Intervals and further variables along the axes shown
const askMore = latest(async () => {
  const names = [data.x, data.y].filter(Boolean).map((axis) => axis.name);
  const more = [...at("over").selectedOptions].map((option) => option.value)
    .filter((name) => name !== state.variable).slice(0, 5);
  const ends = {}, found = [];
  for (const name of names) {
    if (at("band").checked && !data.flags) {
      const answer = await (await ask(`/api/band?${query({ x: name })}`)).json();
      for (const end of ["low", "high"]) answer[end] = answer[end] && unpacked(answer[end], Float64Array);
      if (answer.low) ends[name] = answer;
    }
    for (const variable of more) {
      if (!variableOf(variable).dims.includes(name)) continue;
      const parameters = query({ x: name });
      parameters.set("variable", variable);
      const slice = await (await ask(`/api/slice?${parameters}`)).json();
      found.push({ axis: name, title: slice.title, values: unpacked(slice.values, Float64Array) });
    }
  }
  band = ends;
  over = found;
  draw();
});

// The state is in the address, so that a view can be bookmarked

function link() {
  const parameters = new URLSearchParams({ variable: state.variable });
  if (state.x) parameters.set("x", state.x);
  if (state.y) parameters.set("y", state.y);
  for (const axis of cube.axes) {
    const own = [data.x, data.y].find((shown) => shown?.name === axis.name);
    const text = own ? own.links[pickOf(own)] : data.link[axis.name];
    parameters.set(`at.${axis.name}`, text);
  }
  return parameters;
}

// The point on the page of the spec: numbers of axes in base units, labels as the name of a choice
function decision() {
  const parameters = new URLSearchParams(), labels = [];
  for (const axis of cube.axes) {
    const own = [data.x, data.y].find((shown) => shown?.name === axis.name);
    const value = own ? own.base[pickOf(own)] : data.base[axis.name];
    if (axis.numeric) parameters.set(axis.name, value); else labels.push(`${axis.name}=${value}`);
  }
  if (labels.length) parameters.set("cluster", labels.join(" "));
  return `/decide#${parameters}`;
}

let written = "";
function remember() {
  at("decide").href = decision();
  written = `#${link()}`;
  history.replaceState(null, "", written);
}

async function follow(parameters) {
  const found = await (await ask(`/api/view?${parameters}`)).json();
  cube = found;
  state.at = Object.fromEntries(cube.axes.map((axis) =>
    [axis.name, found.state.at[axis.name] ?? Math.floor(axis.size / 2)]));
  state.x = found.state.x ?? "";
  state.y = found.state.y ?? "";
  state.curve = Boolean(found.state.x) && !found.state.y;
  if (found.notes.length) {
    notes.push(`not understood: ${found.notes.join("; ")}`);
    warned = true;
  }
  choose(found.state.variable);
  options(at("over"), cube.variables.filter((v) => !v.flag).map((v) => [v.name, v.title]), null,
    [...at("over").selectedOptions].map((option) => option.value));
  at("decide").hidden = !cube.decides;
  await refresh();
}

// A failure leaves what was, and says why
function attempt(parameters) {
  follow(parameters).catch((error) => { report(error.message, true); controls(); if (data) draw(); });
}

// The controls

function choose(name) {
  state.variable = name;
  const variable = variableOf(name);
  const good = variable.dims.filter((dim) => axisOf(dim).numeric && axisOf(dim).size > 1);
  const order = [...new Set([...good, ...variable.dims])];
  if (!order.includes(state.x)) state.x = order.find((dim) => dim !== state.y) ?? "";
  if (state.curve) state.y = "";
  else if (!order.includes(state.y) || state.y === state.x) {
    state.y = order.find((dim) => dim !== state.x) ?? "";
  }
  controls();
}

function options(select, entries, chosen, many = []) {
  select.replaceChildren(...entries.map(([value, text]) => {
    const option = new Option(text, value);
    option.selected = value === chosen || many.includes(value);
    return option;
  }));
}

function controls() {
  const variable = variableOf(state.variable);
  options(at("variable"), cube.variables.map((v) => [v.name, v.title]), state.variable);
  at("meaning").textContent = variable.meaning;
  options(at("x"), variable.dims.map((dim) => [dim, axisOf(dim).title]), state.x);
  const ups = variable.dims.filter((dim) => dim !== state.x)
    .map((dim) => [dim, axisOf(dim).title]);
  options(at("y"), [["", "none: a curve"], ...ups], state.y);
  at("x").disabled = !variable.dims.length;
  at("y").disabled = !variable.dims.length;
  at("swap").disabled = !state.y;
  const rest = variable.dims.filter((dim) => dim !== state.x && dim !== state.y);
  at("others").hidden = !rest.length;
  at("others").replaceChildren(at("others").firstElementChild, ...rest.map(slider));
}

function slider(name) {
  const axis = axisOf(name);
  const label = element("label", {}, axis.title);
  if (axis.options) {
    const select = element("select");
    options(select, axis.options.map((text, k) => [String(k), text]), String(state.at[name]));
    select.addEventListener("change", () => move({ [name]: Number(select.value) }));
    label.append(select);
    return label;
  }
  const range = element("input", { type: "range", min: 0, max: axis.size - 1, step: 1, value: state.at[name], "data-axis": name });
  range.addEventListener("input", () => move({ [name]: Number(range.value) }));
  label.append(range);
  return element("div", {}, label, typed(name));
}

// A value to read and to type
function typed(name) {
  const field = element("input", { type: "text", "data-typed": name, "aria-label": `value of ${axisOf(name).title}` });
  field.addEventListener("change", () => {
    const parameters = link();
    parameters.set(`at.${name}`, /[a-z$%]/i.test(field.value) || !data.units[name]
      ? field.value : `${field.value} ${data.units[name]}`);
    attempt(parameters);
  });
  return field;
}

function readouts() {
  for (const field of document.querySelectorAll("[data-typed]")) {
    const name = field.dataset.typed;
    const own = [data.x, data.y].find((axis) => axis?.name === name);
    const text = own ? withUnit(own.labels[pickOf(own)], own.unit) : data.at[name];
    if (document.activeElement !== field || !field.dataset.edited) field.value = text;
    document.querySelector(`input[type=range][data-axis="${CSS.escape(name)}"]`)
      ?.setAttribute("aria-valuetext", text);
  }
}

// Move the point; within the slice the map is only redrawn
function move(places) {
  Object.assign(state.at, places);
  const shown = [state.x, state.y];
  if (Object.keys(places).every((name) => shown.includes(name))) {
    band = null;
    over = [];
    remember();
    draw();
    rest();
  } else {
    refresh();
  }
}

async function download(ending) {
  try {
    const answer = await ask(`/api/download.${ending}?${query(state)}`);
    const name = /filename="(.*)"/.exec(answer.headers.get("Content-Disposition") ?? "");
    const whole = Number(answer.headers.get("Content-Length"));
    const parts = [], reader = answer.body.getReader();
    let size = 0;
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      parts.push(part.value);
      size += part.value.length;
      if (whole) report(`downloading: ${Math.floor((100 * size) / whole)} %`);
    }
    save(name ? name[1] : `slice.${ending}`, new Blob(parts));
    report("saved");
  } catch (error) {
    report(error.message, true);
  }
}

async function copy(kind) {
  try {
    const text = (await (await ask(`/api/code?${query(state)}`)).json())[kind];
    at("code").textContent = text;
    at("code").hidden = false;
    await navigator.clipboard.writeText(text).then(() => report("copied"),
      () => report("the text to copy is below the buttons"));
  } catch (error) {
    report(error.message, true);
  }
}

function pin() {
  const k = here();
  const of = [data.x, data.y].filter(Boolean);
  const places = cube.axes.filter((axis) => variableOf(data.variable).dims.includes(axis.name))
    .map((axis) => {
      const own = of.find((shown) => shown.name === axis.name);
      return `${axis.title} ${own ? withUnit(own.labels[pickOf(own)], own.unit) : data.at[axis.name]}`;
    });
  const reason = reasonAt(k);
  pinned.push([data.title, valueAt(k) + (reason ? ` (infeasible: ${reason})` : ""), places.join(", "), `#${link()}`]);
  pins();
}

function pins() {
  at("pins").hidden = !pinned.length;
  at("pins-table").tBodies[0].replaceChildren(...pinned.map(([title, value, where, hash], k) => {
    const buttons = [["go", () => attempt(hash.slice(1))], ["remove", () => { pinned.splice(k, 1); pins(); }]].map(([text, act]) => {
      const button = element("button", { type: "button", "aria-label": `${text} point ${k + 1}` }, text);
      button.addEventListener("click", act);
      return button;
    });
    return element("tr", {}, ...[title, value, where].map((text) => element("td", {}, text)), element("td", {}, ...buttons));
  }));
}

// The point's place in the slice
function here() {
  const { x, y } = data;
  return (y ? pickOf(y) * x.picks.length : 0) + (x ? pickOf(x) : 0);
}

function draw() {
  if (!data) return;
  grey = at("grey").checked;
  readouts();
  for (const id of ["map", "cut-x", "cut-y"]) hits[id] = () => null;
  const { x, y } = data;
  const fixed = variableOf(data.variable).dims.filter((d) => d !== x?.name && d !== y?.name);
  const where = fixed.map((name) => `${axisOf(name)?.title ?? name} ${data.at[name]}`).join(", ");
  at("title").textContent = heading(data.title, data.unit);
  at("fixed").textContent = where && `at ${where}`;
  at("map").toggleAttribute("hidden", !x);
  at("cuts").hidden = !y;
  document.querySelector("main").classList.toggle("curve", !y);
  for (const id of ["map", "cut-x"]) widthOf(at(id).parentElement); // before the pictures change
  at("legend").replaceChildren();
  let k = 0;
  if (y) {
    const i = pickOf(x), j = pickOf(y), n = x.picks.length;
    drawMap();
    at("title-x").textContent = `Along ${x.title}, at ${y.title} ${withUnit(y.labels[j], y.unit)}`;
    at("title-y").textContent = `Along ${y.title}, at ${x.title} ${withUnit(x.labels[i], x.unit)}`;
    drawCurve(at("cut-x"), x, x.picks.map((_, a) => j * n + a), i);
    drawCurve(at("cut-y"), y, y.picks.map((_, b) => b * n + i), j);
    k = j * n + i;
  } else if (x) {
    k = pickOf(x);
    drawCurve(at("map"), x, x.picks.map((_, a) => a), k);
    legend();
  }
  const point = [x, y].filter(Boolean).map((axis) =>
    `${axis.title} = ${withUnit(axis.labels[pickOf(axis)], axis.unit)}`).join(", ");
  const reason = reasonAt(k);
  at("point").textContent = `${data.title} = ${valueAt(k)}${point ? ` at ${point}` : ""}` +
    (reason ? ` (infeasible: ${reason})` : "");
  at("map").setAttribute("aria-label",
    `${heading(data.title, data.unit)}; arrow keys move the point`);
  for (const [id, axis] of [["cut-x", x], ["cut-y", y]]) {
    at(id).setAttribute("aria-label", axis ? `${heading(data.title, data.unit)} along ${axis.title}; ` +
      "left and right keys move the point" : "no cut");
  }
  tell();
}

// Pointer and keys

let pointer = null; // where it is, over which picture
function hover(event) {
  const [x, y] = spot(event.currentTarget, event);
  pointer = { id: event.currentTarget.id, x, y, left: event.clientX, top: event.clientY };
  tell();
}

// The tip says what is drawn under the pointer now
function tell() {
  const hit = pointer && data && hits[pointer.id]?.(pointer.x, pointer.y);
  const tip = at("tip");
  tip.hidden = !hit;
  if (!hit) return;
  const reason = reasonAt(hit.k);
  tip.textContent = [`${data.title} = ${valueAt(hit.k)}`,
    ...hit.labels.map(([axis, n]) => `${axis.title} = ${withUnit(axis.labels[n], axis.unit)}`),
    ...(reason ? [`infeasible: ${reason}`] : [])].join("\n");
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(pointer.left + 14, innerWidth - width - 4))}px`;
  tip.style.top = `${Math.min(pointer.top + 14, innerHeight - height - 4)}px`;
}

function arrows(event) {
  const steps = { ArrowRight: ["x", 1], ArrowLeft: ["x", -1], ArrowUp: ["y", 1], ArrowDown: ["y", -1] };
  let step = steps[event.key];
  if (step && event.target.id === "cut-y") step = step[0] === "x" ? ["y", step[1]] : null;
  if (step && event.target.id === "cut-x" && step[0] === "y") step = null;
  const axis = step && data && data[step[0]];
  if (!axis) return;
  event.preventDefault();
  const n = Math.min(axis.picks.length - 1, Math.max(0, pickOf(axis) + step[1]));
  move({ [axis.name]: axis.picks[n] });
}

async function begin() {
  const first = follow(location.hash.slice(1));
  at("variable").addEventListener("change", (event) => { choose(event.target.value); stale(true); refresh(); });
  at("x").addEventListener("change", (event) => {
    if (event.target.value === state.y) state.y = state.x;
    state.x = event.target.value;
    controls();
    refresh();
  });
  at("y").addEventListener("change", (event) => {
    state.y = event.target.value;
    state.curve = !state.y;
    controls();
    refresh();
  });
  at("swap").addEventListener("click", () => {
    [state.x, state.y] = [state.y, state.x];
    controls();
    refresh();
  });
  at("controls").addEventListener("submit", (event) => event.preventDefault());
  for (const id of ["over", "band"]) at(id).addEventListener("change", rest);
  for (const id of ["low", "high", "spacing"]) at(id).addEventListener("change", draw);
  for (const id of ["png", "svg"]) at(id).addEventListener("click", () =>
    savePicture(at("map"), data.variable, id, [at("point").textContent, `${cube.source}, fleetcube ${cube.version}`]));
  for (const id of ["command", "python"]) at(id).addEventListener("click", () => copy(id));
  at("pin").addEventListener("click", pin);
  window.addEventListener("hashchange", () => {
    if (location.hash !== written) attempt(location.hash.slice(1));
  });
  for (const id of ["grey", "keep"]) at(id).addEventListener("change", draw);
  for (const id of ["csv", "nc"]) at(id).addEventListener("click", () => download(id));
  for (const id of ["map", "cut-x", "cut-y"]) {
    const svg = at(id);
    svg.addEventListener("mousemove", hover);
    svg.addEventListener("mouseleave", () => { pointer = null; tell(); });
    svg.addEventListener("click", (event) => {
      const hit = data && hits[id](...spot(svg, event));
      if (hit) move(hit.at);
    });
    svg.addEventListener("keydown", arrows);
  }
  window.addEventListener("resize", () => { WIDTHS.clear(); draw(); });
  await first;
  at("source").textContent = cube.source;
  document.title = `${cube.source} - fleetcube explore`;
}

begin().catch((error) => report(error.message, true));
