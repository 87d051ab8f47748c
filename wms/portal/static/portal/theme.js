// The theme: auto (that of the system), light or dark; stored under the name that Django's admin uses, so that one
// switch sets both. Loaded before the style sheets are applied, so that no page flashes in the other theme.
(() => {
  const THEMES = ["auto", "light", "dark"];

  function stored() {
    try {
      const theme = localStorage.getItem("theme");
      return THEMES.includes(theme) ? theme : "auto";
    } catch {
      return "auto"; // storage is forbidden
    }
  }

  function apply(theme) {
    document.documentElement.dataset.theme = theme;
    for (const button of document.querySelectorAll("[data-theme-switch]")) {
      button.title = `Theme: ${theme}`;
      button.setAttribute("aria-label", `Theme: ${theme}; press to change`);
    }
  }

  apply(stored());
  document.addEventListener("DOMContentLoaded", () => apply(stored()));
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-theme-switch]")) return;
    const theme = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
    try {
      localStorage.setItem("theme", theme);
    } catch {
      // The theme then lasts as long as the page.
    }
    apply(theme);
    document.dispatchEvent(new CustomEvent("theme-changed"));
  });
})();
