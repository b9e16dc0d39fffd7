// The submit page, live: every change asks what would become of the task; form and JSON follow each other.
(() => {
  const form = document.getElementById("config");
  const box = document.getElementById("json");
  const file = document.getElementById("file");
  const anew = document.getElementById("anew");
  const said = document.getElementById("said");
  const unreachable = document.getElementById("unreachable");
  const loggedOut = document.getElementById("logged-out");
  const unsent = document.getElementById("unsent");
  const WAIT_MS = 400; // after the last key
  const AGAIN_MS = 60000; // what is free changes without anybody typing here …
  const LEFT_MS = 600000; // … but a form that was left so long asks no more
  const THERE_MS = 10000; // a platform that takes longer to say that it is there is not there

  let timer = 0;
  let touched = Date.now();
  let side = "ask"; // which of both was changed last: the form asks, the JSON fills it
  let asking = false; // whether the platform is there, before the form is sent
  let sending = false;
  let broken = !document.getElementById("json-faults").hidden;

  // A request that was superseded is no fault: htmx would write one to the console for each.
  let sent = null;
  form.addEventListener("htmx:beforeRequest", (event) => {
    if (event.target.matches("#ask, #fill, .way")) sent = event.detail;
  });
  form.addEventListener("htmx:abort", () => {
    if (sent) sent.error = "";
  });

  file.removeAttribute("name"); // its text goes into the box
  anew.hidden = !broken;

  function send() {
    clearTimeout(timer);
    timer = 0;
    if (side === "fill") document.getElementById("fields").inert = true; // until it is filled
    htmx.trigger(`#${side}`, `taiji:${side}`);
  }

  function changed(which) {
    if (timer && side === "fill" && which === "ask") return; // the JSON goes first, then the form is its image
    side = which;
    touched = Date.now();
    htmx.trigger(form, "htmx:abort"); // an answer to what stood there before must not overwrite what was typed since
    clearTimeout(timer);
    timer = setTimeout(send, WAIT_MS);
  }

  form.addEventListener("input", (event) => {
    if (event.target.closest("#save-template") || event.target === file) return;
    const origin = document.getElementById(`${event.target.id}_origin`) || event.target.closest("fieldset")?.querySelector(".origin");
    if (origin) origin.hidden = true; // it is the user's own now
    changed(event.target === box ? "fill" : "ask");
  });
  box.addEventListener("blur", () => timer && side === "fill" && send());

  file.addEventListener("change", async () => {
    if (!file.files.length) return;
    box.value = await file.files[0].text();
    file.value = "";
    side = "fill";
    send();
  });

  anew.addEventListener("click", () => {
    broken = false;
    form.elements.form_was.value = ""; // whatever it says
    side = "ask";
    send();
    box.focus();
  });

  // In the fields of a template Enter saves it; the form's own Enter submits a task.
  document.getElementById("save-template").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.target.tagName !== "INPUT") return;
    event.preventDefault();
    document.getElementById("save").click();
  });

  function showText() {
    const now = document.getElementById("now").dataset;
    const { json_was: textWas, form_was: formWas } = form.elements;
    const kept = "keep" in now; // the text was read: it stays as it was typed
    if (kept) broken = false;
    if (!broken && (kept || now.form !== formWas.value)) {
      if (!kept) box.value = document.getElementById("now").textContent;
      if (!kept) document.getElementById("json-faults").hidden = true;
      textWas.value = now.text;
      formWas.value = now.form;
    }
    anew.hidden = !broken;
    document.getElementById("default-types").textContent = document.getElementById("types-now").textContent;
  }

  function faults() {
    const found = new Map();
    for (const one of document.querySelectorAll("#verdict [data-field]")) {
      const { field, message } = one.dataset;
      if ("missing" in one.dataset && !("tried" in form.dataset)) continue; // not filled in yet is no mistake
      found.set(field, [...(found.get(field) || []), message]);
    }
    return found;
  }

  // What is wrong stands beside its field as well, and in the list above while it is still wrong.
  function showFaults() {
    const found = faults();
    for (const place of form.querySelectorAll("#fields [id$=_error]")) {
      const id = place.id.replace(/_error$/, "");
      const messages = found.get(id.replace(/^id_/, "")) || [];
      place.replaceChildren(...messages.map((message) => {
        const line = document.createElement("div");
        line.textContent = message;
        return line;
      }));
      place.hidden = !messages.length;
      const field = document.getElementById(id);
      if (!field?.matches("input, select, textarea")) continue;
      field.toggleAttribute("aria-invalid", false);
      if (messages.length) field.setAttribute("aria-invalid", "true");
      describe(field, place.id, messages.length);
    }
    const refused = document.getElementById("refused");
    for (const line of refused?.querySelectorAll("[data-field]") || []) {
      line.hidden = line.dataset.field && !(found.get(line.dataset.field) || []).includes(line.dataset.message);
    }
    const text = refused?.querySelector("#refused-text");
    if (text) text.hidden = !broken;
    if (refused) refused.hidden = !refused.querySelector("li:not([hidden]), #refused-text:not([hidden])");
  }

  function describe(field, id, on) {
    const ids = new Set((field.getAttribute("aria-describedby") || "").split(" ").filter(Boolean));
    if (on) ids.add(id);
    else ids.delete(id);
    if (ids.size) field.setAttribute("aria-describedby", [...ids].join(" "));
    else field.removeAttribute("aria-describedby");
  }

  // Readers of the screen hear the heading, and only when it says something new.
  function announce() {
    const title = document.querySelector("#verdict .verdict-title")?.textContent.trim() || "";
    if (title && said.textContent !== title) said.textContent = title;
  }

  form.addEventListener("htmx:afterRequest", (event) => {
    document.getElementById("fields").inert = false;
    const { successful, requestConfig } = event.detail;
    const { elt } = requestConfig; // the event itself comes from what is left of the page around it
    if (!successful) return;
    unreachable.hidden = loggedOut.hidden = true;
    if (elt.classList.contains("way")) {
      broken = false;
      document.getElementById("verdict").focus();
    }
    const refusedText = elt.id === "fill" && event.detail.xhr.getResponseHeader("HX-Reswap") === "none";
    if (refusedText) {
      broken = true;
      anew.hidden = false;
      return;
    }
    showText();
    showFaults();
    announce();
  });
  for (const failure of ["htmx:sendError", "htmx:responseError", "htmx:timeout"]) {
    form.addEventListener(failure, ({ detail }) => {
      if (detail.xhr.status !== 401) unreachable.hidden = false;
    });
  }
  // Not only answers to the form say so: the pulse of the page is asked for too.
  document.addEventListener("htmx:responseError", ({ detail }) => {
    if (detail.xhr.status === 401) loggedOut.hidden = false;
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && !loggedOut.hidden) changed(side); // perhaps it was the login that somebody comes back from
  });

  // A form that is sent while the platform is away, or after the session ended, would be lost: it is asked first.
  form.addEventListener("submit", async (event) => {
    if (sending) {
      sending = false;
      return;
    }
    event.preventDefault();
    if (asking) return;
    asking = true;
    const isThere = await asks();
    asking = false;
    if (!isThere) return;
    sending = true;
    form.requestSubmit(event.submitter);
  });

  async function asks() {
    const status = await fetch(form.dataset.there, {
      headers: { "HX-Request": "true" },
      signal: AbortSignal.timeout(THERE_MS),
    }).then((answer) => answer.status, () => 0);
    loggedOut.hidden = status !== 401;
    unsent.hidden = status === 200 || status === 401;
    for (const word of [loggedOut, unsent]) if (!word.hidden) word.scrollIntoView({ block: "nearest" });
    return status === 200;
  }

  // A link to a field opens the part of the form that it stands in.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("#verdict a[href^='#'], #refused a[href^='#']");
    if (!link) return;
    const field = document.getElementById(link.hash.slice(1));
    if (!field) return;
    event.preventDefault();
    const part = field.closest("details");
    if (part) part.open = true;
    const target = field.hidden ? field.parentElement.querySelector("button") : field.matches("fieldset") ? field.querySelector("input") : field;
    (target || field).focus();
  });

  if (location.hash === "#save-template") document.getElementById("save-template").open = true;
  document.getElementById("refused")?.focus();
  window.addEventListener("pageshow", () => changed("ask"));
  setInterval(() => {
    const reading = document.getElementById("answer").contains(document.activeElement);
    if (timer || document.hidden || reading || Date.now() - touched > LEFT_MS) return;
    side = "ask";
    send();
  }, AGAIN_MS);
})();
