// The threshold can be moved where there is a model to search again. A part of page.js on such pages.

function moveThreshold(threshold) {
  const { threshold: first, line } = data.decision;
  const isMoved = Math.abs(threshold - first) > 1e-9;
  lowered = isMoved ? line - logitOf(threshold) : 0;
  const place = `${100 * (isMoved ? threshold : first)}%`;
  for (const limit of all(".meter .decision, .waterfall .decision")) {
    limit.setAttribute("x1", place);
    limit.setAttribute("x2", place);
  }
  const label = one(".ends .limit");
  label.setAttribute("x", place);
  label.textContent = String(isMoved ? threshold : first);
  for (const words of all("[data-margin]")) words.textContent = outcome(Number(words.dataset.margin));
  const rule = one(".landscape line.decision");
  const share = isMoved ? threshold : first;
  for (const end of ["y1", "y2"]) rule?.setAttribute(end, 10 + 230 * (1 - share)); // as charts.py places it
  for (const meter of all(".meter")) {
    one(".track.against", meter).setAttribute("width", place);
    one(".track.for", meter).setAttribute("x", place);
    one(".track.for", meter).setAttribute("width", `${100 * (1 - share)}%`);
  }
  for (const limit of all(".curve .decision")) limit.setAttribute("d", `M0 ${(100 * (1 - share)).toFixed(1)}H1000`);
  drawProgress();
  for (const dot of all("[data-k]")) shapeDot(dot, data.sets[dot.dataset.k][1]);
  showScore(answers.get(keyOf(change)));
  sayMoved(isMoved, threshold);
}

// The best score so far, as charts.py draws it: towards the other side of where the line is now.
function drawProgress() {
  const chart = one("[data-tried]");
  if (!chart) return;
  const tried = data.sets.slice(0, Number(chart.dataset.tried)).map(([, margin]) => margin);
  const better = stands(data.original) ? Math.min : Math.max;
  let best = data.original;
  const steps = tried.map((margin, place) => {
    best = better(best, margin);
    const x = (1000 * place) / (tried.length - 1);
    const y = (100 * (1 - probability(best + data.decision.line))).toFixed(2);
    return place ? `H${x}V${y}` : `M${x} ${y}`;
  });
  one("path:not(.decision)", chart).setAttribute("d", steps.join(""));
  const found = tried.findIndex((margin) => stands(margin) !== stands(data.original));
  one("figcaption", chart).lastElementChild.textContent =
    found < 0 ? "none flips the prediction" : `the first counterfactual was set ${(found + 1).toLocaleString("en")}`;
}

function sayMoved(isMoved, threshold) {
  const flipping = data.sets.filter(([, margin]) => stands(margin) !== stands(data.original)).length;
  const number = flipping > 1 ? `${flipping} evaluated sets flip` : `${flipping || "no"} evaluated set flips`;
  one("#moved").hidden = !isMoved;
  one("#moved-words").textContent = `At ${threshold}: ${outcome(data.original)}; ${number} it.`;
  one("#search-there").textContent = `Search at ${threshold}`;
}

const slider = one("#threshold");
slider?.addEventListener("input", () => moveThreshold(Number(slider.value)));
if (slider) slider.value = data.decision.threshold; // a browser may have kept where it was left
