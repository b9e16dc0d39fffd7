// The log of a task: read part by part from a file that may be huge, and followed while it grows.
// The socket only says that there is more; the page asks for it by offset, so that nothing is missed or doubled.
(() => {
  const card = document.getElementById("log");
  const text = document.getElementById("log-text");
  const levels = document.getElementById("log-level");
  const followed = document.getElementById("log-follow");
  const earlier = document.getElementById("log-earlier");
  const later = document.getElementById("log-later");
  const link = document.getElementById("log-link");
  const download = document.getElementById("log-download");
  const said = document.getElementById("log-said");
  const words = card.dataset;

  const TAIL = 128 * 1024; // bytes shown at first
  const PART = 256 * 1024; // bytes asked for at a time
  const KEEP_UP = 2 * 1024 * 1024; // a log that runs away further than this is followed at its end
  const AFTER_MS = 60000; // a log may grow for a moment after its task is over
  const NEAR = 300; // pixels from an edge at which more is asked for

  const view = LogWindow.open(text, followed);
  let shown = null; // whose log is on the page
  let end = 0; // of the log, as last heard
  let busy = false;
  let asked = false; // something was written while it was being read
  let turn = 0; // answers of an earlier choice are thrown away
  let until = Date.now() + AFTER_MS;
  let aim = -1; // a place that the window must hold

  const number = new Intl.NumberFormat(document.documentElement.lang, { maximumFractionDigits: 1 });
  const fill = (sentence, ...values) => sentence.replace(/\{(\d)\}/g, (_all, place) => values[place]);

  function size(bytes) {
    const [unit, many] = bytes < 1024 * 1024 ? ["KiB", 1024] : ["MiB", 1024 * 1024];
    return `${number.format(bytes / many)} ${unit}`;
  }

  function say(sentence) {
    said.textContent = sentence;
    said.hidden = !sentence;
  }

  function address(one, from, limit) {
    return `${words.url}?attempt=${one.attempt}&rank=${one.rank}&offset=${from}&limit=${limit}`;
  }

  function begin(one, from) {
    turn += 1;
    busy = asked = false;
    shown = one;
    view.clear(from);
    say("");
    download.href = `${words.url}?attempt=${one.attempt}&rank=${one.rank}&offset=0&download=1`;
    card.dataset.topic = `log.${one.gang}`;
    document.dispatchEvent(new CustomEvent("taiji:topics"));
    document.dispatchEvent(new CustomEvent("taiji:member", { detail: one }));
  }

  // Reading

  async function ask(from, limit) {
    return Platform.get(address(shown, from, limit), (bytes, headers) => ({
      bytes: new Uint8Array(bytes),
      end: Number(headers.get("X-Log-End")),
      date: headers.get("Date"),
    }));
  }

  // Run one question at a time; what is asked meanwhile is asked again afterwards.
  async function once(question) {
    if (busy) {
      asked = true;
      return;
    }
    busy = true;
    const mine = turn;
    try {
      await question(() => mine === turn);
      if (mine !== turn) return;
      text.classList.remove("log-away");
      if (said.textContent === words.away) say("");
    } catch (error) {
      if (!(error instanceof Platform.Away)) throw error;
      if (mine !== turn) return;
      text.classList.add("log-away");
      if (text.firstChild) say(words.away);
      else text.textContent = words.failed;
    } finally {
      if (mine === turn) {
        busy = false;
        buttons();
        if (asked) {
          asked = false;
          forward();
        }
      }
    }
  }

  function forward() {
    return once(async (current) => {
      for (;;) {
        const from = view.high;
        const answer = await ask(from, PART);
        if (!current()) return;
        document.dispatchEvent(new CustomEvent("taiji:fresh", { detail: answer.date }));
        end = answer.end;
        if (followed.checked && end - from > KEEP_UP) {
          jump(end - TAIL, fill(words.skipped, size(end - TAIL - from)));
          continue;
        }
        const first = !text.querySelector(".log-line");
        const [bytes, at] = first && from > 0 ? wholeLines(answer.bytes, from) : [answer.bytes, from];
        if (first) text.replaceChildren();
        if (bytes.length) view.append(bytes, at);
        view.high = from + answer.bytes.length;
        if (!answer.bytes.length) view.high = Math.min(from, end); // it was shorter than thought
        if (view.high >= end || !(followed.checked || view.stands() < NEAR)) break;
      }
      if (!text.firstChild) text.textContent = words.none;
      if (shown.full) say(words.full);
    });
  }

  // A window that begins in the middle of a log begins with the first whole line there, or with the place wanted.
  function wholeLines(bytes, from) {
    let cut = bytes.indexOf(10) + 1;
    if (aim >= from && from + cut > aim) cut = aim - from;
    return cut > 0 && cut < bytes.length ? [bytes.subarray(cut), from + cut] : [bytes, from];
  }

  function jump(from, sentence) {
    view.clear(from);
    if (sentence) say(sentence);
  }

  function backward() {
    if (view.low === 0 || !text.firstChild) return undefined;
    return once(async (current) => {
      const from = Math.max(0, view.low - TAIL);
      const answer = await ask(from, view.low - from);
      if (!current() || !answer.bytes.length) return;
      const [bytes, at] = from > 0 ? wholeLines(answer.bytes, from) : [answer.bytes, from];
      view.prepend(bytes, at);
    });
  }

  // Show the line that begins at a byte, with what stands around it.
  async function go(at) {
    const known = view.lineAt(at);
    followed.checked = false;
    if (known) {
      view.point(known);
      return;
    }
    begin(shown, Math.max(0, at - TAIL / 4));
    aim = at;
    await forward();
    aim = -1;
    const found = view.lineAt(at);
    if (found) view.point(found);
  }

  // The page around it

  function buttons() {
    earlier.hidden = view.low === 0;
    later.hidden = view.high >= end && followed.checked;
    later.textContent = view.high < end ? `${later.dataset.word} · ${fill(words.more, size(end - view.high))}` : later.dataset.word;
    link.disabled = !text.querySelector(".log-line");
  }

  later.dataset.word = later.textContent;

  function look() {
    const one = LogChoice.chosen();
    if (!one) {
      text.textContent = words.none;
      return;
    }
    const same = shown && shown.attempt === one.attempt && shown.rank === one.rank;
    if (!same) begin(one, Math.max(0, Number(one.bytes) - TAIL));
    else shown = one;
    if (one.removed) text.textContent = one.removed;
    else if (followed.checked || !same || view.stands() < NEAR) forward();
    else peek();
  }

  // Only hear where the log ends by now: who reads elsewhere is not disturbed.
  function peek() {
    return once(async (current) => {
      const answer = await ask(Math.max(view.high, end), 1);
      if (current()) end = Math.max(end, answer.end);
    });
  }

  function newest() {
    followed.checked = true;
    say("");
    if (end - view.high > TAIL) jump(Math.max(0, end - TAIL), "");
    text.scrollTop = text.scrollHeight;
    forward();
  }

  function linkTo(node) {
    view.point(node, false);
    const address = new URL(location.href);
    address.search = new URLSearchParams({ attempt: shown.attempt, rank: shown.rank, at: node.dataset.at });
    address.hash = "log";
    history.replaceState(null, "", address);
    say(words.linked);
    return address.href;
  }

  function filter() {
    text.dataset.level = levels.value;
    const lines = text.querySelectorAll(".log-line");
    const any = [...lines].some((node) => node.offsetParent !== null);
    say(lines.length && !any ? words.hidden : "");
    if (followed.checked) text.scrollTop = text.scrollHeight;
  }

  LogChoice.changed(look);
  levels.addEventListener("change", filter);
  later.addEventListener("click", newest);
  followed.addEventListener("change", () => (followed.checked ? newest() : buttons()));
  earlier.addEventListener("click", async () => {
    followed.checked = false;
    await backward();
    text.scrollTop = 0;
  });
  link.addEventListener("click", async () => {
    const node = view.pointed() || view.visibleLine();
    if (!node) return;
    const href = linkTo(node);
    if (!navigator.clipboard) return;
    try {
      await navigator.clipboard.writeText(href);
      say(words.copied);
    } catch {
      // it stands in the address all the same
    }
  });
  text.addEventListener("click", (event) => {
    const node = event.target.closest(".log-line");
    if (node && String(getSelection()) === "") linkTo(node);
  });
  let scrolling = 0;
  let lastTop = 0;
  text.addEventListener("scroll", () => {
    cancelAnimationFrame(scrolling);
    scrolling = requestAnimationFrame(() => {
      if (!text.querySelector(".log-line")) return;
      // Whoever scrolls up reads: following would take the lines away.
      if (followed.checked && text.scrollTop < lastTop && view.stands() > 100) followed.checked = false;
      lastTop = text.scrollTop;
      buttons();
      if (text.scrollTop < NEAR && view.low > 0 && !followed.checked && !busy) backward();
      else if (view.stands() < NEAR && view.high < end && !busy) forward();
    });
  });
  document.addEventListener("click", (event) => {
    const asksFor = event.target.closest(".member-log");
    if (!asksFor || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const { attempt, rank } = asksFor.closest(".member").dataset;
    show(attempt, rank);
    card.scrollIntoView();
    text.focus({ preventScroll: true });
  });

  function show(attempt, rank) {
    LogChoice.choose(attempt, rank);
    followed.checked = true;
    look();
  }

  document.body.addEventListener("taiji:log", () => {
    if (document.getElementById("live").hasAttribute("hx-get")) until = Date.now() + AFTER_MS;
    if (Date.now() < until) look();
  });
  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.target.closest("#live")) look();
  });

  const unfollow = () => (followed.checked = false);
  LogSearch.begin({ card, text, words, fill, size, go, point: view.point, shown: () => shown, unfollow });

  // What the address names: a member's log, or a line of it.
  const wanted = new URLSearchParams(location.search);
  if (wanted.has("at") && /^\d{1,15}$/.test(wanted.get("at"))) {
    LogChoice.choose(wanted.get("attempt") || "", wanted.get("rank") || "0");
    const one = LogChoice.chosen();
    if (one && !one.removed) {
      shown = one;
      end = Number(one.bytes);
      go(Number(wanted.get("at")));
    } else look();
  } else if (wanted.has("attempt")) show(wanted.get("attempt"), wanted.get("rank") || "0");
  else look();

})();
