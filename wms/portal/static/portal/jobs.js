// The list of jobs: how many are selected, on how many of them each action is possible, and menus that act at once.
// Without this script the boxes, buttons and menus do the same; the numbers are then told by the next page.
const figure = new Intl.NumberFormat("en");

function parts() {
  const form = document.getElementById("selection");
  return form && {
    form,
    boxes: [...form.querySelectorAll("input[name=ids]")],
    all: document.getElementById("select-all"),
    scope: document.getElementById("scope-all"),
  };
}

function show() {
  const page = parts();
  if (!page) return;
  const { form, boxes, all, scope } = page;
  if (scope.checked) for (const box of boxes) box.checked = true;
  const selected = boxes.filter((box) => box.checked);
  all.hidden = false;
  all.checked = selected.length === boxes.length && boxes.length > 0;
  all.indeterminate = selected.length > 0 && !all.checked;
  const number = scope.checked ? null : selected.length;
  form.querySelector("#selected").textContent = number === null ? "All that match:" : `${figure.format(number)} selected:`;
  form.querySelector("#bar").classList.toggle("chosen", number !== 0);
  for (const button of form.querySelectorAll("button[name=action]")) {
    const known = button.dataset.possible;
    const allowed = selected.filter((box) => box.closest("tr").dataset.allows.split(" ").includes(button.value));
    const possible = number === null ? (known === "" ? null : Number(known)) : allowed.length;
    button.querySelector(".effect").textContent = possible === null || number === 0 ? "" : figure.format(possible);
    button.disabled = possible === 0;
  }
}

document.addEventListener("change", (event) => {
  const page = parts();
  if (page && event.target === page.all) {
    for (const box of page.boxes) box.checked = page.all.checked;
    if (!page.all.checked) page.scope.checked = false;
  }
  if (page && event.target.name === "ids" && !event.target.checked) page.scope.checked = false;
  if (page?.form.contains(event.target)) show();
  if (event.target.matches("#menus select")) event.target.form.requestSubmit();
});

// One menu is open at a time, and Escape closes it.
document.addEventListener("toggle", (event) => {
  if (!event.target.matches?.("details.menu[open]")) return;
  for (const menu of document.querySelectorAll("details.menu[open]")) if (menu !== event.target) menu.open = false;
}, true);
document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && event.target.closest?.("details.menu[open]");
  if (!menu) return;
  menu.open = false;
  menu.querySelector("summary").focus();
});
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
});

document.addEventListener("page-updated", show);
// A page that the browser restores has the boxes selected as they were.
window.addEventListener("pageshow", show);
show();
