// The log of a task: read in pieces from the API, shown as text, followed while it grows.
(() => {
  const card = document.getElementById("log");
  const text = document.getElementById("log-text");
  const choice = document.getElementById("log-of");
  const followed = document.getElementById("log-follow");
  const earlier = document.getElementById("log-earlier");
  const raw = document.getElementById("log-raw");

  const TAIL = 128 * 1024; // bytes shown at first, and more with each "earlier"
  const MOST_LINES = 20000; // the oldest make room
  const MOST_SIGNS = 8 * 1024 * 1024; // the same, where lines are long
  const LONG_LINE = 64 * 1024; // signs; a longer one is added piece by piece
  const PERIOD_MS = 3000; // without news this often is looked
  const AFTER_MS = 30000;
  const COLOURS = /\u001b\[[0-9;?]*[A-Za-z]|\u001b\][^\u0007]*\u0007/g;

  let shown = null; // whose log is on the page
  let offset = 0; // the next byte to read
  let first = 0; // the first byte that is shown
  let decoder = null;
  let rest = ""; // the last line, while it is not ended
  let busy = false;
  let asked = false; // something was written while it was being read
  let until = 0; // a log may grow for a moment after its task is over
  let turn = 0; // answers of an earlier choice are thrown away
  let onlyTail = true; // of a log that is longer than the page knew, the end is shown at first

  function members() {
    return [...document.querySelectorAll("#attempts .member")].map((row) => ({
      key: `${row.dataset.attempt}:${row.dataset.rank}`,
      attempt: row.dataset.attempt,
      rank: row.dataset.rank,
      gang: row.dataset.gang,
      bytes: Number(row.dataset.bytes),
      name: row.dataset.name,
      removed: row.dataset.removed,
    }));
  }

  function listChoices(found) {
    const wanted = [["", card.dataset.newest], ...found.map((one) => [one.key, one.name])];
    const have = [...choice.options].map((option) => option.value + option.text).join("\n");
    if (have === wanted.map(([value, name]) => value + name).join("\n")) return;
    const chosen = choice.value;
    choice.replaceChildren(...wanted.map(([value, name]) => new Option(name, value)));
    choice.value = wanted.some(([value]) => value === chosen) ? chosen : "";
  }

  function address(one, from) {
    return `${card.dataset.url}?attempt=${one.attempt}&rank=${one.rank}&offset=${from}`;
  }

  function begin(one, from) {
    turn += 1;
    busy = false;
    shown = one;
    first = offset = from;
    decoder = new TextDecoder();
    rest = "";
    text.replaceChildren();
    earlier.hidden = from === 0;
    raw.href = address(one, 0);
    card.dataset.topic = `log.${one.gang}`;
    document.dispatchEvent(new CustomEvent("taiji:topics"));
  }

  // What a terminal would show of a line: colours gone, and of a progress bar its last state.
  function plain(line) {
    const clean = line.replace(COLOURS, "").replace(/\r+$/, "");
    return clean.slice(clean.lastIndexOf("\r") + 1);
  }

  function add(piece) {
    const stays = text.scrollHeight - text.scrollTop - text.clientHeight > 40;
    const lines = (rest + piece).split("\n");
    rest = lines.pop();
    // Of a progress bar only the last state matters; its last sign may be half of a line's end.
    rest = rest.slice(rest.lastIndexOf("\r", rest.length - 2) + 1);
    if (text.lastChild && text.lastChild.open) text.lastChild.remove();
    if (lines.length) append(lines.map((line) => plain(line) + "\n").join(""), lines.length);
    if (rest.length > LONG_LINE) {
      append(plain(rest), 0);
      rest = "";
    }
    if (rest) append(plain(rest), 0).open = true;
    cut();
    if (followed.checked && !stays) text.scrollTop = text.scrollHeight;
  }

  function append(content, lines) {
    const node = document.createTextNode(content);
    node.lines = lines;
    text.append(node);
    return node;
  }

  function cut() {
    let lines = 0;
    let signs = 0;
    for (const node of text.childNodes) {
      lines += node.lines || 0;
      signs += node.length || 0;
    }
    while ((lines > MOST_LINES || signs > MOST_SIGNS) && text.childNodes.length > 1) {
      lines -= text.firstChild.lines || 0;
      signs -= text.firstChild.length || 0;
      text.firstChild.remove();
      earlier.hidden = true; // what was cut stands in the raw log
    }
  }

  async function read() {
    if (busy) asked = true;
    if (!shown || busy) return;
    busy = true;
    asked = false;
    const mine = turn;
    try {
      const answer = await fetch(address(shown, offset), { credentials: "same-origin" });
      if (mine !== turn) return;
      if (!answer.ok) throw new Error(String(answer.status));
      const end = Number(answer.headers.get("X-Log-End"));
      if (onlyTail && offset === first && end - offset > 4 * TAIL) {
        answer.body.cancel();
        begin(shown, end - TAIL);
        read();
        return;
      }
      await take(answer, mine);
      text.classList.remove("log-away");
    } catch {
      if (mine !== turn) return;
      text.classList.add("log-away");
      if (!offset) text.textContent = card.dataset.failed;
    } finally {
      if (mine === turn) {
        busy = false;
        if (asked) read();
      }
    }
  }

  async function take(answer, mine) {
    if (!offset || offset === first) text.replaceChildren();
    const reader = answer.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (mine !== turn) return reader.cancel();
      if (done) break;
      let piece = decoder.decode(value, { stream: true });
      // A log that is entered in its middle begins with its first whole line.
      if (offset === first && first > 0) piece = piece.slice(piece.indexOf("\n") + 1);
      offset += value.length;
      add(piece);
    }
    if (!text.hasChildNodes()) text.textContent = card.dataset.none;
  }

  function look() {
    const found = members();
    listChoices(found);
    const one = found.find((other) => other.key === choice.value) || found.find((other) => other.rank === "0");
    if (!one) {
      text.textContent = card.dataset.none;
      return;
    }
    if (!shown || shown.key !== one.key) {
      onlyTail = true;
      begin(one, Math.max(0, one.bytes - TAIL));
    }
    if (one.removed) text.textContent = one.removed;
    else if (followed.checked || offset === first) read();
  }

  choice.addEventListener("change", look);
  followed.addEventListener("change", () => {
    if (!followed.checked) return;
    text.scrollTop = text.scrollHeight;
    look();
  });
  earlier.addEventListener("click", () => {
    followed.checked = false;
    onlyTail = false;
    begin(shown, Math.max(0, first - TAIL * 8));
    read();
  });
  document.body.addEventListener("taiji:log", look);
  document.addEventListener("htmx:afterSettle", look);
  setInterval(() => {
    if (document.getElementById("live").hasAttribute("hx-get")) until = Date.now() + AFTER_MS;
    if (Date.now() < until) look();
  }, PERIOD_MS);
  look();
})();
