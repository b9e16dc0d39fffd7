// One chart per card of the member whose log is shown: how much of it is used, minute by minute.
(() => {
  const section = document.getElementById("charts");
  const list = document.getElementById("charts-list");
  const said = document.getElementById("charts-said");
  const whose = document.getElementById("charts-of");
  const words = section.dataset;

  const PERIOD_MS = 60000; // figures come by the minute
  const HEIGHT = 140;
  const GIB = 1024; // MiB

  let member = null;
  let charts = [];
  let turn = 0;

  const number = new Intl.NumberFormat(document.documentElement.lang, { maximumFractionDigits: 1 });
  const fill = (sentence, ...values) => sentence.replace(/\{(\d)\}/g, (_all, place) => values[place]);
  const dates = { timeZone: words.zone, hourCycle: "h23", hour: "2-digit", minute: "2-digit" };
  const clock = Drawing.clock(words.zone);
  const calendar = new Intl.DateTimeFormat("sv-SE", { ...dates, month: "2-digit", day: "2-digit" });
  const DAY_S = 86400;
  const known = (value) => (value === null || value === undefined ? "–" : number.format(value));

  function address() {
    return `${words.url}?${new URLSearchParams({ attempt: member.attempt, rank: member.rank })}`;
  }

  function clear() {
    for (const chart of charts) chart.plot.destroy();
    charts = [];
    list.replaceChildren();
  }

  // The page's colours are read anew for each theme.
  function options(card, width) {
    const axis = Drawing.axis(section);
    const long = card.at[card.at.length - 1] - card.at[0] > DAY_S;
    const times = (_plot, ticks) => ticks.map((tick) => (long ? calendar : clock).format(tick * 1000));
    return {
      width,
      height: HEIGHT,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), words.zone),
      scales: { y: { range: [0, 100] } },
      axes: [{ ...axis, values: times, space: long ? 90 : 50 }, { ...axis, size: 54, values: (_plot, ticks) => ticks.map((tick) => `${tick}%`) }],
      series: [{}, Drawing.line(Drawing.colour("--taiji-use")), Drawing.line(Drawing.colour("--taiji-memory"))],
      legend: { show: false },
      cursor: { drag: { x: false, y: false } },
    };
  }

  function share(card) {
    const total = card.memory_mib;
    return card.memory_mean_mib.map((used) => (used === null || !total ? null : (100 * used) / total));
  }

  // The newest minute of which anything is known.
  function newest(card) {
    return card.use_mean.findLastIndex((value, place) => value !== null || card.memory_mean_mib[place] !== null);
  }

  // What the chart shows, in words, for those who cannot see it; and above it for those who can.
  function summary(card) {
    const last = newest(card);
    const used = card.memory_mean_mib[last];
    return fill(
      words.summary,
      card.index,
      known(card.use_mean[last]),
      known(used === null || used === undefined ? null : used / GIB),
      known(card.memory_mib ? card.memory_mib / GIB : null),
    );
  }

  function draw(card) {
    const figure = document.createElement("figure");
    const caption = document.createElement("figcaption");
    const canvas = document.createElement("div");
    caption.textContent = summary(card);
    const faults = [...new Set(card.xids.map((one) => one.xid))];
    if (faults.length) caption.textContent += ` · ${fill(words.faults, faults.join(", "))}`;
    canvas.setAttribute("aria-hidden", "true"); // the caption says it
    figure.append(caption, canvas);
    list.append(figure);
    const data = [card.at, card.use_mean, share(card)];
    charts.push({ card, plot: new uPlot(options(card, canvas.clientWidth), data, canvas), canvas });
  }

  function drawAll(cards) {
    clear();
    const some = cards.filter((card) => newest(card) >= 0);
    said.textContent = some.length ? "" : words.none;
    said.hidden = some.length > 0;
    some.forEach(draw);
  }

  async function read() {
    if (!member || document.hidden) return;
    const mine = (turn += 1);
    try {
      const cards = figures(await Platform.get(address(), Platform.json));
      if (mine === turn) drawAll(cards);
    } catch (error) {
      if (!(error instanceof Platform.Away)) throw error;
      if (mine !== turn) return;
      said.textContent = words.failed;
      said.hidden = false;
    }
  }

  // All cards of an answer have its moments.
  function figures(answer) {
    return answer.cards.map((card) => ({ ...card, at: answer.at }));
  }

  document.addEventListener("taiji:member", (event) => {
    const same = member && member.attempt === event.detail.attempt && member.rank === event.detail.rank;
    member = event.detail;
    whose.textContent = member.name;
    if (!same) read();
  });
  document.addEventListener("visibilitychange", read);
  setInterval(() => {
    if (document.getElementById("live").hasAttribute("hx-get")) read();
  }, PERIOD_MS);
  Drawing.onTheme(() => drawAll(charts.map((chart) => chart.card)));
  let width = 0;
  new ResizeObserver(() => {
    if (list.clientWidth === width) return;
    width = list.clientWidth;
    for (const { plot, canvas } of charts) plot.setSize({ width: canvas.clientWidth, height: HEIGHT });
  }).observe(list);
})();
