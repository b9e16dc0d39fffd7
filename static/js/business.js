// The card-hours of the table, drawn: a bar for each day, elastic on high.
(() => {
  const place = document.getElementById("hours-plot");
  const said = document.getElementById("hours-said");
  const rows = [...document.querySelectorAll("#hours-table tr[data-day]")];
  if (!place || !rows.length) return;

  const HEIGHT = 200;
  const number = new Intl.NumberFormat(document.documentElement.lang, { maximumFractionDigits: 1 });
  const fine = new Intl.NumberFormat(document.documentElement.lang, { maximumFractionDigits: 3 }); // of a first hour, too
  const days = rows.map((row) => row.dataset.day);
  const high = rows.map((row) => Number(row.dataset.high));
  const both = rows.map((row, at) => Number(row.dataset.elastic) + high[at]);
  const at = days.map((day) => Date.parse(`${day}T00:00:00Z`) / 1000);
  let plot = null;

  function say(index) {
    said.textContent = index === null || index === undefined ? "" : place.dataset.words
      .replace("{day}", days[index])
      .replace("{high}", number.format(high[index]))
      .replace("{elastic}", number.format(both[index] - high[index]));
  }

  // The page's colours are read anew for each theme.
  function options() {
    const axis = Drawing.axis(place.closest(".card"));
    const bars = (fill) => ({ fill, stroke: fill, width: 0, points: { show: false }, paths: uPlot.paths.bars({ size: [0.7, 60] }) });
    return {
      width: place.clientWidth,
      height: HEIGHT,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
      scales: {
        x: { range: (_plot, least, most) => [least - 43200, most + 43200] },
        y: { range: (_plot, _least, most) => [0, most > 0 ? most * 1.1 : 1] },
      },
      axes: [
        { ...axis, space: 60, incrs: [1, 2, 7, 14, 30].map((count) => count * 86400), values: (_plot, ticks) => ticks.map((tick) => new Date(tick * 1000).toISOString().slice(5, 10)) },
        { ...axis, size: 64, values: (_plot, ticks) => ticks.map((tick) => fine.format(tick)) },
      ],
      series: [{}, bars(Drawing.colour("--taiji-elastic")), bars(Drawing.colour("--taiji-high"))],
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, points: { show: false } },
      hooks: { setCursor: [(one) => say(one.cursor.idx)] },
    };
  }

  function draw() {
    plot?.destroy();
    plot = new uPlot(options(), [at, both, high], place);
  }

  place.hidden = false;
  draw();
  Drawing.onTheme(draw);
  new ResizeObserver(() => {
    if (place.clientWidth !== plot.width) plot.setSize({ width: place.clientWidth, height: HEIGHT });
  }).observe(place);
})();
