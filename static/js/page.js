// Small things of every page: swaps that do not jump, ages that tick, questions before what cannot be undone.
(() => {
  // htmx asks this extension for hx-swap="morph": the new element is worked into the old one, so that focus,
  // selection and scroll positions stay.
  htmx.defineExtension("morph", {
    isInlineSwap: (style) => style === "morph",
    handleSwap: (style, target, fragment) => {
      const inside = style === "morph:innerHTML";
      if (style !== "morph" && !inside) return false;
      return Idiomorph.morph(target, fragment.children, {
        morphStyle: inside ? "innerHTML" : "outerHTML",
        ignoreActiveValue: true,
        // What somebody unfolded stays so: the server knows nothing of it.
        callbacks: {
          beforeAttributeUpdated: (name, node, how) => !(name === "open" && how === "remove" && node.tagName === "DETAILS"),
        },
      });
    },
  });

  // The words for ages come from the browser, in the language of the page.
  const ages = new Intl.RelativeTimeFormat(document.documentElement.lang, { numeric: "always", style: "narrow" });

  function ageOf(seconds) {
    if (seconds < 60) return ages.format(-seconds, "second");
    if (seconds < 3600) return ages.format(-Math.floor(seconds / 60), "minute");
    return ages.format(-Math.floor(seconds / 3600), "hour");
  }

  function tick() {
    const now = Date.now() / 1000;
    for (const age of document.querySelectorAll(".age")) {
      age.textContent = `· ${ageOf(Math.max(0, Math.round(now - Number(age.dataset.since))))}`;
    }
  }

  tick();
  setInterval(tick, 5000);
  document.addEventListener("htmx:afterSwap", tick);

  // What lasts goes on from what the server said, by the time that passed since: clocks of browsers may be wrong.
  const begun = new WeakMap();

  function goOn() {
    for (const element of document.querySelectorAll("[data-lasts]")) {
      const { lasts } = element.dataset;
      if (begun.get(element)?.lasts !== lasts) begun.set(element, { lasts, at: performance.now() });
      const seconds = Math.round(Number(lasts) + (performance.now() - begun.get(element).at) / 1000);
      const two = (number) => String(number).padStart(2, "0");
      const shown = `${Math.floor(seconds / 3600)}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
      if (element.textContent !== shown) element.textContent = shown;
    }
  }

  goOn();
  setInterval(goOn, 1000);

  document.addEventListener("submit", (event) => {
    const form = event.target;
    const question = form.dataset.confirm;
    if (question && !window.confirm(question)) event.preventDefault();
    if (event.defaultPrevented || !("once" in form.dataset)) return;
    if (form.classList.contains("sent")) event.preventDefault();
    form.classList.add("sent"); // a second click would only ask for the same again
    setTimeout(() => form.classList.remove("sent"), 10000); // the first one may have been broken off
  });

  // Whoever logged in again in another tab has another token there than this page was made with.
  function bringToken(set) {
    const found = document.cookie.match(/(?:^|; )csrftoken=([^;]+)/);
    if (found) set(found[1]);
  }

  document.addEventListener("submit", ({ target }) => {
    const field = target.elements.csrfmiddlewaretoken;
    if (field) bringToken((token) => { field.value = token; });
  }, true);
  document.addEventListener("htmx:configRequest", ({ detail }) => {
    if (!detail.parameters.csrfmiddlewaretoken) return;
    bringToken((token) => { detail.parameters.csrfmiddlewaretoken = token; });
  });

  // After the session ended a page is read anew, and leads to the login; what was typed into a form is kept.
  document.addEventListener("htmx:responseError", ({ detail }) => {
    if (detail.xhr.status === 401 && !document.getElementById("config")) location.reload();
  });

  // A page that comes back from the browser's memory can be sent again.
  window.addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form.sent")) form.classList.remove("sent");
  });

  // Controls that do nothing without scripts are hidden until scripts run.
  function showControls() {
    for (const element of document.querySelectorAll(".needs-script")) element.hidden = false;
  }

  showControls();
  document.addEventListener("htmx:afterSettle", showControls);

  async function copy(element) {
    const text = "value" in element ? element.value : element.textContent;
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    // Pages that come without TLS have no clipboard of their own: the selection is copied instead.
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "visually-hidden";
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    await copy(document.getElementById(button.dataset.copy));
    button.focus();
    const word = button.querySelector("span");
    const before = word.textContent;
    if (before === button.dataset.copied) return;
    word.textContent = button.dataset.copied;
    setTimeout(() => { word.textContent = before; }, 2000);
  });
})();
