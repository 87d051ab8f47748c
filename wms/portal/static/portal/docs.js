// The theme of Swagger UI, whose style sheet has a dark one for html.dark-mode; set before the page is painted.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");

  function apply() {
    const theme = document.documentElement.dataset.theme;
    document.documentElement.classList.toggle("dark-mode", theme === "dark" || (theme !== "light" && dark.matches));
  }

  apply();
  dark.addEventListener("change", apply);
  document.addEventListener("theme-changed", apply);
})();
