// Search in a log: among the lines that are loaded while one types, and in the whole file on the server.
// eslint-disable-next-line no-unused-vars -- log.js begins it
const LogSearch = (() => {
  const PAUSE_MS = 150;
  const MOST_HITS = 500; // of one search of the whole log on the page
  const MARK = "log-words";

  function begin({ card, text, words, fill, size, go, point, shown, unfollow }) {
    const form = document.getElementById("log-search");
    const field = document.getElementById("log-words");
    const previous = document.getElementById("log-previous");
    const whole = document.getElementById("log-whole");
    const count = document.getElementById("log-count");
    const hits = document.getElementById("log-hits");
    let place = -1;
    let at = null; // line of that place
    let pause = 0;
    let later = 0;
    let isWhole = false; // what is counted is what the server found
    let turn = 0;
    let whose = ""; // log is looked at

    const needle = () => field.value.toLowerCase();

    function found() {
      if (!needle()) return [];
      const lines = [...text.querySelectorAll(".log-line")];
      return lines.filter((node) => node.offsetParent !== null && node.textContent.toLowerCase().includes(needle()));
    }

    // The browser marks the words itself: the lines stay as they are.
    function mark(lines) {
      if (!("highlights" in CSS)) return;
      const ranges = [];
      for (const line of lines) {
        const walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
        while (walker.nextNode()) {
          const said = walker.currentNode.data.toLowerCase();
          for (let at = said.indexOf(needle()); at >= 0; at = said.indexOf(needle(), at + needle().length)) {
            const range = new Range();
            range.setStart(walker.currentNode, at);
            range.setEnd(walker.currentNode, Math.min(at + needle().length, walker.currentNode.length));
            ranges.push(range);
          }
        }
      }
      CSS.highlights.set(MARK, new Highlight(...ranges));
    }

    function tally(lines) {
      if (!needle()) count.textContent = "";
      else if (!lines.length) count.textContent = words.foundNoneHere;
      else if (place < 0) count.textContent = fill(words.found, lines.length);
      else count.textContent = fill(words.counted, place + 1, lines.length);
    }

    function step(by) {
      clearTimeout(pause); // else what was typed just now would be counted from the first line again
      const lines = found();
      mark(lines);
      if (lines.length) {
        place = place < 0 ? (by > 0 ? 0 : lines.length - 1) : (place + by + lines.length) % lines.length;
        at = lines[place];
        unfollow();
        point(at);
      }
      tally(lines);
    }

    // Lines come and go while one reads: those that came are counted too, and the place stays with its line.
    function recount() {
      later = 0;
      const lines = found();
      place = place < 0 ? -1 : lines.indexOf(at);
      mark(lines);
      tally(lines);
    }

    function typed() {
      place = -1;
      const lines = found();
      mark(lines);
      tally(lines);
    }

    function forget() {
      turn += 1;
      isWhole = false;
      hits.replaceChildren();
      hits.hidden = true;
    }

    function hit({ offset, line }) {
      const item = document.createElement("li");
      const link = document.createElement("a");
      const { attempt, rank } = shown();
      link.href = `?${new URLSearchParams({ attempt, rank, at: offset })}#log`;
      link.textContent = line.slice(0, 300) || " ";
      link.addEventListener("click", (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        unfollow();
        go(offset).then(typed);
      });
      item.append(link);
      return item;
    }

    // The server reads so much at a time; the page asks on until all is searched or enough is found.
    async function searchAll() {
      forget();
      if (!field.value || !shown()) return;
      const mine = turn;
      isWhole = true;
      const { attempt, rank } = shown();
      const query = new URLSearchParams({ q: field.value, attempt, rank });
      let next = 0;
      hits.hidden = false;
      while (next !== null && hits.children.length < MOST_HITS) {
        query.set("offset", next);
        const part = await Platform.get(`${card.dataset.search}?${query}`, Platform.json);
        if (mine !== turn) return;
        hits.append(...part.hits.map(hit));
        next = part.next;
        if (next !== null) count.textContent = fill(words.foundPart, size(next));
      }
      if (next === null) count.textContent = hits.children.length ? words.foundAll : words.foundNone;
      hits.hidden = !hits.children.length;
    }

    form.addEventListener("submit", (event) => {
      event.preventDefault();
      step(1);
    });
    previous.addEventListener("click", () => step(-1));
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !event.shiftKey) return;
      event.preventDefault();
      step(-1);
    });
    field.addEventListener("input", () => {
      clearTimeout(pause);
      pause = setTimeout(typed, PAUSE_MS);
      forget();
    });
    whole.addEventListener("click", async () => {
      try {
        await searchAll();
      } catch (error) {
        if (!(error instanceof Platform.Away)) throw error;
        count.textContent = words.failed;
      }
    });
    new MutationObserver(() => {
      if (needle() && !isWhole) later ||= setTimeout(recount, PAUSE_MS);
    }).observe(text, { childList: true, subtree: true });
    document.addEventListener("taiji:member", ({ detail }) => {
      const member = `${detail.attempt} ${detail.rank}`;
      if (member !== whose) forget(); // what was found lies in another log
      whose = member;
      place = -1;
      typed();
    });
  }

  return { begin };
})();
