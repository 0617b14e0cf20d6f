"use strict";
// The page of `fleetcube explore`: data, state and controls; plot.js draws. Text from the cube goes
// to textContent and canvases only: it may be hostile, and must not become HTML.

const $ = (id) => document.getElementById(id);
let cube; // the axes and variables to choose from
let data = null; // the slice shown
const state = { variable: "", x: "", y: "", curve: false, at: {} }; // at: a place on every axis

const axisOf = (name) => cube.axes.find((axis) => axis.name === name);
const variableOf = (name) => cube.variables.find((variable) => variable.name === name);

// Numbers as text

function formatted(value, digits = 4) {
  if (Number.isNaN(value)) return "undefined";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential(digits - 1);
  return value.toLocaleString("en-US", { maximumSignificantDigits: size >= 1e3 ? 7 : digits,
    maximumFractionDigits: size >= 1e3 ? 0 : 20, roundingPriority: "lessPrecision" });
}

const withUnit = (text, unit) => (unit ? `${text} ${unit}` : text);
const heading = (name, unit) => (unit ? `${name} [${unit}]` : name);

function valueAt(k) {
  const value = data.values[k];
  if (data.flags) return data.flags[value] ?? "undefined";
  return withUnit(formatted(value), data.unit);
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
  for (const name of variableOf(state.variable).dims) parameters.set(`at.${name}`, state.at[name]);
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
  $("status").textContent = text;
  $("status").classList.toggle("bad", bad);
}

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
  data = slice;
  for (const axis of [data.x, data.y]) {
    if (axis) state.at[axis.name] = axis.picks[pickOf(axis)]; // the nearest point shown
  }
  const text = `${data.values.length.toLocaleString("en-US")} point${data.values.length > 1 ? "s" : ""} in ` +
    `${formatted(1000 * data.seconds, 2)} ms`;
  const thin = [data.x, data.y].filter((axis) => axis && axis.picks.length < axisOf(axis.name).size);
  const some = thin.map((axis) => `${axis.picks.length} of ` +
    `${axisOf(axis.name).size.toLocaleString("en-US")} along ${axis.name}`);
  report([text, ...some].join("; "));
  remember();
  draw();
  levers();
});

let waiting = 0;
function levers() { // once the point rests
  clearTimeout(waiting);
  waiting = setTimeout(askLevers, 150);
}

const askLevers = latest(async () => {
  const body = $("levers-table").tBodies[0];
  let point;
  try {
    if (variableOf(state.variable).flag) throw new Error("a flag has no elasticities");
    point = await (await ask(`/api/levers?${query({})}`)).json();
  } catch (error) {
    body.replaceChildren();
    $("levers-table").hidden = true;
    $("levers-said").textContent = error.message;
    return;
  }
  $("levers-table").hidden = false;
  const parts = [`${point.variable} = ${point.value}`];
  if (point.infeasible) parts.push(`infeasible: ${point.infeasible}`);
  if (point.near) parts.push("near the memory limit, within the model's own error");
  if (point.more) parts.push(`${point.more} more inputs matter less`);
  if (point.note) parts.push(point.note);
  $("levers-said").textContent = parts.join("; ");
  const sizes = point.rows.map((row) => Math.abs(row.elasticity)).filter(Number.isFinite);
  const most = Math.max(1e-12, ...sizes);
  body.replaceChildren(...point.rows.map((row) => lever(row, most)));
});

function lever(row, most) {
  const line = document.createElement("tr");
  const cell = (text) => {
    const item = document.createElement("td");
    item.textContent = text;
    line.append(item);
    return item;
  };
  cell(row.input).title = row.meaning;
  cell(row.value);
  const size = typeof row.elasticity === "number" ? row.elasticity : NaN;
  cell(Number.isNaN(size) ? row.elasticity ?? "undefined" : formatted(size, 3).replace("-", "\u2212"));
  const bar = cell("");
  bar.className = "bar";
  const NS = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(NS, "svg");
  svg.setAttribute("viewBox", "-100 0 200 12");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const length = Number.isNaN(size) ? 0 : (100 * size) / most;
  const box = (x, width, y, height, kind) => {
    const rect = document.createElementNS(NS, "rect");
    for (const [key, value] of Object.entries({ x, width, y, height })) rect.setAttribute(key, value);
    rect.setAttribute("class", kind);
    svg.append(rect);
  };
  box(Math.min(0, length), Math.abs(length), 2, 8, length > 0 ? "more" : "less");
  box(-0.4, 0.8, 0, 12, "");
  bar.append(svg);
  cell(row.below);
  cell(row.above);
  return line;
}

// The state is in the address, so that a view can be bookmarked

function remember() {
  history.replaceState(null, "", `#${query(state)}`);
}

function recall() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  for (const axis of cube.axes) {
    const k = Number(parameters.get(`at.${axis.name}`) ?? NaN);
    const fits = Number.isInteger(k) && k >= 0 && k < axis.size;
    state.at[axis.name] = fits ? k : Math.floor(axis.size / 2);
  }
  const wanted = variableOf(parameters.get("variable")) ??
    cube.variables.find((variable) => variable.dims.length > 1 && !variable.flag) ??
    cube.variables[0];
  state.x = parameters.get("x") ?? "";
  state.y = parameters.get("y") ?? "";
  state.curve = parameters.has("x") && !parameters.has("y");
  choose(wanted.name);
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

function options(select, entries, chosen) {
  select.replaceChildren(...entries.map(([value, text]) => {
    const option = new Option(text, value);
    option.selected = value === chosen;
    return option;
  }));
}

function controls() {
  const variable = variableOf(state.variable);
  options($("variable"), cube.variables.map((v) => [v.name, v.name]), state.variable);
  $("meaning").textContent = variable.meaning;
  options($("x"), variable.dims.map((dim) => [dim, dim]), state.x);
  const ups = variable.dims.filter((dim) => dim !== state.x).map((dim) => [dim, dim]);
  options($("y"), [["", "none: a curve"], ...ups], state.y);
  $("x").disabled = !variable.dims.length;
  $("y").disabled = !variable.dims.length;
  $("swap").disabled = !state.y;
  const rest = variable.dims.filter((dim) => dim !== state.x && dim !== state.y);
  $("others").hidden = !rest.length;
  $("others").replaceChildren($("others").firstElementChild, ...rest.map(slider));
}

function slider(name) {
  const axis = axisOf(name);
  const label = document.createElement("label");
  label.append(name);
  if (axis.options) {
    const select = document.createElement("select");
    options(select, axis.options.map((text, k) => [String(k), text]), String(state.at[name]));
    select.addEventListener("change", () => move({ [name]: Number(select.value) }));
    label.append(select);
    return label;
  }
  const range = document.createElement("input");
  Object.assign(range, { type: "range", min: 0, max: axis.size - 1, step: 1 });
  range.value = state.at[name];
  range.addEventListener("input", () => move({ [name]: Number(range.value) }));
  const output = document.createElement("output");
  output.dataset.axis = name;
  label.append(range, output);
  return label;
}

function readouts() {
  for (const output of document.querySelectorAll("output")) {
    const text = data.at[output.dataset.axis];
    output.textContent = text;
    output.previousElementSibling.setAttribute("aria-valuetext", text);
  }
}

// Move the point; within the slice the map is only redrawn
function move(places) {
  Object.assign(state.at, places);
  const shown = [state.x, state.y];
  if (Object.keys(places).every((name) => shown.includes(name))) {
    remember();
    draw();
    levers();
  } else {
    refresh();
  }
}

async function save(ending) {
  try {
    const answer = await ask(`/api/download.${ending}?${query(state)}`);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await answer.blob());
    const name = /filename="(.*)"/.exec(answer.headers.get("Content-Disposition") ?? "");
    link.download = name ? name[1] : `slice.${ending}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    report(`saved ${link.download}`);
  } catch (error) {
    report(error.message, true);
  }
}

function draw() {
  if (!data) return;
  grey = $("grey").checked;
  readouts();
  for (const id of ["map", "cut-x", "cut-y"]) hits[id] = () => null;
  const { x, y } = data;
  const fixed = variableOf(data.variable).dims.filter((d) => d !== x?.name && d !== y?.name);
  const at = fixed.map((name) => `${name} ${data.at[name]}`).join(", ");
  $("title").textContent = heading(data.variable, data.unit);
  $("fixed").textContent = at && `at ${at}`;
  $("map").hidden = !x;
  $("cuts").hidden = !y;
  document.querySelector("main").classList.toggle("curve", !y);
  $("legend").replaceChildren();
  let k = 0;
  if (y) {
    const i = pickOf(x), j = pickOf(y), n = x.picks.length;
    drawMap();
    $("title-x").textContent = `Along ${x.name}, at ${y.name} ${withUnit(y.labels[j], y.unit)}`;
    $("title-y").textContent = `Along ${y.name}, at ${x.name} ${withUnit(x.labels[i], x.unit)}`;
    drawCurve($("cut-x"), x, x.picks.map((_, a) => j * n + a), i);
    drawCurve($("cut-y"), y, y.picks.map((_, b) => b * n + i), j);
    k = j * n + i;
  } else if (x) {
    k = pickOf(x);
    drawCurve($("map"), x, x.picks.map((_, a) => a), k);
    legend();
  }
  const where = [x, y].filter(Boolean).map((axis) =>
    `${axis.name} = ${withUnit(axis.labels[pickOf(axis)], axis.unit)}`).join(", ");
  const reason = reasonAt(k);
  $("point").textContent = `${data.variable} = ${valueAt(k)}${where ? ` at ${where}` : ""}` +
    (reason ? ` (infeasible: ${reason})` : "");
  $("map").setAttribute("aria-label",
    `${heading(data.variable, data.unit)}; arrow keys move the point`);
}

// Pointer and keys

function hover(event) {
  const hit = data && hits[event.target.id]?.(event.offsetX, event.offsetY);
  const tip = $("tip");
  tip.hidden = !hit;
  if (!hit) return;
  const reason = reasonAt(hit.k);
  tip.textContent = [`${data.variable} = ${valueAt(hit.k)}`,
    ...hit.labels.map(([axis, n]) => `${axis.name} = ${withUnit(axis.labels[n], axis.unit)}`),
    ...(reason ? [`infeasible: ${reason}`] : [])].join("\n");
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.min(event.clientX + 14, innerWidth - width - 4)}px`;
  tip.style.top = `${Math.min(event.clientY + 14, innerHeight - height - 4)}px`;
}

function arrows(event) {
  const steps = { ArrowRight: ["x", 1], ArrowLeft: ["x", -1], ArrowUp: ["y", 1], ArrowDown: ["y", -1] };
  const step = steps[event.key];
  const axis = step && data && data[step[0]];
  if (!axis) return;
  event.preventDefault();
  const n = Math.min(axis.picks.length - 1, Math.max(0, pickOf(axis) + step[1]));
  move({ [axis.name]: axis.picks[n] });
}

async function begin() {
  cube = await (await ask("/api/cube")).json();
  $("source").textContent = cube.source;
  document.title = `${cube.source} - fleetcube explore`;
  recall();
  $("variable").addEventListener("change", (event) => { choose(event.target.value); refresh(); });
  $("x").addEventListener("change", (event) => {
    if (event.target.value === state.y) state.y = state.x;
    state.x = event.target.value;
    controls();
    refresh();
  });
  $("y").addEventListener("change", (event) => {
    state.y = event.target.value;
    state.curve = !state.y;
    controls();
    refresh();
  });
  $("swap").addEventListener("click", () => {
    [state.x, state.y] = [state.y, state.x];
    controls();
    refresh();
  });
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  for (const id of ["grey", "keep"]) $(id).addEventListener("change", draw);
  for (const id of ["csv", "nc"]) $(id).addEventListener("click", () => save(id));
  for (const id of ["map", "cut-x", "cut-y"]) {
    const canvas = $(id);
    canvas.addEventListener("mousemove", hover);
    canvas.addEventListener("mouseleave", () => { $("tip").hidden = true; });
    canvas.addEventListener("click", (event) => {
      const hit = data && hits[id](event.offsetX, event.offsetY);
      if (hit) move(hit.at);
    });
  }
  $("map").addEventListener("keydown", arrows);
  window.addEventListener("resize", draw);
  await refresh();
}

begin().catch((error) => report(error.message, true));
