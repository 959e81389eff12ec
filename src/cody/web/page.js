// The interactive page: events are switched off and on, and evaluated sets show their score at once.
// For a set that was not evaluated, the page says so; nothing is guessed.

const data = JSON.parse(document.getElementById("data").textContent);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const one = (selector, root = document) => root.querySelector(selector);
const keyOf = (change) => [...change].sort((a, b) => a - b).join();
for (const set of data.sets) set[0] = numbersIn(set[0]);
for (const event of data.events) event.imagined ??= false;
const nameOfEvent = new Map(all(".plot [data-e]").map((element) => [Number(element.dataset.e), one("title", element).textContent.split("; ")[0]]));
const answers = new Map(data.sets.map(([change, logit, score], order) => [keyOf(change), { logit, score, order }]));
const score = (logit) => 1 / (1 + Math.exp(-Math.min(Math.max(logit, -700), 700)));
const decision = (logit) => (logit > 0 ? "link" : "no link");
const axes = Object.keys(data.places);

let change = new Set(data.opened);

// A set of events is written as the bits of a hexadecimal number.
function numbersIn(bits) {
  const digits = [...BigInt(`0x${bits}`).toString(2)].reverse();
  return digits.flatMap((digit, place) => (digit === "1" ? [place] : []));
}
let axis = axes[0];

// ---- what is shown -------------------------------------------------------------------------------------------------

function show(next) {
  change = new Set(next);
  const answer = answers.get(keyOf(change));
  showEvents();
  showScore(answer);
  showChoice(answer);
  remember();
  if (!answer && data.live) evaluate(change);
}

// If there is a server with a model, it scores the set; the answer is cached.
async function evaluate(chosen) {
  const key = keyOf(chosen);
  const edits = [...chosen].map((e) => data.events[e].edit).filter(Boolean);
  const request = {
    ...data.live.question,
    without: [...chosen].filter((e) => !data.events[e].imagined).map((e) => data.events[e].row),
    add: edits.filter((edit) => "src" in edit),
    move: edits.filter((edit) => "row" in edit),
  };
  const reply = await post("api/score", request);
  if (reply.logit !== undefined) answers.set(key, { logit: reply.logit, score: reply.score, order: -1 });
  if (key === keyOf(change)) reply.logit === undefined ? showError(reply.detail) : showScore(answers.get(key));
}

async function post(address, body) {
  try {
    const headers = { "content-type": "application/json" };
    const response = await fetch(address, { method: "POST", headers, body: JSON.stringify(body) });
    return await response.json();
  } catch {
    return { detail: "The server does not respond." };
  }
}

function showError(words) {
  const status = one("#status");
  status.classList.add("unknown");
  status.textContent = typeof words === "string" ? words : "The server rejected this request.";
}

function showEvents() {
  for (const element of all("[data-e]")) {
    element.classList.toggle("changed", change.has(Number(element.dataset.e)));
  }
  for (const element of all(".event[data-e]")) {
    element.setAttribute("aria-checked", String(happened(Number(element.dataset.e))));
  }
  for (const box of all("[data-toggle]")) box.checked = happened(Number(box.dataset.toggle));
}

function happened(number) {
  return change.has(number) === data.events[number].imagined;
}

function showScore(answer) {
  const panel = one("div.now");
  if (!panel) return;
  one("#now-name").textContent = nameOf(change);
  one("#was").hidden = !change.size;
  one("#now-score").textContent = answer ? answer.score : "?";
  one("#now-prediction").textContent = answer ? decision(answer.logit) : data.live ? "computing …" : "not evaluated";
  const [first, last] = [score(data.original), answer ? score(answer.logit) : null];
  const dot = one(".meter .now", panel);
  const bar = one(".meter .moved", panel);
  dot.toggleAttribute("hidden", last === null);
  bar.toggleAttribute("hidden", last === null);
  if (last !== null) {
    dot.setAttribute("cx", `${100 * last}%`);
    bar.setAttribute("x", `${100 * Math.min(first, last)}%`);
    bar.setAttribute("width", `${100 * Math.abs(first - last)}%`);
  }
  showStatus(answer);
}

function showStatus(answer) {
  const status = one("#status");
  status.classList.toggle("unknown", !answer && !data.live);
  status.textContent = "";
  if (!answer && !data.live) {
    status.append("This combination was not evaluated, and the page does not guess. Run:");
    const code = document.createElement("code");
    code.textContent = command();
    status.append(code);
  }
}

function nameOf(changed) {
  const state = data.states.find((state) => keyOf(state.change) === keyOf(changed));
  const [removed, imagined] = [false, true].map((kind) => [...changed].filter((e) => data.events[e].imagined === kind));
  const parts = [];
  if (removed.length) parts.push(removed.length === 1 ? `without ${nameOfEvent.get(removed[0])}` : `without ${removed.length} events`);
  if (imagined.length) parts.push(imagined.length === 1 ? `with ${nameOfEvent.get(imagined[0])}` : `with ${imagined.length} imagined events`);
  const words = parts.join(" and ");
  if (!parts.length) return state ? state.name : "";
  return state ? `${state.name}: ${words}` : words[0].toUpperCase() + words.slice(1);
}

function command() {
  const rows = [...change].filter((e) => !data.events[e].imagined).map((e) => data.events[e].row);
  const options = [...change].map((e) => data.events[e].option).filter(Boolean);
  return [data.command, ...(rows.length ? [`--without ${rows.sort((a, b) => a - b).join()}`] : []), ...options].join(" ");
}

function showChoice(answer) {
  for (const button of all("button[data-state]")) {
    const shown = keyOf(data.states[button.dataset.state].change) === keyOf(change);
    if (button.hasAttribute("aria-pressed")) button.setAttribute("aria-pressed", String(shown));
    const card = button.closest(".way");
    if (card) card.classList.toggle("shown", shown);
  }
  for (const dot of all("[data-k][aria-selected=true]")) dot.setAttribute("aria-selected", "false");
  const dot = answer && one(`[data-k="${answer.order}"]`);
  if (dot) {
    dot.setAttribute("aria-selected", "true");
    dot.parentNode.append(dot); // on top of its neighbours
  }
}

// ---- the address says what is shown --------------------------------------------------------------------------------

function remember() {
  if (data.live) {
    rememberQuestion();
    return;
  }
  const rows = [...change].map((e) => data.events[e].row).sort((a, b) => a - b);
  const parts = [`change=${rows.join()}`, ...(axis === axes[0] ? [] : [`axis=${axis}`])];
  try {
    history.replaceState(null, "", `#${parts.join("&")}`);
  } catch {
    // inside a notebook's frame there is no address to change
  }
}

function rememberQuestion() {
  const wanted = new URLSearchParams(location.search);
  for (const name of ["without", "add", "move"]) wanted.delete(name);
  const rows = [...change].filter((e) => !data.events[e].imagined).map((e) => data.events[e].row);
  if (rows.length) wanted.set("without", rows.sort((a, b) => a - b).join());
  for (const { edit } of [...change].map((e) => data.events[e]).filter((event) => event.edit)) {
    if ("src" in edit) wanted.append("add", [edit.src, edit.dst, edit.time].map(quoted).join(" "));
    else wanted.append("move", `${edit.row} ${edit.time}`);
  }
  history.replaceState(null, "", `?${wanted}`);
}

function quoted(word) {
  return /^[\w.@:-]+$/.test(word) ? String(word) : `'${String(word).replaceAll("'", `'"'"'`)}'`;
}

function recall() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  if (axes.includes(wanted.get("axis"))) showAxis(wanted.get("axis"));
  if (!wanted.has("change")) return false;
  const byRow = new Map(data.events.map((event, number) => [String(event.row), number]));
  show(wanted.get("change").split(",").filter((row) => byRow.has(row)).map((row) => byRow.get(row)));
  return true;
}

// ---- the same event everywhere -------------------------------------------------------------------------------------

function mark(number) {
  for (const element of all(".marked")) element.classList.remove("marked");
  one(".timeline")?.classList.toggle("dim", number !== null);
  if (number === null) return;
  for (const element of all(`[data-e="${number}"]`)) element.classList.add("marked");
  for (const dot of all("[data-k]")) {
    dot.classList.toggle("marked", data.sets[dot.dataset.k][0].includes(number));
  }
}

function markSet(order) {
  mark(null);
  if (order === null) return;
  for (const number of data.sets[order][0]) {
    for (const element of all(`[data-e="${number}"]`)) element.classList.add("marked");
  }
  one(".timeline")?.classList.add("dim");
}

function follow(event) {
  const target = event.target.closest?.("[data-e], [data-k]");
  if (!target) mark(null);
  else if (target.dataset.k !== undefined) markSet(Number(target.dataset.k));
  else mark(Number(target.dataset.e));
}

document.addEventListener("pointerover", follow);
document.addEventListener("focusin", follow);
document.addEventListener("pointerleave", () => mark(null));

// ---- switching -----------------------------------------------------------------------------------------------------

function toggle(number) {
  const next = new Set(change);
  if (!next.delete(number)) next.add(number);
  show(next);
}

document.addEventListener("click", (event) => {
  const target = event.target.closest("[data-state], [data-k], .event[data-e]");
  if (!target) return;
  if (target.dataset.state !== undefined) show(data.states[target.dataset.state].change);
  else if (target.dataset.k !== undefined) show(data.sets[target.dataset.k][0]);
  else toggle(Number(target.dataset.e));
});
document.addEventListener("change", (event) => {
  if (event.target.dataset.toggle !== undefined) toggle(Number(event.target.dataset.toggle));
  if (event.target.name === "axis") {
    showAxis(event.target.value);
    remember();
  }
});

// ---- keyboard: one stop for each picture, arrow keys inside ---------------------------------------------------------

function rove(items) {
  const stop = (element) => items().forEach((other) => other.setAttribute("tabindex", other === element ? "0" : "-1"));
  const ordered = items();
  if (!ordered.length) return;
  stop(ordered.at(-1));
  ordered[0].parentNode.closest("svg.plot, svg.landscape").addEventListener("keydown", (event) => {
    const items_ = items();
    const here = items_.indexOf(document.activeElement);
    if (here < 0) return;
    const steps = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, Home: -here, End: items_.length - 1 - here };
    if (event.key in steps) {
      const next = items_[Math.min(Math.max(here + steps[event.key], 0), items_.length - 1)];
      stop(next);
      next.focus();
    } else if (event.key === " " || event.key === "Enter") {
      document.activeElement.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    } else return;
    event.preventDefault();
  });
}

for (const event of all(".plot .event")) {
  const hit = one(".arc", event).cloneNode();
  hit.setAttribute("class", "hit"); // wide and invisible, so that a thin arrow is easy to hit
  hit.removeAttribute("stroke-width");
  event.prepend(hit);
  event.setAttribute("role", "checkbox");
}
const byNumber = (name) => (a, b) => Number(a.dataset[name]) - Number(b.dataset[name]);
rove(() => all(".event[data-e]").filter((element) => element.closest(".plot")).sort(byNumber("e")));

// ---- the time axis ---------------------------------------------------------------------------------------------------

function showAxis(chosen) {
  axis = chosen;
  for (const element of all("[data-at]")) element.setAttribute("x", `${data.places[axis][element.dataset.at]}%`);
  for (const group of all(".ticks")) group.toggleAttribute("hidden", group.dataset.axis !== axis);
  for (const radio of all("input[name=axis]")) radio.checked = radio.value === axis;
}

// ---- the table -------------------------------------------------------------------------------------------------------

const sortColumns = { when: 0, before: 0, hops: 1, alone: 2 };

function valueOf(row, key) {
  const number = Number(row.dataset.e);
  if (key === "on") return happened(number) ? 1 : 0;
  if (key === "link") return one("th", row).textContent;
  if (key === "row") return data.events[number].row;
  const value = data.events[number].sort[sortColumns[key]];
  return key === "before" ? -value : value;
}

function sortBy(head, key) {
  const direction = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
  all("thead th").forEach((other) => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", direction);
  const sign = direction === "ascending" ? 1 : -1;
  const body = one("tbody");
  const rows = all("tr", body).map((row) => [valueOf(row, key), row]);
  rows.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null); // unknown values come last
    return sign * (typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b);
  });
  body.append(...rows.map(([, row]) => row));
}

for (const button of all("[data-sort]")) {
  button.addEventListener("click", () => sortBy(button.closest("th"), button.dataset.sort));
}
one("#filter")?.addEventListener("input", (event) => {
  const wanted = event.target.value.trim().toLowerCase();
  const rows = all("tbody tr");
  for (const row of rows) row.hidden = !`${one("th", row).textContent} ${one(".row", row).textContent}`.toLowerCase().includes(wanted);
  const left = rows.filter((row) => !row.hidden).length;
  one("#found").textContent = wanted ? `${left} of ${rows.length}` : "";
});

// ---- saving the timeline ----------------------------------------------------------------------------------------------

const DRAWN = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "stroke-linecap", "stroke-linejoin",
  "opacity", "font-size", "font-weight", "font-family", "text-anchor", "dominant-baseline", "display"];

const BESIDE = 48; // pixels to the right of the past events: the explained link

function picture() {
  const plot = one(".plot");
  const names = one(".names");
  const wide = Math.max(...all("text", names).map((text) => text.getBBox().width), 40) + 24;
  const [width, height] = [plot.clientWidth || plot.getBoundingClientRect().width, Number(plot.getAttribute("height"))];
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const background = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  const paper = getComputedStyle(one(".part-timeline") ?? document.body).backgroundColor;
  Object.entries({ width: "100%", height: "100%", fill: paper }).forEach(([name, value]) => background.setAttribute(name, value));
  const size = { width: wide + width + BESIDE, height: height + 16, viewBox: `0 -8 ${wide + width + BESIDE} ${height + 16}` };
  Object.entries(size).forEach(([name, value]) => svg.setAttribute(name, value));
  background.setAttribute("y", "-8");
  const [left, right] = [names, plot].map(drawn);
  Object.entries({ x: 0, width: wide - 12 }).forEach(([name, value]) => left.setAttribute(name, value));
  Object.entries({ x: wide, width }).forEach(([name, value]) => right.setAttribute(name, value));
  svg.append(background, left, right);
  return svg;
}

function drawn(original) {
  const copy = original.cloneNode(true);
  const pairs = [all("*", original), all("*", copy)];
  pairs[0].forEach((element, place) => {
    const style = getComputedStyle(element);
    if (style.display === "none") pairs[1][place].dataset.gone = "";
    for (const name of element.matches("path, circle, line, text, tspan") ? DRAWN : ["opacity"]) {
      pairs[1][place].setAttribute(name, style.getPropertyValue(name));
    }
  });
  all("[data-gone], .hit", copy).forEach((element) => element.remove());
  all("text", copy).forEach((text) => text.closest(".names") && text.setAttribute("text-anchor", "end"));
  for (const element of [copy, ...all("*", copy)]) {
    for (const name of ["class", "role", "tabindex", "aria-checked", "aria-label", "aria-hidden", "data-e", "data-at"]) {
      element.removeAttribute(name);
    }
  }
  for (const svg of [copy, ...all("svg", copy)]) svg.setAttribute("overflow", "visible");
  return copy;
}

function save(content, extension) {
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(content);
  anchor.download = `${data.file}.${extension}`;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
}

function saveSvg() {
  return new Blob([new XMLSerializer().serializeToString(picture())], { type: "image/svg+xml" });
}

async function savePng() {
  const address = URL.createObjectURL(saveSvg());
  const image = new Image();
  image.src = address;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width * 2, image.height * 2];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(address);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

one("#save-svg")?.addEventListener("click", () => save(saveSvg(), "svg"));
one("#save-png")?.addEventListener("click", async () => save(await savePng(), "png"));

// ---- the landscape: a dot for each set, an option of a list ------------------------------------------------------------

function draw(tag, attributes, parent) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  parent.append(element);
  return element;
}

function drawDot([changed, logit, text, x, y], order) {
  const column = one(`.dots [data-size="${changed.length}"]`);
  const turned = decision(logit) !== decision(data.original);
  const rows = changed.map((e) => data.events[e].row);
  const named = rows.slice(0, 6).join(", ") + (rows.length > 6 ? ` and ${rows.length - 6} more` : "");
  const label = `${named || "Nothing"} changed: score ${text}, ${decision(logit)}`;
  const option = { role: "option", "aria-selected": "false", "aria-label": label };
  const dot = draw("svg", { x: `${x}%`, y, "data-k": order, class: turned ? "turned" : "", ...option }, column);
  // charts.py assumes these sizes when it keeps the dots apart.
  if (turned) draw("path", { d: "M0-4.6L4.6 0L0 4.6L-4.6 0z" }, dot);
  else draw("circle", { r: 3.4 }, dot);
}

if (one(".dots")) data.sets.forEach(drawDot);
rove(() => all("[data-k]").sort(byNumber("k")));

// ---- begin -------------------------------------------------------------------------------------------------------------

window.addEventListener("hashchange", recall);
showEvents();
if (!recall()) {
  const answer = answers.get(keyOf(change));
  showScore(answer);
  showChoice(answer);
  if (!answer && data.live) evaluate(change);
}
