// What a process printed, as lines that a page may show: any bytes, no markup, colours as classes.
// eslint-disable-next-line no-unused-vars -- the scripts after this one use it
const LogText = (() => {
  const NEWLINE = 10;
  const RETURN = 13;
  const LONG_LINE = 64 * 1024; // bytes; a longer one is cut into pieces of this length
  const utf8 = new TextDecoder("utf-8", { fatal: true });
  const chinese = new TextDecoder("gb18030", { fatal: true });
  const lenient = new TextDecoder("utf-8");

  // Cut bytes that begin at `base` into lines: {at, bytes, cut}; `rest` is what no line's end was seen of yet.
  function lines(bytes, base) {
    const found = [];
    let from = 0;
    for (;;) {
      let end = bytes.indexOf(NEWLINE, from);
      const open = end < 0;
      if (open) end = bytes.length;
      from = pieces(bytes, base, from, end, found);
      if (open) return { lines: found, rest: bytes.subarray(from), restAt: base + from };
      found.push({ at: base + from, bytes: bytes.subarray(from, end), cut: false });
      from = end + 1;
    }
  }

  // Put away so much of a long line that its remainder is not long any more; of a progress bar only the end counts.
  function pieces(bytes, base, from, end, found) {
    if (end - from <= LONG_LINE) return from;
    const back = bytes.subarray(from, end - 1).lastIndexOf(RETURN);
    if (back >= 0) from += back + 1;
    while (end - from > LONG_LINE) {
      let cut = from + LONG_LINE;
      while (cut > from + LONG_LINE - 4 && (bytes[cut] & 0xc0) === 0x80) cut -= 1; // not inside a sign
      found.push({ at: base + from, bytes: bytes.subarray(from, cut), cut: true });
      from = cut;
    }
    return from;
  }

  // Most logs are UTF-8; a line that is not may be Chinese of older programs, else its odd bytes are marked.
  function text(bytes) {
    for (const decoder of [utf8, chinese]) {
      try {
        return decoder.decode(bytes);
      } catch {
        // the next one
      }
    }
    return lenient.decode(bytes);
  }

  // What a terminal would show of a line with returns in it: its last state.
  function collapsed(line) {
    const clean = line.replace(/\r+$/, "");
    return clean.slice(clean.lastIndexOf("\r") + 1);
  }

  const ESCAPES =
    // colours · other orders to a terminal · titles and links of one · what is left of either
    // eslint-disable-next-line no-control-regex -- they are what is looked for
    /\u001b\[([0-9;]*)m|\u001b\[[0-9;?<=>]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[ -/]*[0-~]/g;
  // eslint-disable-next-line no-control-regex -- control signs get pictures
  const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f]/g;

  function visible(piece) {
    return piece.replace(CONTROLS, (sign) =>
      sign === "\u007f" ? "\u2421" : String.fromCharCode(0x2400 + sign.charCodeAt(0)),
    );
  }

  // Follow one order for colours; only the sixteen named ones are shown, others end a colour.
  function restyle(style, order) {
    const codes = order === "" ? [0] : order.split(";").map(Number);
    for (let place = 0; place < codes.length; place += 1) {
      const code = codes[place];
      if (code === 0) style = { bold: false, colour: "" };
      else if (code === 1) style = { ...style, bold: true };
      else if (code === 22) style = { ...style, bold: false };
      else if (code >= 30 && code <= 37) style = { ...style, colour: `ansi-${code - 30}` };
      else if (code >= 90 && code <= 97) style = { ...style, colour: `ansi-${code - 90}` };
      else if (code === 39) style = { ...style, colour: "" };
      else if (code === 38 || code === 48) {
        place += codes[place + 1] === 5 ? 2 : 4;
        if (code === 38) style = { ...style, colour: "" };
      }
    }
    return style;
  }

  function coloured(line, into) {
    let style = { bold: false, colour: "" };
    let from = 0;
    const add = (piece) => {
      if (!piece) return;
      const names = [style.colour, style.bold ? "ansi-bold" : ""].filter(Boolean).join(" ");
      const node = names ? document.createElement("span") : document.createTextNode("");
      if (names) node.className = names;
      node.textContent = visible(piece);
      into.append(node);
    };
    for (const match of line.matchAll(ESCAPES)) {
      add(line.slice(from, match.index));
      from = match.index + match[0].length;
      if (match[1] !== undefined) style = restyle(style, match[1]);
    }
    add(line.slice(from));
  }

  const LEVELS = [
    ["error", /\b(?:ERROR|FATAL|CRITICAL|SEVERE|PANIC|Traceback|[A-Za-z]*(?:Error|Exception))\b|^[EF]\d{4} /],
    ["warning", /\b(?:WARN|WARNING|[A-Za-z]*Warning)\b|^W\d{4} /],
    ["other", /\b(?:INFO|DEBUG|NOTICE|TRACE)\b|^[ID]\d{4} /],
  ];

  // A line that begins with a space belongs to the one before it, as those of a traceback do.
  function level(line, before) {
    for (const [name, words] of LEVELS) if (words.test(line)) return name;
    return /^\s/.test(line) ? before : "other";
  }

  // The element of one line; `before` is the level of the line before it.
  function element(line, before) {
    const node = document.createElement("span");
    const shown = collapsed(text(line.bytes));
    const plain = shown.length > 2000 ? shown.slice(0, 2000) : shown;
    node.className = `log-line lv-${level(plain, before)}`;
    node.dataset.at = line.at;
    if (shown.includes("\u001b")) coloured(shown, node);
    else node.textContent = visible(shown);
    if (line.cut) node.classList.add("log-cut");
    else node.append("\n");
    return node;
  }

  return { lines, element, levelOf: (node) => /lv-(\w+)/.exec(node.className)[1] };
})();
