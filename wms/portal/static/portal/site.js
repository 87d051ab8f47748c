// The page of a site: while the expression of its throttle is typed, its value now is shown below it.
const PAUSE_MS = 400;

const form = document.querySelector("form[data-try]");
const field = form?.elements.requirements;
let timer = null;
let asking = null;

async function tryIt() {
  asking?.abort();
  asking = new AbortController();
  const panel = document.getElementById("trial");
  const data = new FormData();
  for (const name of ["csrfmiddlewaretoken", "requirements"]) data.set(name, form.elements[name].value);
  try {
    const response = await fetch(form.dataset.try, { method: "POST", body: data, signal: asking.signal, redirect: "error" });
    if (response.status === 429) later(8 * PAUSE_MS);
    if (!response.ok) return;
    const answer = new DOMParser().parseFromString(await response.text(), "text/html");
    panel.replaceChildren(...answer.body.childNodes);
  } catch {
    // Aborted by the next one, or the server is not reachable: the panel stays as it is.
  }
}

function later(wait = PAUSE_MS) {
  clearTimeout(timer);
  timer = setTimeout(tryIt, wait);
}

field?.addEventListener("input", () => later());
document.getElementById("change-throttle")?.addEventListener("toggle", (event) => {
  if (event.target.open && field.value.trim()) later(0);
});
if (document.getElementById("change-throttle")?.open && field.value.trim()) later(0);
