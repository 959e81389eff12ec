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
}

async function search() {
  const explainer = find("#explainer").value;
  const whyNot = find("#why-not").checked;
  let job = await call("POST", "api/explanations", { ...live.question, ...live.edits, explainer, why_not: whyNot });
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
    wanted.delete("without");
    wanted.set("explainer", explainer);
    if (whyNot) wanted.set("why_not", "1");
    else wanted.delete("why_not");
    location.search = wanted;
  } else if (job.state === "cancelled") showProgress("cancelled");
  else showProgress(job.error ?? (typeof job.detail === "string" ? job.detail : "the search failed"));
}

find("#explain")?.addEventListener("click", search);
find("#cancel")?.addEventListener("click", async () => {
  const id = running;
  running = null;
  await call("DELETE", `api/explanations/${id}`);
  show(null);
  showProgress("cancelled");
});
if (live?.start) search();
