// What drawings take from the page: its colours, which are read anew for each theme, the axes of a plot, its clocks.
const Drawing = (() => {
  const FONT = "11px system-ui, sans-serif";

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // An axis in the colours of the element that the plot stands in.
  function axis(element) {
    const { color: stroke, borderTopColor: grid } = getComputedStyle(element);
    return { stroke, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: FONT };
  }

  // Figures with none on either side: a line alone would not show them.
  function lone(plot, series) {
    const none = (place) => (plot.data[series][place] ?? null) === null;
    return plot.data[series].flatMap((_value, place) => (!none(place) && none(place - 1) && none(place + 1) ? [place] : []));
  }

  const line = (stroke) => ({ stroke, width: 1.5, spanGaps: false, points: { show: true, size: 4, fill: stroke, filter: lone } });

  // Hours and minutes of a time, by the clocks of a zone.
  const clock = (zone) => new Intl.DateTimeFormat("en-GB", {
    timeZone: zone, hourCycle: "h23", hour: "2-digit", minute: "2-digit",
  });

  function onTheme(draw) {
    new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["data-bs-theme"] });
  }

  return { colour, axis, line, clock, onTheme };
})();
