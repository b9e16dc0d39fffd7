// The use of each card of a host in the last hours: on its page, and in the drawer beside the map.
(() => {
  const PERIOD_MS = 60000; // figures come by the minute
  const HEIGHT = 120;
  const GIB = 1024; // MiB
  const drawn = new WeakMap(); // section → the figures it shows

  const number = new Intl.NumberFormat(document.documentElement.lang, { maximumFractionDigits: 1 });
  const fill = (sentence, ...values) => sentence.replace(/\{(\d)\}/g, (_all, place) => values[place]);
  const known = (value) => (value === null || value === undefined ? "–" : number.format(value));
  const newest = (card) => card.use.findLastIndex((value, place) => value !== null || card.memory[place] !== null);

  function summary(words, card) {
    const last = newest(card);
    const used = card.memory[last];
    const text = fill(
      words.summary, card.index, known(card.use[last]), known(used === null ? null : used / GIB),
      known(card.memory_mib ? card.memory_mib / GIB : null),
    );
    return card.xids.length ? `${text} · ${fill(words.faults, card.xids.join(", "))}` : text;
  }

  function options(section, width) {
    const axis = Drawing.axis(section);
    const clock = Drawing.clock(section.dataset.zone);
    return {
      width,
      height: HEIGHT,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), section.dataset.zone),
      scales: { y: { range: [0, 100] } },
      axes: [
        { ...axis, values: (_plot, ticks) => ticks.map((tick) => clock.format(tick * 1000)) },
        { ...axis, size: 54, values: (_plot, ticks) => ticks.map((tick) => `${tick}%`) },
      ],
      series: [{}, Drawing.line(Drawing.colour("--taiji-use")), Drawing.line(Drawing.colour("--taiji-memory"))],
      legend: { show: false },
      cursor: { show: false },
    };
  }

  function draw(section, list, at, card) {
    const figure = document.createElement("figure");
    const caption = document.createElement("figcaption");
    const canvas = document.createElement("div");
    caption.textContent = summary(section.dataset, card);
    canvas.setAttribute("aria-hidden", "true"); // the caption says it
    figure.append(caption, canvas);
    list.append(figure);
    const share = card.memory.map((used) => (used === null || !card.memory_mib ? null : (100 * used) / card.memory_mib));
    new uPlot(options(section, canvas.clientWidth), [at, card.use, share], canvas);
  }

  function drawAll(section, { at, cards }) {
    const said = section.querySelector(".host-charts-said");
    const list = section.querySelector(".charts");
    const some = cards.filter((card) => newest(card) >= 0);
    list.replaceChildren();
    said.textContent = some.length ? "" : section.dataset.none;
    for (const card of some) draw(section, list, at, card);
  }

  async function read(section) {
    try {
      const found = await Platform.get(section.dataset.url, Platform.json);
      drawn.set(section, found);
      drawAll(section, found);
    } catch (error) {
      if (!(error instanceof Platform.Away)) throw error;
      section.querySelector(".host-charts-said").textContent = section.dataset.failed;
    }
  }

  const sections = () => document.querySelectorAll(".host-charts");

  function readNew() {
    for (const section of sections()) {
      section.hidden = false;
      if (!drawn.has(section)) read(section);
    }
  }

  readNew();
  document.addEventListener("taiji:host-shown", readNew);
  setInterval(() => {
    if (!document.hidden) sections().forEach(read);
  }, PERIOD_MS);
  Drawing.onTheme(() => {
    for (const section of sections()) if (drawn.has(section)) drawAll(section, drawn.get(section));
  });
})();
