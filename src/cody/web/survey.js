// The interactive page of a survey: a selected figure shows the predictions behind it.

const data = JSON.parse(document.getElementById("data").textContent);
const { lists } = data;
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const one = (selector, root = document) => root.querySelector(selector);
const predictions = all("[data-p]");
const everything = one("#chosen").textContent;

let chosen = null; // the button of the figure

function show() {
  const list = chosen && lists[chosen.dataset.list];
  const behind = list && new Set(list[1]);
  const wanted = one("#filter").value.trim().toLowerCase();
  let shown = 0;
  for (const item of predictions) {
    const fits = (!behind || behind.has(Number(item.dataset.p))) && item.textContent.toLowerCase().includes(wanted);
    item.hidden = !fits;
    shown += fits;
  }
  for (const button of all("[data-list]")) button.setAttribute("aria-pressed", String(button === chosen));
  const total = behind ? behind.size : predictions.length;
  const number = wanted ? `${shown} of ${total}` : `${total}`;
  one("#chosen").textContent = list ? `${number}: ${list[0]}.` : wanted ? `${number} match.` : everything;
  one("#all").hidden = !chosen;
  one("#back").hidden = !chosen;
  one(".predictions").scrollTop = 0;
}

function choose(button) {
  chosen = button === chosen ? null : button;
  show();
  remember();
  const list = one(".part-list");
  const beside = getComputedStyle(list).position === "sticky";
  if (chosen && !beside) {
    list.scrollIntoView({ behavior: "smooth" });
    one("#list-title").focus({ preventScroll: true });
  }
}

// The address says what is chosen.
function remember() {
  try {
    history.replaceState(null, "", chosen ? `#list=${chosen.dataset.list}` : "#");
  } catch {
    // inside a notebook's frame there is no address to change
  }
}

function recall() {
  const number = new URLSearchParams(location.hash.slice(1)).get("list");
  chosen = all("[data-list]").find((button) => button.dataset.list === number && !button.disabled) ?? null;
  show();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-list]");
  if (button) choose(button);
});
document.addEventListener("keydown", (event) => {
  const mark = event.target.closest("g[data-list]");
  if (!mark || !["Enter", " "].includes(event.key)) return;
  event.preventDefault(); // a space would scroll
  choose(mark);
});
one("#all").addEventListener("click", () => choose(null));
one("#back").addEventListener("click", () => {
  chosen.scrollIntoView({ block: "center" });
  chosen.focus({ preventScroll: true });
});
one("#filter").addEventListener("input", show);
window.addEventListener("hashchange", recall);
recall();
