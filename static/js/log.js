// The log of a task: a window of whole lines on a file that may be huge, followed while it grows.
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
  const MOST_LINES = 10000; // on the page; those at the far end make room
  const MOST_BYTES = 4 * 1024 * 1024;
  const AFTER_MS = 60000; // a log may grow for a moment after its task is over
  const NEAR = 300; // pixels from an edge at which more is asked for

  let shown = null; // whose log is on the page
  let low = 0; // the window: the first byte of its first line …
  let high = 0; // … and the next byte to ask for
  let rest = new Uint8Array(); // the last line while it is not ended
  let end = 0; // of the log, as last heard
  let busy = false;
  let asked = false; // something was written while it was being read
  let turn = 0; // answers of an earlier choice are thrown away
  let until = Date.now() + AFTER_MS;
  let here = null; // the line that is linked or found
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
    low = high = from;
    rest = new Uint8Array();
    here = null;
    text.replaceChildren();
    say("");
    download.href = `${words.url}?attempt=${one.attempt}&rank=${one.rank}&offset=0&download=1`;
    card.dataset.topic = `log.${one.gang}`;
    document.dispatchEvent(new CustomEvent("taiji:topics"));
    document.dispatchEvent(new CustomEvent("taiji:member", { detail: one }));
  }

  // The window

  const stands = () => text.scrollHeight - text.scrollTop - text.clientHeight;

  function chunk(lines, before) {
    const part = document.createElement("div");
    let level = before;
    for (const line of lines) {
      const node = LogText.element(line, level);
      level = LogText.levelOf(node);
      part.append(node);
    }
    part.lines = lines.length;
    part.from = lines.length ? lines[0].at : low;
    return part;
  }

  function levelBefore(node) {
    return node && node.lastChild ? LogText.levelOf(node.lastChild) : "other";
  }

  function append(bytes, from) {
    const joined = new Uint8Array(rest.length + bytes.length);
    joined.set(rest);
    joined.set(bytes, rest.length);
    const cut = LogText.lines(joined, from - rest.length);
    if (text.lastChild && text.lastChild.open) text.lastChild.remove();
    // Of what comes faster than it can be shown only the last lines are.
    const dropped = followed.checked ? Math.max(0, cut.lines.length - MOST_LINES) : 0;
    if (dropped) text.replaceChildren();
    const lines = dropped ? cut.lines.slice(dropped) : cut.lines;
    if (!text.firstChild && lines.length) low = lines[0].at;
    if (lines.length) text.append(chunk(lines, levelBefore(text.lastChild)));
    rest = cut.rest.slice();
    if (rest.length) {
      if (!text.firstChild) low = cut.restAt;
      const open = chunk([{ at: cut.restAt, bytes: rest, cut: false }], levelBefore(text.lastChild));
      open.open = true;
      text.append(open);
    }
    high = from + bytes.length;
    shorten("firstChild");
    if (followed.checked) text.scrollTop = text.scrollHeight;
  }

  // Put lines before the window and keep what is seen where it is.
  function prepend(bytes, from) {
    const cut = LogText.lines(bytes, from);
    if (cut.rest.length) cut.lines.push({ at: cut.restAt, bytes: cut.rest, cut: true });
    const height = text.scrollHeight;
    const top = text.scrollTop;
    text.prepend(chunk(cut.lines, "other"));
    low = from;
    text.scrollTop = top + text.scrollHeight - height;
    shorten("lastChild");
  }

  function shorten(side) {
    let lines = 0;
    for (const part of text.children) lines += part.lines;
    while ((lines > MOST_LINES || high - low > MOST_BYTES) && text.children.length > 1) {
      const gone = text[side];
      lines -= gone.lines;
      gone.remove();
      if (side === "firstChild") {
        low = text.firstChild.from;
      } else {
        high = gone.from;
        rest = new Uint8Array();
        followed.checked = false;
      }
    }
  }

  // Reading

  async function ask(from, limit) {
    const answer = await fetch(address(shown, from, limit), { credentials: "same-origin" });
    if (!answer.ok) throw new Error(String(answer.status));
    const bytes = new Uint8Array(await answer.arrayBuffer());
    return { bytes, end: Number(answer.headers.get("X-Log-End")), date: answer.headers.get("Date") };
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
    } catch {
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
        const from = high;
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
        if (bytes.length) append(bytes, at);
        high = from + answer.bytes.length;
        if (!answer.bytes.length) high = Math.min(from, end); // it was shorter than thought
        if (high >= end || !(followed.checked || stands() < NEAR)) break;
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
    text.replaceChildren();
    rest = new Uint8Array();
    here = null;
    low = high = from;
    if (sentence) say(sentence);
  }

  function backward() {
    if (low === 0 || !text.firstChild) return undefined;
    return once(async (current) => {
      const from = Math.max(0, low - TAIL);
      const answer = await ask(from, low - from);
      if (!current() || !answer.bytes.length) return;
      const [bytes, at] = from > 0 ? wholeLines(answer.bytes, from) : [answer.bytes, from];
      prepend(bytes, at);
    });
  }

  // Show the line that begins at a byte, with what stands around it.
  async function go(at) {
    const known = lineAt(at);
    followed.checked = false;
    if (known) {
      point(known);
      return;
    }
    begin(shown, Math.max(0, at - TAIL / 4));
    aim = at;
    await forward();
    aim = -1;
    const found = lineAt(at);
    if (found) point(found);
  }

  // The line that holds a byte, if it is on the page.
  function lineAt(at) {
    if (at < low || at >= high) return null;
    let found = null;
    for (const part of text.children) {
      if (!(part.from <= at)) break;
      for (const node of part.children) if (Number(node.dataset.at) <= at) found = node;
    }
    return found;
  }

  function point(node, scroll = true) {
    if (here) here.classList.remove("log-here");
    here = node;
    node.classList.add("log-here");
    if (scroll) {
      const box = node.getBoundingClientRect();
      const around = text.getBoundingClientRect();
      text.scrollTop += box.top - around.top - text.clientHeight / 3;
    }
  }

  // The page around it

  function buttons() {
    earlier.hidden = low === 0;
    later.hidden = high >= end && followed.checked;
    later.textContent = high < end ? `${later.dataset.word} · ${fill(words.more, size(end - high))}` : later.dataset.word;
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
    else if (followed.checked || !same || stands() < NEAR) forward();
    else peek();
  }

  // Only hear where the log ends by now: who reads elsewhere is not disturbed.
  function peek() {
    return once(async (current) => {
      const answer = await ask(Math.max(high, end), 1);
      if (current()) end = Math.max(end, answer.end);
    });
  }

  function newest() {
    followed.checked = true;
    say("");
    if (end - high > TAIL) jump(Math.max(0, end - TAIL), "");
    text.scrollTop = text.scrollHeight;
    forward();
  }

  function visibleLine() {
    const top = text.getBoundingClientRect().top + 2;
    return [...text.querySelectorAll(".log-line")].find((node) => node.getBoundingClientRect().bottom > top);
  }

  function linkTo(node) {
    point(node, false);
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
    const node = here || visibleLine();
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
      if (followed.checked && text.scrollTop < lastTop && stands() > 100) followed.checked = false;
      lastTop = text.scrollTop;
      buttons();
      if (text.scrollTop < NEAR && low > 0 && !followed.checked && !busy) backward();
      else if (stands() < NEAR && high < end && !busy) forward();
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
  LogSearch.begin({ card, text, words, fill, size, go, point, shown: () => shown, unfollow });

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
