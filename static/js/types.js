// The GPU types as a list in the order to try; the text field below is what is sent, and what stands there without scripts.
(() => {
  const shows = new WeakMap(); // by box, how its list is drawn anew

  function split(text) {
    return text.split(/[,，、]/).map((name) => name.trim()).filter(Boolean);
  }

  function say(words, name, more = {}) {
    let said = words.replace("{name}", name);
    for (const [key, value] of Object.entries(more)) said = said.replace(`{${key}}`, value);
    return said;
  }

  function button(text, label, act, look = "btn btn-sm btn-icon") {
    const made = document.createElement("button");
    made.type = "button";
    made.className = look;
    made.textContent = text;
    made.setAttribute("aria-label", label);
    made.title = label;
    made.addEventListener("click", act);
    return made;
  }

  function widget(box) {
    const field = box.querySelector("input");
    const label = box.querySelector("label");
    const words = box.dataset;
    const known = split(words.known || "");
    const list = document.createElement("ol");
    const others = document.createElement("div");
    const status = document.createElement("p");
    list.className = "type-list list-unstyled mb-0";
    others.className = "type-others";
    status.className = "visually-hidden";
    status.setAttribute("role", "status");
    label.id = "types-label";
    for (const part of [list, others]) part.setAttribute("aria-labelledby", label.id);
    others.setAttribute("role", "group");
    field.hidden = true;
    field.after(list, others, status);

    // Write the order into the field, tell the form, and bring the keyboard back to where it was.
    function put(names, focus, news) {
      field.value = names.join(", ");
      show();
      field.dispatchEvent(new Event("input", { bubbles: true }));
      status.textContent = news;
      const target = [...box.querySelectorAll("button")].find((one) => one.dataset.key === focus && !one.disabled);
      (target || box.querySelector("button:not(:disabled)"))?.focus();
    }

    function placed(names, name) {
      return say(words.placed, name, { place: names.indexOf(name) + 1, of: names.length });
    }

    function move(name, by) {
      const names = split(field.value);
      const from = names.indexOf(name);
      names.splice(from + by, 0, ...names.splice(from, 1));
      const atEnd = from + by === (by < 0 ? 0 : names.length - 1);
      put(names, `${(by < 0) !== atEnd ? "up" : "down"} ${name}`, placed(names, name));
    }

    function item(name, place, names) {
      const row = document.createElement("li");
      const text = document.createElement("span");
      text.className = "me-auto";
      text.textContent = name;
      const up = button("↑", say(words.up, name), () => move(name, -1));
      const down = button("↓", say(words.down, name), () => move(name, 1));
      const gone = button("×", say(words.remove, name), () =>
        put(names.filter((one) => one !== name), `add ${name}`, say(words.removed, name)));
      up.disabled = place === 0;
      down.disabled = place === names.length - 1;
      up.dataset.key = `up ${name}`;
      down.dataset.key = `down ${name}`;
      gone.dataset.key = `gone ${name}`;
      row.append(text, ...(names.length > 1 ? [up, down] : []), gone);
      return row;
    }

    function show() {
      const names = split(field.value);
      const chosen = new Set(names.map((name) => name.toLowerCase()));
      list.replaceChildren(...names.map((name, place) => item(name, place, names)));
      list.hidden = !names.length;
      others.replaceChildren(...known.filter((name) => !chosen.has(name.toLowerCase())).map((name) => {
        const add = button(`+ ${name}`, say(words.add, name), () => {
          const more = [...split(field.value), name];
          put(more, `gone ${name}`, placed(more, name));
        }, "btn btn-sm");
        add.dataset.key = `add ${name}`;
        return add;
      }));
    }

    show();
    shows.set(box, show);
  }

  function find() {
    for (const box of document.querySelectorAll(".types")) {
      if (!box.querySelector(".type-list")) widget(box);
    }
  }

  find();
  document.addEventListener("htmx:afterSwap", find);
  window.addEventListener("pageshow", () => { // browsers fill fields again when people go back
    for (const box of document.querySelectorAll(".types")) shows.get(box)?.();
  });
})();
