// Small things of every page: swaps that do not jump, ages that tick, questions before what cannot be undone.
(() => {
  // htmx asks this extension for hx-swap="morph": the new element is worked into the old one, so that focus,
  // selection and scroll positions stay.
  htmx.defineExtension("morph", {
    isInlineSwap: (style) => style === "morph",
    handleSwap: (style, target, fragment) => {
      if (style !== "morph") return false;
      return Idiomorph.morph(target, fragment.children, { morphStyle: "outerHTML", ignoreActiveValue: true });
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

  document.addEventListener("submit", (event) => {
    const question = event.target.dataset.confirm;
    if (question && !window.confirm(question)) event.preventDefault();
  });

  // Controls that do nothing without scripts are hidden until scripts run.
  for (const element of document.querySelectorAll(".needs-script, .type-chips")) element.hidden = false;

  const field = document.getElementById("id_GPUName");
  const chips = document.querySelectorAll(".type-chips [data-type]");

  function types() {
    return field.value.split(/[,，、]/).map((name) => name.trim()).filter(Boolean);
  }

  function showChips() {
    const chosen = new Set(types().map((name) => name.toLowerCase()));
    for (const chip of chips) {
      const on = chosen.has(chip.dataset.type.toLowerCase());
      chip.setAttribute("aria-pressed", String(on));
      chip.classList.toggle("btn-primary", on);
    }
  }

  function toggleType(name) {
    const listed = types();
    const left = listed.filter((one) => one.toLowerCase() !== name.toLowerCase());
    if (left.length === listed.length) left.push(name);
    field.value = left.join(", ");
    showChips();
  }

  if (field) {
    for (const chip of chips) chip.addEventListener("click", () => toggleType(chip.dataset.type));
    field.addEventListener("input", showChips);
    showChips();
  }

  const faulty = document.querySelector("#config [aria-invalid=true]");
  if (faulty) faulty.focus();
})();
