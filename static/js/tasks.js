// The list of tasks: what is ticked stays ticked, and news come without anything jumping under the reader.
(() => {
  const picked = new Set(); // ids that are ticked on this page of the list
  const news = document.getElementById("list-news");
  const parser = new DOMParser();
  let asking = false;
  let again = false;
  let againWholly = false;

  const list = () => document.getElementById("list");
  const boxes = () => document.querySelectorAll("#list tbody input[name=task]");
  const rowIds = (root) => [...root.querySelectorAll("tbody tr[id]")].map((row) => row.id);

  // What the server does not know of: which boxes are ticked, and what needs scripts.
  function dress() {
    const there = new Set();
    for (const box of boxes()) {
      there.add(box.value);
      box.checked = picked.has(box.value);
      box.closest("tr").classList.toggle("picked", box.checked);
    }
    for (const id of picked) if (!there.has(id)) picked.delete(id);
    for (const element of document.querySelectorAll("#tasks .needs-script")) element.hidden = false;
    count();
  }

  function count() {
    const said = document.querySelector("#bulk [data-some]");
    const all = document.querySelector(".pick-all");
    const every = document.getElementById("pick-every").checked;
    said.textContent = picked.size && !every ? said.dataset.some.replace("{n}", picked.size) : said.dataset.none;
    document.getElementById("bulk").classList.toggle("bulk-on", picked.size > 0 || every);
    if (!all) return;
    const number = boxes().length;
    all.checked = number > 0 && picked.size === number;
    all.indeterminate = picked.size > 0 && picked.size < number;
  }

  document.addEventListener("change", (event) => {
    const box = event.target;
    if (box.classList.contains("pick-all")) {
      for (const one of boxes()) box.checked ? picked.add(one.value) : picked.delete(one.value);
      dress();
    } else if (box.name === "task") {
      box.checked ? picked.add(box.value) : picked.delete(box.value);
      dress();
    } else if (box.id === "pick-every") {
      count();
    }
  });

  // Rows come and go only while nobody reads them: at the top of the page, with nothing ticked, chosen or in focus.
  function isRead() {
    const selection = document.getSelection();
    const selected = selection && !selection.isCollapsed && list().contains(selection.anchorNode);
    const scrolled = list().getBoundingClientRect().top < 0;
    return picked.size > 0 || scrolled || selected || list().contains(document.activeElement);
  }

  function take(fresh) {
    Idiomorph.morph(list(), fresh, { morphStyle: "outerHTML", ignoreActiveValue: true });
    htmx.process(list());
    news.hidden = true;
    dress();
  }

  // Bring the rows that are there up to date, and say what else changed.
  function takeRows(fresh) {
    const [shown, now] = [rowIds(list()), rowIds(fresh)];
    const [wasShown, isNow] = [new Set(shown), new Set(now)];
    for (const id of now) {
      if (wasShown.has(id)) Idiomorph.morph(document.getElementById(id), fresh.querySelector(`#${id}`), { morphStyle: "outerHTML" });
    }
    // Of a full page the last rows only make room for those above.
    const last = fresh.querySelector("[rel=next]") ? shown.findLast((id) => isNow.has(id)) : null;
    const upTo = (ids) => (last ? ids.slice(0, ids.indexOf(last)) : ids);
    const come = upTo(now).filter((id) => !wasShown.has(id)).length;
    const gone = upTo(shown).filter((id) => !isNow.has(id));
    for (const id of shown) document.getElementById(id).classList.toggle("gone", gone.includes(id));
    dress();
    announce(come, gone.length);
  }

  function announce(come, gone) {
    const said = [
      come ? news.dataset.new.replace("{n}", come) : "",
      gone ? news.dataset.gone.replace("{n}", gone) : "",
    ];
    const text = said.filter(Boolean).join(" · ");
    const words = news.querySelector(".list-news-words");
    if (words.textContent !== text) words.textContent = text; // it is read aloud when it changes
    news.hidden = !text;
  }

  // One question at a time; what comes meanwhile asks once more.
  async function refresh(wholly) {
    if (asking) {
      again = true;
      againWholly ||= wholly;
      return;
    }
    asking = true;
    try {
      const address = list().dataset.address;
      const answer = await fetch(address, { headers: { "HX-Request": "true", "HX-Target": "list" } });
      if (answer.status === 401) location.reload(); // the session ended
      if (!answer.ok || answer.redirected) return; // the next news, or the next round, asks again
      const fresh = parser.parseFromString(await answer.text(), "text/html").getElementById("list");
      if (!fresh || list().dataset.address !== address) return; // somebody went on meanwhile
      if (wholly || !isRead()) take(fresh);
      else takeRows(fresh);
      document.dispatchEvent(new CustomEvent("taiji:fresh", { detail: answer.headers.get("Date") }));
    } catch (error) {
      if (!(error instanceof TypeError)) throw error; // the network is away
    } finally {
      asking = false;
      if (again) {
        const all = againWholly;
        again = againWholly = false;
        refresh(all);
      }
    }
  }

  news.querySelector("button").addEventListener("click", async () => {
    await refresh(true);
    document.getElementById("tasks").scrollIntoView({ block: "start" });
  });

  document.body.addEventListener("taiji:tasks", () => refresh(false));
  document.addEventListener("htmx:afterSwap", (event) => {
    if (!event.target.closest("#tasks")) return; // another part of the page
    news.hidden = true;
    dress();
  });
  window.addEventListener("pageshow", dress);
  dress();
})();
