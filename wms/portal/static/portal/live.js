// Live pages: a page whose answer has an ETag is fetched again every few seconds while its tab is visible. An unchanged
// page is answered with 304; of a changed one, <main> and the banner are updated in place. Focus, selected boxes, values of
// fields, open folds, scroll position and selected text stay as they are.
const PERIOD_MS = 4200;
const LONGEST_PERIOD_MS = 60000;
//: Attributes that the reader has set since the page was loaded.
const OF_READER = new Set(["checked", "value", "open", "selected", "aria-current"]);

const root = document.documentElement;
let etag = root.dataset.etag;
let wait = PERIOD_MS;
let timer = null;

function stays(name, element) {
  if (element.matches("input, textarea, select, option, details, dialog")) return OF_READER.has(name);
  return name === "aria-current" && element.matches("tr");
}

function selects() {
  const selection = document.getSelection();
  return selection && !selection.isCollapsed && document.querySelector("main").contains(selection.anchorNode);
}

function update(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  const focused = document.activeElement?.id;
  for (const place of ["#banner", "main"]) {
    const [before, after] = [document.querySelector(place), fresh.querySelector(place)];
    if (!before || !after) continue;
    // eslint-disable-next-line no-undef
    Idiomorph.morph(before, after, {
      morphStyle: "outerHTML",
      ignoreActiveValue: true,
      callbacks: {
        beforeNodeMorphed: (node) => !(node instanceof Element && node.hasAttribute("data-keep")),
        beforeNodeRemoved: (node) => !(node instanceof Element && node.hasAttribute("data-keep")),
        beforeAttributeUpdated: (name, element) => !stays(name, element),
      },
    });
  }
  if (focused && document.activeElement?.id !== focused) document.getElementById(focused)?.focus({ preventScroll: true });
  if (fresh.title) document.title = fresh.title;
  document.dispatchEvent(new CustomEvent("page-updated"));
}

async function look() {
  if (document.hidden || selects()) return;
  try {
    const response = await fetch(location.href, {
      headers: { "If-None-Match": etag, "X-Live": "1" },
      cache: "no-store",
      redirect: "manual",
    });
    if (response.type === "opaqueredirect") {
      location.reload(); // logged out, or the page has moved
      return;
    }
    // Of an unchanged page the server moves the position in its stream of changes, which the ETag contains.
    if (response.status === 200 || response.status === 304) etag = response.headers.get("ETag") ?? etag;
    if (response.status === 200) {
      update(await response.text());
    } else if (response.status === 404) {
      location.reload();
      return;
    }
    wait = response.ok || response.status === 304 ? PERIOD_MS : Math.min(2 * wait, LONGEST_PERIOD_MS);
  } catch {
    wait = Math.min(2 * wait, LONGEST_PERIOD_MS); // the server is not reachable
  }
}

function schedule() {
  clearTimeout(timer);
  if (document.hidden) return;
  timer = setTimeout(async () => {
    await look();
    schedule();
  }, wait);
}

if (etag) {
  document.addEventListener("visibilitychange", async () => {
    if (!document.hidden) await look();
    schedule();
  });
  schedule();
}
