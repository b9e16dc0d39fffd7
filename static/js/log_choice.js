// Whose log is looked at: an attempt of the task, by default the newest, and one of its members.
// eslint-disable-next-line no-unused-vars -- the scripts after this one use it
const LogChoice = (() => {
  const attempts = document.getElementById("log-attempt");
  const ranks = document.getElementById("log-rank");
  const { newest } = document.getElementById("log").dataset;

  function members() {
    return [...document.querySelectorAll("#attempts .member")].map((row) => ({ ...row.dataset }));
  }

  // Offer these, and keep what is chosen where it is still among them.
  function offer(select, wanted) {
    const have = [...select.options].map((option) => option.value + option.text).join("\n");
    if (have === wanted.map(([value, name]) => value + name).join("\n")) return;
    const before = select.value;
    select.replaceChildren(...wanted.map(([value, name]) => new Option(name, value)));
    select.value = wanted.some(([value]) => value === before) ? before : wanted.length ? wanted[0][0] : "";
  }

  // The member that is chosen; none where nothing ran yet.
  function chosen() {
    const found = members();
    const numbers = [...new Set(found.map((one) => one.attempt))];
    offer(attempts, [["", newest], ...numbers.map((one) => [one, one])]);
    const attempt = attempts.value || numbers[0];
    const those = found.filter((one) => one.attempt === attempt);
    offer(ranks, those.map((one) => [one.rank, `${one.rank} · ${one.host}`]));
    return those.find((one) => one.rank === ranks.value) || those[0];
  }

  function choose(attempt, rank) {
    chosen();
    attempts.value = attempt;
    chosen();
    ranks.value = rank;
  }

  function changed(look) {
    attempts.addEventListener("change", look);
    ranks.addEventListener("change", look);
  }

  return { chosen, choose, changed };
})();
