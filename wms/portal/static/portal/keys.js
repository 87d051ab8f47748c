// Keys: "/" search, j and k next and previous row, Enter opens the row, x selects it, "?" lists the keys.
const help = document.getElementById("keys");

function rows() {
  return [...document.querySelectorAll("table.rows tr[data-href], table.rows tr[data-row]")];
}

function current() {
  return document.querySelector("table.rows tr[aria-current]");
}

function go(step) {
  const all = rows();
  if (!all.length) return;
  const at = all.indexOf(current());
  const next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + step))];
  current()?.removeAttribute("aria-current");
  next.setAttribute("aria-current", "true");
  next.scrollIntoView({ block: "nearest" });
}

const ACTIONS = {
  "/": () => document.querySelector("[data-search]")?.focus(),
  j: () => go(1),
  k: () => go(-1),
  x: () => current()?.querySelector("input[type=checkbox]")?.click(),
  Enter: () => {
    const address = current()?.dataset.href;
    if (address) location.assign(address);
  },
  "?": () => help?.showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const field = event.target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable]");
  if (field || event.target.shadowRoot) {
    if (event.key === "Escape") field?.blur();
    return;
  }
  // Enter on a link or a button is theirs.
  if (event.key === "Enter" && event.target !== document.body && !event.target.matches("input[type=checkbox], main")) return;
  const action = ACTIONS[event.key];
  if (!action || (event.key === "Enter" && !current())) return;
  event.preventDefault();
  action();
});
