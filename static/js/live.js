// One socket per page: it says what changed, the page then asks for it. Without it the page polls.
(() => {
  const badge = document.querySelector(".live");
  if (!badge) return;

  const QUIET_MS = 45000; // the server says something every 20 s; a socket silent this long is dead
  const CALM_MS = { pulse: 50000 }; // at most one event in this time, of other kinds in the next
  const CALM_ELSE_MS = 500;
  const FIRST_RETRY_MS = 1000;
  const LONGEST_RETRY_MS = 30000;
  const SOON = 3; // so many tries are "reconnecting"; after that the page says how old it is
  const POLL_MS = 5000; // without a socket
  const LIVE_POLL_MS = 60000; // with one: a message may be lost between the server and its news

  let socket = null;
  let begun = false;
  let live = false;
  let listening = "";
  let tries = 0;
  let retry = 0;
  let watch = 0;
  let heardAt = 0;
  let asOf = Date.now(); // when the page was last right, by the server's clock
  const due = {};
  const last = {};
  const missed = new Set(); // what changed while nobody looked

  function topics() {
    const found = new Set();
    for (const element of document.querySelectorAll("[data-topic]")) found.add(element.dataset.topic);
    return [...found].sort();
  }

  const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium", timeZone: badge.dataset.zone });

  function show() {
    badge.hidden = !listening; // a page that looks at nothing needs no news, and so promises none
    if (!listening) return;
    const words = badge.dataset;
    const stale = !live && tries >= SOON;
    const [word, hint] = live
      ? [words.live, words.hintLive]
      : stale
        ? [words.asOf, words.hintAsOf]
        : [words.away, words.hintAway];
    const [said, time] = [badge.querySelector(".live-word"), badge.querySelector(".live-time")];
    if (said.textContent !== word) said.textContent = word; // it is read aloud when it changes
    time.textContent = stale ? clock.format(asOf) : "";
    time.hidden = !stale;
    badge.title = hint;
    badge.classList.toggle("status-green", live);
    badge.classList.toggle("status-yellow", stale);
    badge.classList.toggle("status-secondary", !live && !stale);
    badge.querySelector(".status-dot").classList.toggle("status-dot-animated", live);
  }

  // Tell the page, but calmly: the first change at once, those that follow together. Where many pages hear the
  // same, the server says over how long they are to spread their questions.
  function tell(kind, spreadMs) {
    if (document.hidden) missed.add(kind);
    if (due[kind] || document.hidden) return;
    const calm = (last[kind] || 0) + (CALM_MS[kind] || CALM_ELSE_MS) - Date.now();
    due[kind] = setTimeout(
      () => {
        due[kind] = 0;
        if (document.hidden) { // it went into the background meanwhile
          missed.add(kind);
          return;
        }
        last[kind] = Date.now();
        document.body.dispatchEvent(new CustomEvent(`taiji:${kind}`));
      },
      Math.max(0, calm) + Math.random() * spreadMs,
    );
  }

  function heard(changed, spreadMs) {
    const kinds = {};
    for (const topic of changed) {
      const [kind] = topic.split(".");
      kinds[kind] = Math.max(kinds[kind] || 0, spreadMs[topic] || 0);
    }
    for (const kind in kinds) tell(kind, kinds[kind]);
  }

  function expectNews() {
    heardAt = Date.now();
    clearTimeout(watch);
    watch = setTimeout(again, QUIET_MS);
  }

  function open() {
    clearTimeout(retry);
    leave();
    const wanted = topics();
    listening = wanted.join(" ");
    if (!wanted.length) {
      live = false;
      show();
      return;
    }
    const query = wanted.map((topic) => `topic=${encodeURIComponent(topic)}`).join("&");
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const opened = new WebSocket(`${scheme}://${location.host}/ws/live/?${query}`);
    socket = opened;
    expectNews(); // a socket that is neither opened nor refused is dead as well
    opened.addEventListener("message", (event) => {
      if (socket !== opened) return;
      expectNews();
      live = true;
      tries = 0;
      show();
      const message = JSON.parse(event.data);
      heard(message.changed, message.spread_ms);
    });
    opened.addEventListener("close", () => {
      if (socket === opened) again();
    });
  }

  // A socket that is left says nothing any more: on a dead network its end may be minutes away.
  function leave() {
    clearTimeout(watch);
    const old = socket;
    socket = null;
    if (old) old.close();
  }

  function again() {
    leave();
    live = false;
    tries += 1;
    show();
    const longest = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(tries - 1, 10));
    clearTimeout(retry);
    retry = setTimeout(open, longest * (0.5 + Math.random() / 2)); // not all pages in the same instant
  }

  // A page that changed may look at other things now: a new attempt has another log.
  function follow() {
    if (begun && topics().join(" ") !== listening) open();
  }

  // Whoever comes back to a page wants it right: what was missed is asked for, and a socket that slept is replaced.
  function wake() {
    if (document.hidden) return;
    if (!live || Date.now() - heardAt > QUIET_MS) open();
    for (const kind of missed) tell(kind, 0);
    missed.clear();
  }

  function poll() {
    const wait = (live ? LIVE_POLL_MS : POLL_MS) * (0.8 + 0.4 * Math.random());
    setTimeout(() => {
      heard([...topics(), "pulse"], {}); // of the scheduler's pulse no socket speaks
      poll();
    }, wait);
  }

  function fresh(date) {
    asOf = Date.parse(date) || Date.now();
    if (!live) show();
  }

  // Not before every script of the page has said what it looks at.
  document.addEventListener("DOMContentLoaded", () => {
    begun = true;
    open();
    poll();
  });
  document.addEventListener("htmx:afterSettle", follow);
  document.addEventListener("taiji:topics", follow);
  document.addEventListener("htmx:afterOnLoad", (event) => fresh(event.detail.xhr.getResponseHeader("Date")));
  document.addEventListener("taiji:fresh", (event) => fresh(event.detail));
  document.addEventListener("visibilitychange", wake);
  window.addEventListener("online", wake);
  window.addEventListener("pagehide", () => {
    leave();
    live = false;
  });
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) wake();
  });
})();
