// The comparison: links that were not explained yet are explained one after the other, and the table shows them.

const { waiting } = JSON.parse(document.getElementById("data").textContent);
const progress = document.getElementById("progress");
const json = async (address, options) => (await fetch(address, options)).json();

async function explain(question) {
  const headers = { "content-type": "application/json" };
  let job = await json("api/explanations", { method: "POST", headers, body: JSON.stringify(question) });
  while (["waiting", "running"].includes(job.state)) {
    progress.textContent = `Event ${question.event}: ${job.tried} sets evaluated …`;
    await new Promise((resolve) => setTimeout(resolve, 250));
    job = await json(`api/explanations/${job.id}`);
  }
  if (job.state !== "done") throw new Error(job.error ?? job.detail ?? "the search failed");
  const page = new DOMParser().parseFromString(await (await fetch(location.href)).text(), "text/html");
  document.querySelector("tbody").replaceWith(page.querySelector("tbody"));
}

try {
  for (const question of waiting) await explain(question);
  progress.textContent = "";
} catch (error) {
  progress.textContent = error.message;
}
