// One socket per page: it says what changed, the page then asks for it. Without it the page polls.
(() => {
  const badge = document.querySelector(".live");
  if (!badge) return;

  const QUIET_MS = 45000; // the server says something every 20 s; a socket silent this long is dead
  const CALM_MS = { cards: 1000, tasks: 2000, task: 500, log: 500 }; // at most one event in this time
  const LONGEST_RETRY_MS = 30000;

  let socket = null;
  let listening = "";
  let retryMs = 0;
  let retry = 0;
  let watch = 0;
  const due = {};
  const last = {};

  function topics() {
    const found = new Set();
    for (const element of document.querySelectorAll("[data-topic]")) found.add(element.dataset.topic);
    return [...found].sort();
  }

  function show(live) {
    badge.querySelector(".live-word").textContent = live ? badge.dataset.live : badge.dataset.away;
    badge.title = live ? badge.dataset.hintLive : badge.dataset.hintAway;
    badge.classList.toggle("status-green", live);
    badge.classList.toggle("status-secondary", !live);
    badge.querySelector(".status-dot").classList.toggle("status-dot-animated", live);
    badge.hidden = false;
  }

  // Tell the page, but calmly: the first change at once, those that follow together.
  function tell(kind) {
    if (due[kind]) return;
    const wait = Math.max(0, (last[kind] || 0) + (CALM_MS[kind] || 1000) - Date.now());
    due[kind] = setTimeout(() => {
      due[kind] = 0;
      last[kind] = Date.now();
      document.body.dispatchEvent(new CustomEvent(`taiji:${kind}`));
    }, wait);
  }

  function heard(changed) {
    for (const topic of changed) tell(topic.split(".")[0]);
  }

  function expectNews() {
    clearTimeout(watch);
    watch = setTimeout(() => socket && socket.close(), QUIET_MS);
  }

  function open() {
    clearTimeout(retry);
    const wanted = topics();
    listening = wanted.join(" ");
    if (!wanted.length) return;
    const query = wanted.map((topic) => `topic=${encodeURIComponent(topic)}`).join("&");
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const opened = new WebSocket(`${scheme}://${location.host}/ws/live/?${query}`);
    socket = opened;
    opened.addEventListener("open", () => {
      if (retryMs) heard(wanted); // what changed while it was away is asked for once
      retryMs = 0;
      show(true);
      expectNews();
    });
    opened.addEventListener("message", (event) => {
      expectNews();
      heard(JSON.parse(event.data).changed);
    });
    opened.addEventListener("close", () => {
      if (socket === opened) again();
    });
  }

  function again() {
    clearTimeout(watch);
    show(false);
    socket = null;
    retryMs = Math.min(LONGEST_RETRY_MS, (retryMs || 500) * 2);
    retry = setTimeout(open, retryMs * (0.5 + Math.random() / 2)); // not all pages in the same instant
  }

  // A page that changed may look at other things now: a new attempt has another log.
  function follow() {
    if (topics().join(" ") === listening) return;
    const old = socket;
    socket = null;
    if (old) old.close();
    open();
  }

  // Not before every script of the page has said what it looks at.
  document.addEventListener("DOMContentLoaded", open);
  document.addEventListener("htmx:afterSettle", follow);
  document.addEventListener("taiji:topics", follow);
  window.addEventListener("pagehide", () => {
    const old = socket;
    socket = null;
    if (old) old.close();
  });
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) open();
  });
})();
