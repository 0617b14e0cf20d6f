// What the pages share: elements, numbers as text, scales with ticks, and pictures as files.
const at = (id) => document.getElementById(id);

function filled(made, parts, children) {
  for (const [key, value] of Object.entries(parts)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const element = (name, parts = {}, ...children) => filled(document.createElement(name), parts, children);
const drawn = (name, parts, ...children) => filled(document.createElementNS("http://www.w3.org/2000/svg", name), parts, children);

// Parts of a place, which stays, with what is focused in it, while its text does.
function refill(place, ...parts) {
  const made = element("div", {}, ...parts);
  if (made.textContent !== place.textContent) place.replaceChildren(...made.childNodes);
}

const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
const heading = (title, unit) => title + (unit ? ` [${unit}]` : "");

// Formatters are slow to make, and widths to read while a page changes: both are kept.
const FORMATS = new Map(), WIDTHS = new Map();

function once(known, key, make) {
  const found = known.get(key) || make();
  known.set(key, found);
  return found;
}

// A number to some digits; none before its point is cut.
function digits(value, most = 4) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "—" : value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return value.toExponential(3);
  const how = size >= 10 ** (most - 1) ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: most };
  return once(FORMATS, JSON.stringify(how), () => new Intl.NumberFormat("en-US", how)).format(value);
}

const rounded = (value) => digits(Number(value.toPrecision(3)));

// Round numbers for the ticks of an axis.
function ticks(low, high, log, most = 6) {
  if (log && high / low > 4) {
    for (const digits of [[1, 2, 5], [1, 3], [1]]) {
      const row = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
        row.push(...digits.map((digit) => Number(digit + "e" + power)).filter((v) => v >= low && v <= high));
      const each = Math.ceil(row.length / (most + 2));
      if (row.length > 2 && (each === 1 || digits.length === 1)) return row.filter((_, k) => k % each === 0);
    }
  }
  const rough = (high - low) / most || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((digit) => digit * power >= rough * 0.999) * power;
  const row = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high * (1 + 1e-9); k++) row.push(Number((k * step).toPrecision(12)));
  return row;
}

// A text within some pixels, without its middle.
function short(text, room) {
  const most = Math.floor(room / 6.6);
  return text.length <= most ? text : text.slice(0, Math.ceil(most / 2) - 1) + "…" + text.slice(-Math.floor(most / 2));
}

const widthOf = (box) => Math.max(280, once(WIDTHS, box, () => box.clientWidth) - 26);

// An empty picture as wide as its place, with scales, ticks and headings. An axis goes from low to high; its
// marks are [place, text].
function blank(svg, height, across, up, room = 14) {
  const width = Math.min(900, widthOf(svg.parentElement));
  const wide = Math.min(width / 2.5, 16 + 6.8 * Math.max(...up.marks.map(([, text]) => text.length)));
  const [left, right, top, bottom] = [Math.max(64, wide), width - room, 24, height - 42];
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren(drawn("path", { class: "axis", d: `M${left} ${top}V${bottom}H${right}`, fill: "none" }));
  const scale = ({ low, high, log }, from, to) => (value) =>
    from + (to - from) * (log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low));
  const X = scale(across, left, right), Y = scale(up, bottom, top);
  let last = -Infinity;
  for (const [x, whole] of across.marks) {
    const text = short(whole, 140), half = 3.6 * text.length, atEnd = X(x) > right - half + 12;
    if (X(x) - half * (atEnd ? 2 : 1) < last) continue;
    last = X(x) + half + 6;
    svg.append(drawn("text", { x: X(x), y: bottom + 16, "text-anchor": atEnd ? "end" : "middle" }, text));
  }
  last = Infinity;
  for (const [y, text] of up.marks) {
    if (Y(y) > last - 13) continue;
    last = Y(y);
    svg.append(drawn("path", { class: "grid", d: `M${left} ${Y(y)}H${right}` }),
      drawn("text", { x: left - 6, y: Y(y) + 4, "text-anchor": "end" }, short(text, left - 10)));
  }
  svg.append(drawn("text", { x: (left + right) / 2, y: bottom + 34, "text-anchor": "middle" }, short(across.heading, width)),
    drawn("text", { x: left, y: 12 }, short(up.heading, width - left)));
  return { X, Y, left, right, top, bottom, across, up };
}

// Where a pointer is, in a picture's units.
function spot(svg, event) {
  const box = svg.getBoundingClientRect(), width = Number(svg.getAttribute("viewBox").split(" ")[2]);
  return [(event.clientX - box.left) * width / box.width, (event.clientY - box.top) * width / box.width];
}

function save(name, blob) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1e4);
}

// A text in lines of at most so many letters.
function lines(text, most) {
  const made = [""];
  for (const word of text.split(" ")) {
    if (made.at(-1) && made.at(-1).length + word.length >= most) made.push(word);
    else made[made.length - 1] = (made.at(-1) + " " + word).trim();
  }
  return made;
}

// A picture with a caption, and what the style sheet says on each of its parts.
function captioned(svg, caption) {
  const copy = svg.cloneNode(true), [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const parts = [...copy.querySelectorAll("*")];
  [...svg.querySelectorAll("*")].forEach((own, k) => {
    const style = getComputedStyle(own);
    for (const name of ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-size", "font-family", "opacity", "image-rendering", "paint-order"])
      parts[k].setAttribute(name, style.getPropertyValue(name));
  });
  const words = caption.flatMap((text) => lines(text, width / 6.6));
  const tall = height + 8 + 16 * words.length;
  const ink = getComputedStyle(document.body), paper = getComputedStyle(svg.closest("section, details")).backgroundColor;
  copy.prepend(drawn("rect", { width, height: tall, fill: paper }));
  words.forEach((text, k) => copy.append(drawn("text", { x: 8, y: height + 14 + 16 * k, fill: ink.color, "font-size": "11px", "font-family": ink.fontFamily }, text)));
  copy.setAttribute("viewBox", `0 0 ${width} ${tall}`);
  Object.entries({ width, height: tall, xmlns: "http://www.w3.org/2000/svg" }).forEach(([key, own]) => copy.setAttribute(key, own));
  return { text: new XMLSerializer().serializeToString(copy), width, height: tall };
}

function savePicture(svg, name, kind, caption) {
  const { text, width, height } = captioned(svg, caption);
  if (kind === "svg") { save(name + ".svg", new Blob([text], { type: "image/svg+xml" })); return; }
  const image = new Image();
  image.addEventListener("load", () => {
    const canvas = element("canvas", { width: 2 * width, height: 2 * height });
    canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
    canvas.toBlob((png) => save(name + ".png", png));
  });
  image.src = "data:image/svg+xml," + encodeURIComponent(text);
}
