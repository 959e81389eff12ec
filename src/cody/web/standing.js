// What lies behind a decision, before and after: a ranking, class scores, or a number. A part of page.js, on pages that
// show one of these; standing.py draws the same.

function showStanding(standing) {
  const number = one("svg.number");
  if (number) showNumber(number, standing?.value ?? null);
  const list = one("#standing-now");
  if (!list) return;
  const was = answers.get("")?.standing;
  const scores = [was, standing].flatMap((each) => each?.leaders ?? []).map((leader) => leader.score);
  list.parentNode.classList.toggle("idle", !change.size); // the same as before
  one("#standing-now-title").textContent = nameOf(change);
  const missing = list.previousElementSibling;
  missing.hidden = Boolean(standing);
  if (data.live) missing.textContent = "computing …";
  for (const [list_, each] of [[one("#standing-was"), was], [list, standing]]) {
    const places = each ? placesIn(each, scores) : [];
    list_.replaceChildren(...places, ...roomFor(places.length));
  }
}

// Empty lines, as high as those that a ranking has there, so that nothing below the list moves.
function roomFor(shown) {
  const { last, lines, apart } = data.decision;
  return Array.from({ length: Math.max(lines - shown, 0) }, (_, number) => {
    const place = shown + number + 1;
    const line = document.createElement("li");
    line.className = ["blank", place === last && "last", apart && place === lines && "apart"].filter(Boolean).join(" ");
    line.setAttribute("aria-hidden", "true");
    line.textContent = "\u00a0";
    return line;
  });
}

function showNumber(axis, value) {
  const dot = one("#number-now");
  dot.toggleAttribute("hidden", value === null);
  const [low, high] = [Number(axis.dataset.low), Number(axis.dataset.high)];
  if (value !== null) dot.setAttribute("cx", `${100 * Math.min(Math.max((value - low) / (high - low), 0), 1)}%`);
}

function placesIn({ rank, leaders }, scores) {
  const { name, last, shares } = data.decision;
  const [low, high] = [Math.min(...scores), Math.max(...scores)];
  const room = 0.08 * (high - low) || 1;
  const lengthOf = (score) => (shares ? probability(score) : (score - low + room) / (high - low + room));
  return leaders.map((leader, place) => {
    const text = (shares ? probability(leader.score) : leader.score).toFixed(3);
    const own = leader.name === name;
    const ranked = own && rank !== null ? rank : place + 1;
    const kinds = [own && "own", ranked !== place + 1 && "apart", place + 1 === last && "last"].filter(Boolean);
    return placeLine(ranked, leader.name, text, lengthOf(leader.score), kinds);
  });
}

function placeLine(rank, name, text, share, kinds) {
  const line = document.createElement("li");
  const [place, called, score] = ["span", "bdi", "span"].map((tag) => document.createElement(tag));
  [place.textContent, called.textContent, score.textContent] = [rank.toLocaleString("en"), name, text];
  place.className = "rank";
  line.className = kinds.join(" ");
  line.append(place, called);
  const bar = draw("svg", { width: "100%", height: 10, "aria-hidden": "true" }, line);
  draw("rect", { width: `${100 * share}%`, height: 10, rx: 2 }, bar);
  line.append(score);
  return line;
}
