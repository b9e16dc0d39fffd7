// The map of all cards: one canvas for each region and GPU type, a block for each host. What it shows stands in the
// table below it too.
(() => {
  const map = document.getElementById("map");
  const said = document.getElementById("map-said");
  const groups = document.getElementById("map-groups");
  const drawer = document.getElementById("drawer");
  const words = map.dataset;

  const CELL = 10; // pixels of a card, its gap included
  const GAP = 8; // between two hosts
  const TWO_ROWS = 4; // a host with more cards than this has two rows of them, or more
  const LONGEST_ROW = 8;
  const AGAIN_MS = 5000; // at most so often the map is read anew
  const COLOURS = {
    f: "--map-free", h: "--map-high", e: "--map-elastic", u: "--map-high", k: "--map-held", r: "--map-reserved",
    b: "--map-broken", o: "--map-outside", a: "--map-away",
  };

  const fill = (sentence, ...values) => sentence.replace(/\{(\d)\}/g, (_all, place) => values[place]);
  const states = Object.fromEntries([...map.querySelectorAll("[data-state]")].map((each) => [each.dataset.state, each.textContent]));
  const letters = Object.fromEntries(
    [...map.querySelectorAll(".map-sample")].map((each) => [each.dataset.letter, each.nextElementSibling.textContent]),
  );
  let palette = {};
  let shown = []; // the groups as they are drawn: data, canvas, places of the hosts, the chosen one

  // Two cards that are used differently differ by more than their colour.
  const MARKS = {
    e: (pen, x, y, size) => pen.fillRect(x + size / 2 - 0.75, y, 1.5, size),
    k: (pen, x, y, size) => pen.fillRect(x + size / 4, y + size / 4, size / 2, size / 2),
    r: (pen, x, y, size) => pen.fillRect(x, y + size / 2 - 0.75, size, 1.5),
    b: (pen, x, y, size) => {
      pen.beginPath();
      pen.moveTo(x + 1, y + 1);
      pen.lineTo(x + size - 1, y + size - 1);
      pen.moveTo(x + size - 1, y + 1);
      pen.lineTo(x + 1, y + size - 1);
      pen.stroke();
    },
    o: (pen, x, y, size) => pen.fillRect(x + size / 2 - 1, y + size / 2 - 1, 2, 2),
  };

  function readPalette() {
    const names = [...Object.values(COLOURS), "--map-mark", "--map-edge", "--map-chosen"];
    palette = Object.fromEntries(names.map((name) => [name, Drawing.colour(name)]));
  }

  function card(pen, letter, x, y, size) {
    pen.fillStyle = palette[COLOURS[letter]];
    pen.fillRect(x, y, size, size);
    if (!MARKS[letter]) return;
    pen.fillStyle = palette["--map-mark"];
    pen.strokeStyle = palette["--map-mark"];
    MARKS[letter](pen, x, y, size);
  }

  const rowLength = (cards) => (cards <= TWO_ROWS ? cards : Math.min(LONGEST_ROW, Math.ceil(cards / 2)));

  // Where each host stands: [x, y, width, height], and how high all of it is.
  function arrange(hosts, width) {
    const places = [];
    let [x, y, high] = [GAP / 2, GAP / 2, 0];
    for (const [, , , cells] of hosts) {
      const length = rowLength(cells.length);
      const [wide, tall] = [length * CELL, Math.ceil(cells.length / length) * CELL];
      if (x > GAP && x + wide > width) [x, y, high] = [GAP / 2, y + high + GAP, 0];
      places.push([x, y, wide, tall]);
      high = Math.max(high, tall);
      x += wide + GAP;
    }
    return { places, height: y + high + GAP };
  }

  function draw(group) {
    const { canvas, hosts } = group;
    const width = groups.clientWidth;
    const { places, height } = arrange(hosts, width);
    const ratio = window.devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    group.places = places;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    hosts.forEach((host, index) => block(pen, host, places[index], index === group.chosen));
  }

  function block(pen, [, , state, cells], [x, y, wide, tall], chosen) {
    const length = rowLength(cells.length);
    [...cells].forEach((letter, index) => {
      card(pen, letter, x + (index % length) * CELL, y + Math.floor(index / length) * CELL, CELL - 1);
    });
    if (state !== "ready" || chosen) {
      pen.strokeStyle = palette[chosen ? "--map-chosen" : "--map-edge"];
      pen.lineWidth = chosen ? 2 : 1;
      pen.setLineDash(chosen ? [] : [2, 2]);
      pen.strokeRect(x - 2, y - 2, wide + 3, tall + 3);
      pen.setLineDash([]);
      pen.lineWidth = 1;
    }
  }

  function sentence([, name, state, cells]) {
    const counts = new Map();
    for (const letter of cells) counts.set(letter, (counts.get(letter) || 0) + 1);
    const parts = [...counts].map(([letter, number]) => `${letters[letter]} ${number}`);
    return `${name} · ${states[state] || state} · ${parts.join(", ")}`;
  }

  function choose(group, index) {
    for (const other of shown) {
      if (other === group || other.chosen === -1) continue;
      other.chosen = -1;
      draw(other);
    }
    if (group.chosen === index) return;
    group.chosen = index;
    draw(group);
    said.textContent = index < 0 ? "" : sentence(group.hosts[index]);
  }

  function at(group, event) {
    const { left, top } = group.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    return group.places.findIndex(([px, py, wide, tall]) => x >= px && x < px + wide && y >= py && y < py + tall);
  }

  // The host above or below is the one of the next line that stands nearest.
  function beside(group, step) {
    const [x, y] = group.places[group.chosen];
    const others = group.places.map((place, index) => ({ index, place })).filter(({ place }) => (place[1] - y) * step > 0);
    if (!others.length) return group.chosen;
    const line = step > 0 ? Math.min(...others.map(({ place }) => place[1])) : Math.max(...others.map(({ place }) => place[1]));
    const inLine = others.filter(({ place }) => place[1] === line);
    return inLine.sort((one, other) => Math.abs(one.place[0] - x) - Math.abs(other.place[0] - x))[0].index;
  }

  function steer(group, event) {
    const last = group.hosts.length - 1;
    const now = Math.max(0, group.chosen);
    const ways = {
      ArrowRight: () => (group.chosen < 0 ? 0 : Math.min(last, now + 1)), ArrowLeft: () => Math.max(0, now - 1),
      ArrowDown: () => (group.chosen < 0 ? 0 : beside(group, 1)), ArrowUp: () => (group.chosen < 0 ? 0 : beside(group, -1)),
      Home: () => 0, End: () => last,
    };
    if (ways[event.key]) choose(group, ways[event.key]());
    else if (event.key === "Enter" && group.chosen >= 0) open(group.hosts[group.chosen][0]);
    else return;
    event.preventDefault();
  }

  async function open(host) {
    const address = words.page.replace("/0/", `/${host}/`);
    try {
      const parts = await Platform.get(address, (bytes) => new TextDecoder().decode(bytes));
      const page = new DOMParser().parseFromString(parts, "text/html");
      document.getElementById("drawer-body").replaceChildren(page.getElementById("host"));
      htmx.process(document.getElementById("drawer-body"));
      if (!drawer.open) drawer.showModal();
      drawer.scrollTop = 0;
      document.dispatchEvent(new CustomEvent("taiji:host-shown"));
    } catch (error) {
      if (!(error instanceof Platform.Away)) throw error;
      location.assign(address);
    }
  }

  function listen(group) {
    const { canvas } = group;
    canvas.addEventListener("pointermove", (event) => choose(group, at(group, event)));
    canvas.addEventListener("click", (event) => {
      const index = at(group, event);
      if (index >= 0) open(group.hosts[index][0]);
    });
    canvas.addEventListener("keydown", (event) => steer(group, event));
  }

  function make({ region, type, hosts }) {
    const head = document.createElement("h3");
    head.className = "map-head";
    head.textContent = `${region} · ${type}`;
    const canvas = document.createElement("canvas");
    canvas.className = "map-canvas";
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-label", fill(words.keys, `${region}, ${type}`));
    groups.append(head, canvas);
    const group = { name: `${region} ${type}`, hosts, canvas, chosen: -1, places: [] };
    listen(group);
    return group;
  }

  // Whoever looks at a host goes on looking at it when the map is read anew.
  function show(found) {
    const same = found.length === shown.length && found.every((each, index) => `${each.region} ${each.type}` === shown[index].name);
    if (same) {
      found.forEach((each, index) => {
        shown[index].hosts = each.hosts;
        if (shown[index].chosen >= each.hosts.length) shown[index].chosen = -1;
      });
    } else {
      groups.replaceChildren();
      shown = found.map(make);
    }
    if (!found.length) groups.textContent = words.empty;
    shown.forEach(draw);
  }

  function samples() {
    for (const canvas of map.querySelectorAll(".map-sample")) {
      const pen = canvas.getContext("2d");
      pen.setTransform(2, 0, 0, 2, 0, 0);
      pen.clearRect(0, 0, 12, 12);
      card(pen, canvas.dataset.letter, 1, 1, CELL);
    }
  }

  let readAt = -AGAIN_MS;
  let due = 0;

  // What stands below the map is read anew when the map was, and no more often.
  async function readAgain() {
    await read();
    htmx.trigger(document.body, "taiji:map");
  }

  async function read() {
    due = 0;
    readAt = performance.now();
    try {
      const answer = await Platform.get(words.url, Platform.json);
      const came = performance.now();
      show(answer.groups);
      map.dataset.answerMs = (came - readAt).toFixed(1);
      map.dataset.drawMs = (performance.now() - came).toFixed(1);
      map.dataset.cards = shown.reduce((sum, { hosts }) => sum + hosts.reduce((cards, host) => cards + host[3].length, 0), 0);
      if (said.textContent === words.failed) said.textContent = "";
    } catch (error) {
      if (!(error instanceof Platform.Away)) throw error;
      said.textContent = words.failed;
    }
  }

  function again() {
    if (due) return;
    due = setTimeout(readAgain, Math.max(0, readAt + AGAIN_MS - performance.now()));
  }

  function repaint() {
    readPalette();
    samples();
    shown.forEach(draw);
  }

  readPalette();
  samples();
  read();
  document.body.addEventListener("taiji:cards", again);
  Drawing.onTheme(repaint);
  let width = groups.clientWidth;
  new ResizeObserver(() => {
    if (groups.clientWidth === width) return;
    width = groups.clientWidth;
    shown.forEach(draw);
  }).observe(groups);
})();
