// The window on a log: whole lines of a stretch of bytes that grows at both ends, and at the far end makes room.
const LogWindow = (() => {
  const MOST_LINES = 10000; // on the page
  const MOST_BYTES = 4 * 1024 * 1024;

  // `text` is where the lines are put, `followed` the box that says whether its end is to stay in sight.
  function open(text, followed) {
    const view = { low: 0, high: 0 }; // the first byte of the first line, and the next byte to ask for
    let rest = new Uint8Array(); // the last line while it is not ended
    let here = null; // the line that is linked or found

    // Begin anew at a byte, with nothing shown.
    function clear(from) {
      text.replaceChildren();
      rest = new Uint8Array();
      here = null;
      view.low = view.high = from;
    }

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
      part.from = lines.length ? lines[0].at : view.low;
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
      if (!text.firstChild && lines.length) view.low = lines[0].at;
      if (lines.length) text.append(chunk(lines, levelBefore(text.lastChild)));
      rest = cut.rest.slice();
      if (rest.length) {
        if (!text.firstChild) view.low = cut.restAt;
        const open = chunk([{ at: cut.restAt, bytes: rest, cut: false }], levelBefore(text.lastChild));
        open.open = true;
        text.append(open);
      }
      view.high = from + bytes.length;
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
      view.low = from;
      text.scrollTop = top + text.scrollHeight - height;
      shorten("lastChild");
    }

    function shorten(side) {
      let lines = 0;
      for (const part of text.children) lines += part.lines;
      while ((lines > MOST_LINES || view.high - view.low > MOST_BYTES) && text.children.length > 1) {
        const gone = text[side];
        lines -= gone.lines;
        gone.remove();
        if (side === "firstChild") {
          view.low = text.firstChild.from;
        } else {
          view.high = gone.from;
          rest = new Uint8Array();
          followed.checked = false;
        }
      }
    }

    // The line that holds a byte, if it is on the page.
    function lineAt(at) {
      if (at < view.low || at >= view.high) return null;
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

    function visibleLine() {
      const top = text.getBoundingClientRect().top + 2;
      return [...text.querySelectorAll(".log-line")].find((node) => node.getBoundingClientRect().bottom > top);
    }

    const pointed = () => here;
    return Object.assign(view, { append, clear, lineAt, point, pointed, prepend, stands, visibleLine });
  }

  return { open };
})();
