// Draws each figure.plot from the table inside it, so that both always say the same.
//
// A row's data-at is its place: seconds since the epoch, or with data-elapsed seconds from a beginning. A column whose
// head has a data-line is drawn in the colour of that number.
(() => {
  const HEIGHT = 200;
  const MINUTE = 60;
  const STEPS = [1, 5, 15, 30, 60, 120, 360, 720, 1440, 2880, 7200, 14400].map((minutes) => minutes * MINUTE);
  const COLOURS = { 1: "--taiji-use", 2: "--taiji-memory", 3: "--tblr-secondary" };
  const plots = new Map(); // figure → its plot

  const numbers = new Intl.NumberFormat(document.documentElement.lang, { maximumFractionDigits: 1 });

  function value(cell) {
    const found = Number.parseFloat(cell.dataset.value ?? cell.textContent.trim());
    return Number.isNaN(found) ? null : found;
  }

  function read(figure) {
    const table = figure.querySelector("table");
    const heads = [...table.tHead.rows[0].cells];
    const columns = heads.flatMap((head, place) => (head.dataset.line ? [{ place, head }] : []));
    const rows = [...table.tBodies[0].rows];
    const at = rows.map((row) => Number(row.dataset.at));
    return { columns, data: [at, ...columns.map(({ place }) => rows.map((row) => value(row.cells[place])))] };
  }

  function elapsed(seconds) {
    const minutes = Math.round(seconds / 60);
    return `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}`;
  }

  function times(figure) {
    if ("elapsed" in figure.dataset) return (_plot, ticks) => ticks.map(elapsed);
    const clock = Drawing.clock(figure.dataset.zone);
    return (_plot, ticks) => ticks.map((tick) => clock.format(tick * 1000));
  }

  function series(kind, { head }, index, of) {
    const stroke = Drawing.colour(COLOURS[head.dataset.line]);
    const line = { ...Drawing.line(stroke), label: head.textContent.trim() };
    if (kind !== "bars") return "filled" in head.dataset ? { ...line, fill: `${stroke}66` } : line;
    // Bars of one place stand beside each other.
    const paths = uPlot.paths.bars({ size: [0.8 / of, 24], align: index * 2 < of - 1 ? -1 : 1 });
    const points = { show: false };
    return { ...line, points, fill: stroke, paths: of === 1 ? uPlot.paths.bars({ size: [0.8, 24] }) : paths };
  }

  // Half a bar more at either end.
  function ends(figure, [at]) {
    const step = figure.dataset.kind === "bars" && at.length > 1 ? at[1] - at[0] : 0;
    return [at[0] - step / 2, at[at.length - 1] + step / 2];
  }

  function top(figure, most) {
    return Math.max(most ?? 0, Number(figure.dataset.top ?? 0)) * 1.05 || 1;
  }

  function options(figure, columns, data, width) {
    const axis = Drawing.axis(figure.closest(".card"));
    const unit = figure.dataset.unit ? ` ${figure.dataset.unit}` : "";
    const values = (_plot, ticks) => ticks.map((tick) => `${numbers.format(tick)}${unit}`);
    return {
      width,
      height: HEIGHT,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), figure.dataset.zone || "UTC"),
      scales: { x: { time: !("elapsed" in figure.dataset), range: ends(figure, data) }, y: { range: (_plot, _low, most) => [0, top(figure, most)] } },
      axes: [{ ...axis, values: times(figure), space: 60, ...("elapsed" in figure.dataset ? { incrs: STEPS } : {}) }, { ...axis, size: 66, values }],
      series: [{}, ...columns.map((column, index) => series(figure.dataset.kind, column, index, columns.length))],
      legend: { show: false },
      cursor: { show: false },
    };
  }

  function draw(figure) {
    const canvas = figure.querySelector(".plot-canvas");
    plots.get(figure)?.destroy();
    const { columns, data } = read(figure);
    if (canvas.clientWidth) plots.set(figure, new uPlot(options(figure, columns, data, canvas.clientWidth), data, canvas));
  }

  function drawAll() {
    for (const figure of plots.keys()) if (!figure.isConnected) plots.delete(figure);
    document.querySelectorAll("figure.plot").forEach(draw);
  }

  drawAll();
  document.addEventListener("htmx:afterSettle", () => {
    for (const figure of document.querySelectorAll("figure.plot")) {
      if (!figure.querySelector(".plot-canvas").children.length) draw(figure);
    }
  });
  Drawing.onTheme(drawAll);
  let width = document.body.clientWidth;
  new ResizeObserver(() => {
    if (document.body.clientWidth === width) return;
    width = document.body.clientWidth;
    drawAll();
  }).observe(document.body);
})();
