// Names for controls of Django's administration that have none for screen readers. The scripts of the forms make some of
// these controls when the page is loaded, before this.
function name(selector, attribute, value) {
  for (const element of document.querySelectorAll(selector)) {
    if (!element.hasAttribute(attribute)) element.setAttribute(attribute, value);
  }
}

// Fields that search are made beside a hidden select, whose label they do not have.
function nameSearchFields() {
  for (const select of document.querySelectorAll("select.select2-hidden-accessible")) {
    const words = select.getAttribute("aria-label") ?? document.querySelector(`label[for="${select.id}"]`)?.textContent.trim().replace(/:$/, "");
    for (const part of select.nextElementSibling?.querySelectorAll("[role=combobox], [role=textbox], input") ?? []) {
      part.setAttribute("aria-label", words ?? "Choose");
    }
    // Has a button beside its items.
    select.nextElementSibling?.querySelector("ul")?.setAttribute("role", "none");
  }
}

addEventListener("focusin", (event) => {
  if (event.target.matches(".select2-dropdown input")) event.target.setAttribute("aria-label", "Search");
});

// They are made when the page is ready or a row is added, sooner or later than this.
new MutationObserver(nameSearchFields).observe(document.body, { childList: true, subtree: true });
nameSearchFields();

addEventListener("load", () => {
  name("#searchbar", "aria-label", "Search");
  name("td.delete input[type=checkbox]", "aria-label", "Delete");
  name(".vDateField", "aria-label", "Date");
  name(".vTimeField", "aria-label", "Time");
  name(".search-label-icon[aria-label]", "role", "img");
});
