// Names for controls of Django's administration that have none for screen readers. The scripts of the forms make some of
// these controls when the page is loaded, before this.
function name(selector, attribute, value) {
  for (const element of document.querySelectorAll(selector)) {
    if (!element.hasAttribute(attribute)) element.setAttribute(attribute, value);
  }
}

addEventListener("load", () => {
  name("#searchbar", "aria-label", "Search");
  name("td.delete input[type=checkbox]", "aria-label", "Delete");
  name(".search-label-icon[aria-label]", "role", "img");
});
