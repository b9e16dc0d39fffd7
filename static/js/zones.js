// Offers the calendar by the clocks of the browser, where those are others.
(() => {
  const link = document.getElementById("own-zone");
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!own || own === link.dataset.zone) return;
  link.textContent += `: ${own}`;
  link.href += encodeURIComponent(own);
  link.hidden = false;
})();
