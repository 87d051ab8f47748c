// The page that submits jobs: an editor for texts, files dropped anywhere, names that are offered, and a panel that says
// while one types how many queues fit. Without scripts the page has text areas, a field for files and the button Check.
const form = document.getElementById("submit");
const panel = document.getElementById("check");
const files = form.elements.input_files;
const PAUSE_MS = 500;
//: Of an editor, above and below.
const BORDERS_PX = 2;

// The tab that the server has shown in answer to a button of another one has an address of its own.
// NB: form.action is not the address, because the buttons have the name "action".
const address = form.getAttribute("action");
if (location.pathname !== address) history.replaceState(null, "", address);

// ---- The panel ----

let timer = null;
let asking = null;
let asked = null;
//: What the panel says before its first verdict.
const hint = [...panel.childNodes];

//: First bytes of a file that the server looks at, as it does at those of an uploaded one (HEAD_BYTES there).
const HEAD_BYTES = 256;
const heads = new WeakMap();

/** Return the first bytes of a file in Base64; empty if it cannot be read. */
async function headOf(file) {
  if (!heads.has(file)) {
    const bytes = await file.slice(0, HEAD_BYTES).arrayBuffer().catch(() => new ArrayBuffer(0));
    heads.set(file, btoa(String.fromCharCode(...new Uint8Array(bytes))));
  }
  return heads.get(file);
}

async function content() {
  const data = new FormData(form);
  const coming = [...files.files];
  for (const name of ["input_files", "save_as", "action"]) data.delete(name);
  for (const file of coming) {
    data.append("coming", file.name);
    data.append("coming_size", file.size);
    data.append("coming_head", await headOf(file));
  }
  return data;
}

function isEmpty() {
  const text = form.elements.executable ?? form.elements.jdl ?? form.elements.json;
  return !text || !text.value.trim();
}

/** Show in the panel that its first verdict is to come. */
function showSkeleton() {
  const bars = [0, 1, 2].map(() => {
    const bar = document.createElement("p");
    bar.className = "skeleton";
    return bar;
  });
  panel.replaceChildren(...bars);
}

async function check() {
  if (isEmpty()) return;
  const data = await content();
  const key = JSON.stringify([...data].filter(([name]) => !["request_id", "csrfmiddlewaretoken"].includes(name)));
  if (key === asked) return;
  asking?.abort();
  const request = new AbortController();
  asking = request;
  panel.setAttribute("aria-busy", "true");
  if (!panel.querySelector(".message")) showSkeleton();
  try {
    const response = await fetch(form.dataset.check, { method: "POST", body: data, signal: request.signal, redirect: "error" });
    if (response.status === 429) {
      later(4 * PAUSE_MS);
      return;
    }
    if (!response.ok) return;
    const answer = new DOMParser().parseFromString(await response.text(), "text/html");
    panel.replaceChildren(...answer.body.childNodes);
    asked = key;
  } catch {
    // Aborted by the next one, or the server is not reachable: the panel stays as it is.
  } finally {
    if (asking === request) {
      panel.removeAttribute("aria-busy");
      if (panel.querySelector(".skeleton")) panel.replaceChildren(...hint);
    }
  }
}

function later(wait = PAUSE_MS) {
  clearTimeout(timer);
  timer = setTimeout(check, wait);
}

form.addEventListener("input", () => later());
form.addEventListener("change", () => later());
form.addEventListener("submit", () => {
  clearTimeout(timer);
  asking?.abort();
});

// ---- Files ----

function add(more) {
  const all = new DataTransfer();
  // A corrected file takes the place of the one that it corrects, as one that was uploaded before.
  const names = new Set([...more].map((file) => file.name));
  for (const file of [...files.files].filter((file) => !names.has(file.name))) all.items.add(file);
  for (const file of more) all.items.add(file);
  files.files = all.files;
  files.dispatchEvent(new Event("change", { bubbles: true }));
}

function list() {
  const chosen = document.getElementById("chosen");
  chosen.hidden = files.files.length < 2;
  chosen.replaceChildren(
    ...[...files.files].map((file) => {
      const item = document.createElement("li");
      item.textContent = file.name;
      return item;
    }),
  );
}

function carriesFiles(event) {
  return [...(event.dataTransfer?.types ?? [])].includes("Files");
}

files.addEventListener("change", list);
document.addEventListener("dragover", (event) => {
  if (!carriesFiles(event)) return;
  event.preventDefault();
  form.classList.add("dropping");
});
document.addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) form.classList.remove("dropping");
});
// Captured, so that the editor does not insert the content of the file.
document.addEventListener(
  "drop",
  (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    event.stopPropagation();
    form.classList.remove("dropping");
    add(event.dataTransfer.files);
  },
  true,
);

// ---- Names: the browser offers a whole value, so the names before the last one are put before each choice ----

for (const field of form.querySelectorAll("input[data-names]")) {
  const all = [...field.list.options].map((option) => option.value);
  const own = document.createElement("datalist");
  own.id = `${field.id}-choices`;
  field.after(own);
  const offer = () => {
    const before = field.value.slice(0, field.value.lastIndexOf(",") + 1);
    const given = before.split(",").map((name) => name.trim());
    own.replaceChildren(
      ...all
        .filter((name) => !given.includes(name))
        .map((name) => {
          const option = document.createElement("option");
          option.value = before ? `${before} ${name}` : name;
          return option;
        }),
    );
  };
  field.setAttribute("list", own.id);
  field.addEventListener("input", offer);
  offer();
}

// ---- The editor ----

function jdl(editor) {
  return editor.StreamLanguage.define({
    name: "jdl",
    startState: () => ({ comment: false }),
    token(stream, state) {
      if (state.comment) {
        state.comment = !stream.match(/^.*?\*\//);
        if (state.comment) stream.skipToEnd();
        return "comment";
      }
      if (stream.eatSpace()) return null;
      if ((stream.sol() || /^\s*$/.test(stream.string.slice(0, stream.pos))) && stream.match(/^#.*/)) return "comment";
      if (stream.match(/^\/\/.*/)) return "comment";
      if (stream.match("/*")) {
        state.comment = true;
        return "comment";
      }
      if (stream.match(/^"(?:[^"\\]|\\.)*"?/)) return "string";
      if (stream.match(/^[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?/)) return "number";
      if (stream.match(/^(?:true|false|undefined|error)\b/i)) return "bool";
      if (stream.match(/^[A-Za-z_][\w.]*(?=\s*=(?!=))/)) return "propertyName";
      if (stream.match(/^[A-Za-z_][\w.]*/)) return "variableName";
      stream.next();
      return null;
    },
    languageData: { commentTokens: { line: "//", block: { open: "/*", close: "*/" } } },
  });
}

//: Colours of the page, light and dark, which the shadow root inherits; as high as the text area, so that nothing jumps.
function look(editor, heightPx) {
  const tags = editor.tags;
  return [
    editor.EditorView.theme({
      "&": { color: "var(--text)", fontSize: "13px", maxHeight: "60vh" },
      "&.cm-focused": { outline: "none" },
      ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5", overflow: "auto", minHeight: `${heightPx}px` },
      ".cm-content": { caretColor: "var(--text)" },
      ".cm-cursor": { borderLeftColor: "var(--text)" },
      ".cm-gutters": { color: "var(--quiet)", background: "var(--sunk)", border: "none" },
      ".cm-activeLine, .cm-activeLineGutter": { background: "color-mix(in srgb, var(--primary) 8%, transparent)" },
      "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { background: "color-mix(in srgb, var(--primary) 30%, transparent) !important" },
      ".cm-matchingBracket": { background: "color-mix(in srgb, var(--success) 30%, transparent) !important" },
      ".cm-tooltip": { color: "var(--text)", background: "var(--card)", border: "1px solid var(--line)" },
      ".cm-tooltip-autocomplete ul li[aria-selected]": { color: "#fff !important", background: "var(--primary) !important" },
    }),
    editor.syntaxHighlighting(
      editor.HighlightStyle.define([
        { tag: [tags.propertyName], color: "var(--link)" },
        { tag: [tags.string], color: "var(--done-text)" },
        { tag: [tags.number, tags.bool, tags.null], color: "var(--held-text)" },
        { tag: [tags.comment], color: "var(--quiet)", fontStyle: "italic" },
      ]),
    ),
  ];
}

function wordsOf(area, editor) {
  const words = (area.dataset.words ?? "").split(" ").filter(Boolean);
  if (!words.length) return editor.autocompletion();
  const options = words.map((label) => ({ label, type: "property", apply: `${label} = ` }));
  const source = (context) => {
    const word = context.matchBefore(/^\s*\w+/);
    return word && { from: word.from + word.text.search(/\S/), options, validFor: /^\w*$/ };
  };
  return editor.autocompletion({ override: [source] });
}

// Where the browser itself replaces several lines, it sets styles of elements, which the rules for content refuse.
function replacesSelection(event, view) {
  if (event.inputType !== "insertText" || event.data === null || event.isComposing || view.state.selection.main.empty) return false;
  event.preventDefault();
  view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
  return true;
}

//: The place that an error names, such as "Line 3, column 7".
function placeOf(area) {
  const said = /Line (\d+), column (\d+)/.exec(area.closest(".field").querySelector(".errorlist")?.textContent ?? "");
  return said && { line: Number(said[1]), column: Number(said[2]) };
}

async function replace(area) {
  const editor = await import(form.dataset.editorModule);
  const heightPx = area.offsetHeight - BORDERS_PX;
  const host = document.createElement("div");
  host.className = "editor";
  host.dataset.keep = "";
  // In a shadow root its style sheets are adopted; in the page they would be elements that the rules for content refuse.
  const root = host.attachShadow({ mode: "open" });
  area.before(host);
  const label = form.querySelector(`label[for="${area.id}"]`)?.textContent.trim() ?? "";
  const view = new editor.EditorView({
    root,
    parent: root,
    doc: area.value,
    extensions: [
      editor.lineNumbers(),
      editor.history(),
      editor.drawSelection(),
      editor.bracketMatching(),
      editor.highlightActiveLine(),
      editor.EditorView.lineWrapping,
      editor.EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false" }),
      editor.EditorView.domEventHandlers({ beforeinput: replacesSelection }),
      editor.keymap.of([...editor.completionKeymap, ...editor.defaultKeymap, ...editor.historyKeymap]),
      area.dataset.editor === "json" ? editor.json() : jdl(editor),
      wordsOf(area, editor),
      look(editor, heightPx),
      editor.EditorView.updateListener.of((update) => {
        if (!update.docChanged) return;
        area.value = update.state.doc.toString();
        area.dispatchEvent(new Event("input", { bubbles: true }));
      }),
    ],
  });
  area.classList.add("replaced");
  area.tabIndex = -1;
  area.setAttribute("aria-hidden", "true");
  area.addEventListener("focus", () => view.focus());
  const place = placeOf(area);
  if (place) {
    const line = view.state.doc.line(Math.min(place.line, view.state.doc.lines));
    view.dispatch({ selection: { anchor: Math.min(line.from + place.column - 1, line.to) }, scrollIntoView: true });
    view.focus();
  }
}

for (const area of form.querySelectorAll("textarea[data-editor]")) replace(area);
if (!panel.querySelector(".message")) later(0);
