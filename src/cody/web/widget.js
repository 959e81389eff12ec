// The events of an explanation as boxes: what is unticked did not happen, and the kernel says what the model decides.

function eventBox(event, removed, change) {
  const label = document.createElement("label");
  const box = document.createElement("input");
  box.type = "checkbox";
  box.checked = !removed.has(event.row);
  box.addEventListener("change", () => change(event.row, box.checked));
  const text = document.createElement("span");
  text.textContent = ` ${event.words}`;
  label.append(box, text);
  label.style.display = "block";
  return { label, box, row: event.row };
}

function render({ model, el }) {
  const sentence = document.createElement("p");
  sentence.textContent = model.get("sentence");
  const answer = document.createElement("p");
  answer.setAttribute("role", "status");
  answer.style.fontWeight = "bold";
  const events = document.createElement("div");
  events.style.cssText = "max-height: 16em; overflow-y: auto";
  const change = (row, happened) => {
    const removed = new Set(model.get("removed"));
    if (happened) removed.delete(row);
    else removed.add(row);
    answer.textContent = "…";
    model.set("removed", [...removed].sort((a, b) => a - b));
    model.save_changes();
  };
  const boxes = model.get("events").map((event) => eventBox(event, new Set(model.get("removed")), change));
  events.append(...boxes.map(({ label }) => label));
  const show = () => {
    answer.textContent = model.get("answer");
    const removed = new Set(model.get("removed"));
    for (const { box, row } of boxes) box.checked = !removed.has(row);
  };
  model.on("change:answer", show);
  model.on("change:removed", show);
  el.append(sentence, answer, events);
  show();
  return () => {
    model.off("change:answer", show);
    model.off("change:removed", show);
  };
}

export default { render };
