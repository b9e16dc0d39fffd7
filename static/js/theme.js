// Runs before the page is painted, so that a dark page never flashes light.
(() => {
  const KEY = "taiji-theme";
  const system = window.matchMedia("(prefers-color-scheme: dark)");

  function remembered() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // storage may be forbidden; then the system's choice stands
    }
  }

  function show() {
    const theme = remembered() || (system.matches ? "dark" : "light");
    document.documentElement.setAttribute("data-bs-theme", theme);
  }

  function turn() {
    const dark = document.documentElement.getAttribute("data-bs-theme") === "dark";
    try {
      localStorage.setItem(KEY, dark ? "light" : "dark");
    } catch {
      document.documentElement.setAttribute("data-bs-theme", dark ? "light" : "dark");
      return;
    }
    show();
  }

  show();
  system.addEventListener("change", show);
  window.addEventListener("storage", show);
  document.addEventListener("click", (event) => {
    if (event.target.closest(".theme-switch")) turn();
  });
})();
