// Only on pages with a live model: searches with progress, which can be cancelled.

const live = JSON.parse(document.getElementById("data").textContent).live;
const find = (selector) => document.querySelector(selector);
const POLL = 250; // milliseconds

let running = null;

async function call(method, address, body) {
  try {
    const headers = body ? { "content-type": "application/json" } : {};
    const response = await fetch(address, { method, headers, body: body && JSON.stringify(body) });
    return await response.json();
  } catch {
    return { detail: "The server does not respond." };
  }
}

function showProgress(words) {
  find("#progress").textContent = words;
}

function show(job) {
  find("#cancel").hidden = !job;
  find("#explain").disabled = Boolean(job);
  if (find("#searching")) find("#searching").hidden = !job;
}

async function search(byItself = false) {
  const explainer = find("#explainer").value;
  const whyNot = find("#why-not").checked;
  const limits = Object.fromEntries(["evaluations", "candidates"].map((name) => [name, find(`#${name}`).value.trim()]).filter(([, text]) => text));
  const numbers = Object.fromEntries(Object.entries(limits).map(([name, text]) => [name, Number(text)]));
  for (const [name, number] of Object.entries(numbers)) {
    if (!Number.isInteger(number) || number < 1) return showProgress(`${name}: ${limits[name]} is not a whole number`);
  }
  const asked = { ...live.question, ...live.edits, explainer, why_not: whyNot, ...numbers };
  let job = await call("POST", "api/explanations", asked);
  running = job.id;
  show(job.id);
  while (job.id && running === job.id && ["waiting", "running"].includes(job.state)) {
    showProgress(job.state === "waiting" ? "queued …" : `${job.tried} sets evaluated …`);
    await new Promise((resolve) => setTimeout(resolve, POLL));
    if (running !== job.id) return; // cancelled meanwhile
    job = await call("GET", `api/explanations/${job.id}`);
  }
  if (job.id && running !== job.id) return;
  show(null);
  if (job.state === "done") {
    const wanted = new URLSearchParams(location.search);
    if (byItself && wanted.has("without")) {
      showProgress("The explanation is ready: press Explain to see it."); // nobody loses what they have switched
      return;
    }
    wanted.delete("without");
    wanted.set("explainer", explainer);
    for (const name of ["evaluations", "candidates"]) {
      if (limits[name]) wanted.set(name, limits[name]);
      else wanted.delete(name);
    }
    if (whyNot) wanted.set("why_not", "1");
    else wanted.delete("why_not");
    location.replace(`?${wanted}`); // the way back leads to where the link was chosen
  } else if (job.state === "cancelled") showProgress("cancelled");
  else showProgress(job.error ?? (typeof job.detail === "string" ? job.detail : "the search failed"));
}

find("#explain")?.addEventListener("click", () => search());
find("#cancel")?.addEventListener("click", async () => {
  const id = running;
  running = null;
  await call("DELETE", `api/explanations/${id}`);
  show(null);
  showProgress("cancelled");
});
find("#decide-by")?.addEventListener("change", (event) => {
  const field = find("#decide-value");
  field.name = event.target.value;
  field.value = event.target.selectedOptions[0].dataset.usual;
  field.removeAttribute("aria-invalid");
  find("#problem")?.remove();
  field.focus();
});
find("#search-there")?.addEventListener("click", () => {
  const wanted = new URLSearchParams(location.search);
  for (const name of ["without", "label", "top", "rather_than", "between"]) wanted.delete(name);
  wanted.set("threshold", find("#threshold").value);
  wanted.set("explainer", find("#explainer").value);
  location.search = wanted;
});
for (const button of document.querySelectorAll("[data-try]")) {
  button.addEventListener("click", () => {
    const field = find(`#${button.dataset.try}`);
    if (field.type === "checkbox") field.checked = true;
    else field.value = button.dataset.value;
    search();
  });
}
if (live?.start) search(true);
