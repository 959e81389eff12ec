// The interactive page: events are switched off and on, and evaluated sets show their score at once.
// For a set that was not evaluated, the page says so; nothing is guessed.

const data = JSON.parse(document.getElementById("data").textContent);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const one = (selector, root = document) => root.querySelector(selector);
const keyOf = (change) => [...change].sort((a, b) => a - b).join();
for (const set of data.sets) set[0] = numbersIn(set[0]);
for (const event of data.events) event.imagined ??= false;
const labelOf = (element) => element.getAttribute("aria-label") ?? element.dataset.label;
const nameOfEvent = new Map(all(".plot [data-e]").map((element) => [Number(element.dataset.e), labelOf(element).split("; ")[0]]));
const answers = new Map();
storeClicks();
data.sets.forEach(([change, margin], order) => answers.set(keyOf(change), { margin, order }));
for (const [bits, standing] of Object.entries(data.decision.standings ?? {})) {
  const answer = answers.get(keyOf(numbersIn(bits)));
  if (answer) answer.standing = standing;
}
const probability = (logit) => 1 / (1 + Math.exp(-Math.min(Math.max(logit, -700), 700)));
const logitOf = (share) => Math.log(share) - Math.log1p(-share);
let lowered = 0; // by how much the line was moved down, in logits: added to every margin
const stands = (margin) => margin + lowered > 0;
const outcome = (margin) => (stands(margin) ? data.decision.positive : data.decision.negative);
const axes = Object.keys(data.places);

let change = new Set(data.opened);

// A set of events is written as the bits of a hexadecimal number.
function numbersIn(bits) {
  const digits = [...BigInt(`0x${bits}`).toString(2)].reverse();
  return digits.flatMap((digit, place) => (digit === "1" ? [place] : []));
}
let axis = axes[0];

// What first clicks lead to: a row of margins for each state, one for each event that is switched; then pairs.
function storeClicks() {
  data.states.forEach((state, place) => {
    data.clicks.rows[place].forEach((margin, number) => {
      const toggled = new Set(state.change);
      if (!toggled.delete(number)) toggled.add(number);
      if (margin !== null) answers.set(keyOf(toggled), { margin, order: -1 });
    });
  });
  for (const [pair, margin] of data.clicks.pairs) answers.set(keyOf(pair), { margin, order: -1 });
}

// As margins.py writes them: with two digits of the threshold or of its complement, or with as many as tell a number
// from the original one and from the threshold.
function written(...margins) {
  const { line, span, threshold } = data.decision;
  const rare = span === undefined ? Math.min(threshold, 1 - threshold) : 1;
  const least = Math.min(Math.max(2, 1 - Math.floor(Math.log10(Number(rare.toFixed(9))))), 6);
  const figures = margins.map((margin) => (span === undefined ? probability(margin + line) : margin));
  const known = new Set([...figures, span === undefined ? threshold : 0]);
  const text = (value, digits) => (Number(value.toFixed(digits)) + 0).toFixed(digits).replace("-", "−");
  const distinct = (digits) => new Set([...known].map((value) => text(value, digits))).size;
  const digits = [2, 3, 4, 5, 6].find((number) => number >= least && distinct(number) === known.size) ?? least;
  return figures.map((figure) => text(figure, digits));
}

// ---- what is shown -------------------------------------------------------------------------------------------------

function show(next) {
  change = new Set(next);
  const answer = answers.get(keyOf(change));
  showEvents();
  showScore(answer);
  showChoice(answer);
  remember();
  if (isIncomplete(answer) && data.live) evaluate(change);
}

// A margin may be known without what lies behind it, such as a ranking.
function isIncomplete(answer) {
  return !answer || (data.decision.behind && !answer.standing);
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
  if (reply.logit !== undefined) {
    const { logit: margin, standing } = reply;
    answers.set(key, { margin, standing, order: answers.get(key)?.order ?? -1 });
  }
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
  all(".edge").forEach(showEdge);
}

// A line of the graph: as wide as the events that are left, struck through if none is, dashed if all are imagined.
function showEdge(edge) {
  const numbers = numbersOf(edge);
  const real = numbers.filter((number) => !data.events[number].imagined);
  const gone = real.filter((number) => change.has(number)).length;
  const left = numbers.filter(happened);
  edge.classList.toggle("gone", gone > 0 && left.length === 0);
  edge.classList.toggle("imagined", left.length > 0 && left.every((number) => data.events[number].imagined));
  one(".left", edge).setAttribute("stroke-width", left.length ? Math.min(1 + 1.4 * Math.log2(1 + left.length), 11) : 0);
  one("text", edge).textContent = gone && left.length ? `−${gone} of ${real.length}` : "";
}

function numbersOf(element) {
  const { e, es, k } = element.dataset;
  if (k !== undefined) return data.sets[k][0];
  return es === undefined ? [Number(e)] : es.split(",").map(Number);
}

function happened(number) {
  return change.has(number) === data.events[number].imagined;
}

function showScore(answer) {
  const panel = one("div.now");
  if (!panel) return;
  one("#now-name").textContent = nameOf(change);
  const [was, now] = answer ? written(data.original, answer.margin) : [written(data.original)[0], "?"];
  showFigure(one("#was-score"), was, data.original);
  one("#was-score").classList.toggle("long", was.length > 5); // head.py has the same
  showFigure(one("#now-score"), now, answer?.margin);
  showFigure(one("#now-prediction"), answer ? outcome(answer.margin) : data.live ? "computing …" : "not evaluated", answer?.margin);
  const [first, last] = [placeOf(data.original), answer ? placeOf(answer.margin) : null];
  const dot = one(".meter .now", panel);
  const bar = one(".meter .moved", panel);
  dot.toggleAttribute("hidden", last === null);
  bar.toggleAttribute("hidden", last === null);
  if (last !== null) {
    dot.setAttribute("class", `now ${sideOf(answer.margin)}`);
    dot.setAttribute("cx", `${100 * last}%`);
    bar.setAttribute("x", `${100 * Math.min(first, last)}%`);
    bar.setAttribute("width", `${100 * Math.abs(first - last)}%`);
  }
  one("#now-figure").textContent = figureOf(answer);
  if (data.decision.behind) showStanding(answer?.standing); // in standing.js
  showStatus(answer);
}

// A rank is shown beside the original one, as facts.py has it.
function figureOf(answer) {
  const [shown, was] = [answer?.standing?.figure ?? "", answers.get("")?.standing?.rank];
  const isMoved = shown && change.size && data.decision.last && was;
  return isMoved ? shown.replace(": ", `: ${was.toLocaleString("en")} → `) : shown;
}

const sideOf = (margin) => (margin === undefined ? "unknown" : stands(margin) ? "for" : "against");

function showFigure(element, text, margin) {
  element.textContent = text;
  element.className = sideOf(margin);
}

// The same places as gauge.py gives: probabilities, or margins with 0 in the middle.
function placeOf(margin) {
  const { line, span } = data.decision;
  return span === undefined ? probability(margin + line) : Math.min(Math.max(0.5 + (0.5 * margin) / span, 0), 1);
}

function showStatus(answer) {
  const status = one("#status");
  status.classList.toggle("unknown", !answer && !data.live);
  status.textContent = "";
  if (!answer && !data.live && [...change].some((e) => data.events[e].unnamed)) {
    status.append("This combination was not evaluated, and the names of the altered features are not in this page.");
  } else if (!answer && !data.live) {
    status.append("This combination was not evaluated. Run: ");
    const code = document.createElement("code");
    code.textContent = command();
    status.append(code);
  }
}

function nameOf(changed) {
  const state = data.states.find((state) => keyOf(state.change) === keyOf(changed));
  const [removed, imagined] = [false, true].map((kind) => [...changed].filter((e) => data.events[e].imagined === kind));
  const parts = [];
  if (removed.length) parts.push(removed.length === 1 ? `without ${nameOfEvent.get(removed[0])}` : `without ${removed.length} ${data.event}s`);
  if (imagined.length) parts.push(imagined.length === 1 ? `with ${nameOfEvent.get(imagined[0])}` : `with ${imagined.length} imagined ${data.event}s`);
  const words = parts.join(" and ");
  if (!parts.length) return state ? state.name : "";
  return state ? `${state.name}: ${words}` : words[0].toUpperCase() + words.slice(1);
}

function command() {
  const removed = [...change].filter((e) => !data.events[e].imagined).map((e) => data.events[e]);
  const rows = [...new Set(removed.flatMap(({ row, rows }) => rows ?? [row]))]; // a unit stands for several
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

// ---- the same events everywhere ------------------------------------------------------------------------------------

function mark(numbers) {
  for (const element of all(".marked")) element.classList.remove("marked");
  one(".timeline")?.classList.toggle("dim", numbers.length > 0);
  if (!numbers.length) return;
  const wanted = new Set(numbers);
  for (const element of all("[data-e], [data-es]")) {
    element.classList.toggle("marked", numbersOf(element).some((number) => wanted.has(number)));
  }
  if (numbers.length > 1) return;
  for (const dot of all("[data-k]")) dot.classList.toggle("marked", numbersOf(dot).includes(numbers[0]));
}

function follow(event) {
  const target = event.target.closest?.("[data-e], [data-es], [data-k]");
  mark(target ? numbersOf(target) : []);
  showTip(target);
}

// A label beside whatever is pointed at, at once.
function showTip(target) {
  const tip = one("#tip");
  const words = target && labelOf(target);
  if (!tip) return;
  tip.hidden = !words;
  if (!words) return;
  tip.textContent = words;
  const box = (one(".arc, .left", target) ?? target).getBoundingClientRect();
  const left = box.x + box.width / 2 - tip.offsetWidth / 2;
  const above = box.y - tip.offsetHeight - 8;
  tip.style.left = `${Math.min(Math.max(left, 6), document.documentElement.clientWidth - tip.offsetWidth - 6)}px`;
  tip.style.top = `${above > (one(".scorebar")?.getBoundingClientRect().bottom ?? 0) ? above : box.bottom + 8}px`;
}

document.addEventListener("pointerover", follow);
document.addEventListener("focusin", follow);
document.addEventListener("scroll", () => showTip(null), { passive: true });
document.addEventListener("pointerleave", () => mark([]));
document.addEventListener("keydown", (event) => event.key === "Escape" && showTip(null));

// ---- switching -----------------------------------------------------------------------------------------------------

function toggle(number) {
  const next = new Set(change);
  if (!next.delete(number)) next.add(number);
  show(next);
}

// All events of a line: changed together, or undone together if all of them are changed.
function toggleAll(numbers) {
  const next = new Set(change);
  const undo = numbers.every((number) => next.has(number));
  for (const number of numbers) undo ? next.delete(number) : next.add(number);
  show(next);
}

document.addEventListener("click", (event) => {
  const target = event.target.closest("[data-state], [data-k], .event[data-e], .edge");
  if (!target) return;
  if (target.matches(".edge")) toggleAll(numbersOf(target));
  else if (target.dataset.state !== undefined) show(data.states[target.dataset.state].change);
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
  one("#found").textContent = !wanted ? "" : left ? `${left} of ${rows.length}` : "no match";
  one("#clear").hidden = !wanted;
});
one("#clear")?.addEventListener("click", () => {
  one("#filter").value = "";
  one("#filter").dispatchEvent(new Event("input"));
  one("#filter").focus();
});

// ---- the landscape: a dot for each set, an option of a list ------------------------------------------------------------

function draw(tag, attributes, parent) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  parent.append(element);
  return element;
}

function drawDot([changed, margin, x], order) {
  const column = one(`.dots [data-size="${changed.length}"]`);
  const rows = changed.map((e) => data.events[e].row);
  const named = rows.slice(0, 6).join(", ") + (rows.length > 6 ? ` and ${rows.length - 6} more` : "");
  const label = `${named || "Nothing"} changed: ${data.decision.word} ${written(data.original, margin)[1]}, `;
  const option = { role: "option", "aria-selected": "false", "data-label": label };
  const y = Math.round(10 + 230 * (1 - placeOf(margin))); // as charts.py places it
  shapeDot(draw("svg", { x: `${x}%`, y, "data-k": order, ...option }, column), margin);
}

// A diamond if the prediction is flipped. charts.py assumes these sizes when it keeps the dots apart.
function shapeDot(dot, margin) {
  const turned = stands(margin) !== stands(data.original);
  dot.setAttribute("class", turned ? "turned" : "");
  dot.setAttribute("aria-label", dot.dataset.label + outcome(margin));
  dot.replaceChildren();
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
  if (isIncomplete(answer) && data.live) evaluate(change);
}
