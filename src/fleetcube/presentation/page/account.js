// The account of a number: its formula with values, and those of its operands, down to inputs and sources.
// Formulas are evaluated from the text that is shown.
const CARRIED = 0.95, CHANGE = 1e-6;  // as `fleetcube explain` has them
const LEVELS = [{ or: (a, b) => a || b }, { and: (a, b) => a && b },
  { "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b, "==": (a, b) => a === b, "!=": (a, b) => a !== b },
  { "+": (a, b) => a + b, "-": (a, b) => a - b }, { "*": (a, b) => a * b, "/": (a, b) => a / b }];
const CONSTANTS = new Map([["inf", Infinity], ["nan", NaN], ["True", true], ["False", false]]);
const WORD = /\d[\d.]*(?:e[+-]?\d+)?|[A-Za-z_]\w*|[<>=!]=|\S/g;

// A formula's text as a function of the values of its names.
function parsed(text) {
  const words = text.match(WORD);
  let place = 0;
  const next = (word) => words[place] === word && Boolean(++place);
  const pick = (n) => {
    if (n === LEVELS.length) return one();
    let left = pick(n + 1);
    while (Object.hasOwn(LEVELS[n], words[place])) {
      const first = left, sign = LEVELS[n][words[place++]], second = pick(n + 1);
      left = (of) => sign(first(of), second(of));
    }
    return left;
  };
  const whole = () => {
    const body = pick(0);
    if (!next("if")) return body;
    const test = pick(0), other = next("else") && whole();
    return (of) => test(of) ? body(of) : other(of);
  };
  const one = () => {
    if (next("-")) { const own = one(); return (of) => -own(of); }
    if (next("(")) { const own = whole(); next(")"); return own; }
    const word = words[place++], number = Number(word);
    if (next("(")) {
      const given = [];
      do given.push(whole()); while (next(","));
      next(")");
      return (of) => Math[word](...given.map((own) => own(of)));
    }
    return CONSTANTS.has(word) ? () => CONSTANTS.get(word) : Number.isNaN(number) ? (of) => of[word] : () => number;
  };
  return whole();
}

// What Python packed: formulas and inputs by name.
let book;
async function unpack() {
  const bytes = Uint8Array.from(atob(DATA.account), (letter) => letter.charCodeAt(0));
  const text = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
  const facts = JSON.parse(text);
  const formulas = facts.formulas.map(([name, factor, unit, about, source, text, steps = {}, maths]) => ({
    name, factor, unit, about: about.replaceAll("`", ""), source, text, maths, run: parsed(text), operands: new Set([text, ...Object.values(steps)].join(" ").match(WORD)),
    steps: Object.entries(steps).map(([step, text]) => [step, parsed(text)]) }));
  const cases = facts.programs.map((row) => new Map(row.map((k) => [formulas[k].name, formulas[k]])));
  for (const [name, own] of Object.entries(facts.inputs)) Object.assign(own, { name, value: Number(own.value) });
  book = { ...facts, cases, numbers: {} };
}
const formulasHere = () => book.cases[DATA.programs[state.pick]];
const rowOf = (name) => formulasHere().get(name) ?? book.inputs[name];

// A formula's value; its steps are left among the numbers, as copies would be slow.
function result({ steps, run }, of) {
  for (const [step, own] of steps) of[step] = own(of);
  return Number(run(of));
}

// All numbers of the account at the point that the page shows.
function numbersHere() {
  const all = vector(state.pick), of = {};
  for (const [name, { value }] of Object.entries(book.inputs)) of[name] = value;
  INPUTS.forEach(({ name }, k) => { of[name] = all[k]; });
  for (const formula of formulasHere().values()) of[formula.name] = result(formula, of);
  return of;
}

// The operands of a formula and their elasticities, the largest first; those that carry its value.
function operands(formula) {
  const of = book.numbers, now = of[formula.name];
  const rows = [...formula.operands].filter((name) => rowOf(name)).map((name) => {
    const moved = (by) => result(formula, { ...of, [name]: of[name] * (1 + by) }) / now - 1;
    const [above, below] = [moved(CHANGE) / CHANGE, -moved(-CHANGE) / CHANGE];
    const slope = Math.abs(above) < Math.abs(below) ? above : below;
    return { name, size: Number.isFinite(slope) ? Math.abs(slope) : 0 };
  }).sort((a, b) => b.size - a.size);
  const whole = rows.reduce((sum, { size }) => sum + size, 0);
  let carried = 0;
  return rows.map((row) => { const first = !whole || carried < CARRIED * whole; carried += row.size; return { ...row, first }; });
}

// A number in base units as formulas take it, and as a person reads it.
function plainNumber(value) {
  const size = Math.abs(value), text = String(Number.isInteger(value) && size < 1e9 ? value : Number(value.toPrecision(6)));
  return !Number.isFinite(value) || (size < 1e9 && (size >= 1e-4 || !size)) ? text : Number(text).toExponential().replace("e+", "e");
}

const readNumber = (name) => shown(OUTPUTS[output(name)] ?? rowOf(name), book.numbers[name]);
const withNumbers = (text) => text.replace(WORD, (word) => rowOf(word) ? plainNumber(book.numbers[word]) : word);
const timesSigns = (text) => text.replaceAll(" * ", " × ");

// Parts that follow the numbers, with what each shows.
let following = [];
function follow(node, text) {
  following.push([node, text]);
  node.textContent = text();
  return node;
}

// A formula with its values, its source, and its operands: those that carry it, then the others.
function formulaParts(formula) {
  const indent = "\n" + " ".repeat(formula.name.length + 1) + "= ";
  const written = formula.maths ? [formula.name + ":\n" + formula.maths] : [formula.name + " = " + timesSigns(formula.text)];
  const text = () => [...written, ...(formula.maths || formula.operands.size < 2 ? [] : [timesSigns(withNumbers(formula.text))]), readNumber(formula.name)].join(indent);
  const rows = operands(formula), rest = rows.filter(({ first }) => !first);
  const made = [follow(element("pre", {}), text), element("p", { class: "key" }, "Source: " + formula.source), ...rows.filter(({ first }) => first).map(({ name }) => operandPart(name))];
  if (rest.length) made.push(opened([`and ${rest.length} more`], () => rest.map(({ name }) => operandPart(name))));
  return made;
}

// A part that is filled when it is first opened.
function opened(head, parts) {
  const made = element("details", {}, element("summary", {}, ...head));
  made.addEventListener("toggle", () => { if (made.children.length === 1) made.append(...parts()); });
  return made;
}

function operandPart(name) {
  const own = rowOf(name), k = input(name);
  const head = [element("b", {}, name), " = ", follow(element("span", {}), () => readNumber(name)), " ", element("small", {}, own.about)];
  if (own.run) return opened(head, () => formulaParts(own));
  const origin = () => own.from[state.pick] ?? own.from[0], source = () => [origin(), book.records[origin()]].filter(Boolean).join(": ");
  const made = element("p", {}, ...head, " ", follow(element("small", {}), () => state.moved.has(k) ? "Changed on this page; was from " + origin() : "From " + source()));
  if (k !== undefined) made.append(" ", button("Change", () => reveal(k), { "aria-label": "Change " + name }));
  return made;
}

// The control of an input.
function reveal(k) {
  const { box, typed } = controls.get(k);
  at("find").value = "";
  box.hidden = false;
  box.closest("details").open = true;
  typed.focus();
}

// What stands above the formula: whether it runs, the interval and its source, and what multiplies out by hand.
function remarks(k, found) {
  const { name, unit } = OUTPUTS[k], check = book.checks[name], of = book.numbers;
  const from = Object.entries(book.uncertain[name]).map(([factor, origin]) => `${factor} (${origin})`).join(", ");
  const span = ends(found, k);
  const rows = [found.why ? "Cannot run: " + plainly(found.why) : "",
    span ? `9 times in 10: ${span} ${unit}, from ${from || "the bounds of its formula"}` : `No interval${from ? " here" : ": no predicted time moves it"}`];
  if (check && Math.abs(parsed(check)(of) / of[name] - 1) < 1e-6) rows.push(`By hand: ${timesSigns(check)} = ${timesSigns(withNumbers(check))} = ${readNumber(name)}`);
  return rows.filter(Boolean);
}

let drawnAccount;
function drawAccount(found) {
  const place = at("account"), k = output(state.account);
  place.hidden = k < 0 || !book;
  if (place.hidden) { drawnAccount = undefined; return; }
  book.numbers = numbersHere();
  const drawn = state.account + " " + DATA.programs[state.pick];
  if (drawn !== drawnAccount) {
    following = [];
    at("formula").replaceChildren(...formulaParts(formulasHere().get(state.account)));
    drawnAccount = drawn;
  }
  at("account-of").textContent = `Account of ${OUTPUTS[k].title}: ${cell(found, k)}`;
  at("remarks").replaceChildren(...remarks(k, found).map((text) => element("p", {}, text)));
  for (const [node, text] of following) { const now = text(); if (node.textContent !== now) node.textContent = now; }
}

const accountable = (name) => output(name) >= 0 && (!OUTPUTS[output(name)].hidden || DATA.losses.includes(output(name)));

async function openAccount(name) {
  state.account = name;
  await (book ?? unpack());
  draw();
}

function closeAccount() {
  const name = state.account;
  state.account = undefined;
  draw();
  document.querySelector(`[data-account=${name}]`)?.focus();
}

// A number that opens its account.
const accounted = (k, text) => text === "—" ? text
  : element("button", { type: "button", class: "number", "data-account": OUTPUTS[k].name, title: "Account of " + OUTPUTS[k].title }, text);
