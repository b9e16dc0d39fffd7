"""The figures of an answered question, before and after side by side, ready to be shown and drawn."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext, pgettext
from django.utils.translation import gettext_lazy as _

from jobs import durations
from jobs.portal.plots import Column, Plot, Row
from jobs.portal.words import CLASSES

WIDTH = 100  # of the longest bar
Say = Callable[[Any], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One figure before and after, in words and as bars."""

    label: str | Promise
    before: str
    after: str
    before_bar: float
    after_bar: float
    differs: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The figures of the tasks of one business and class."""

    business: str
    task_class: str | Promise
    tasks: int
    pairs: list[Pair]


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How many cards were in use, and how many tasks waited, span by span."""

    title: str
    cards: Plot
    waiting: Plot


def length(seconds: float | None) -> str:
    """Return a length of time; a dash where there is none."""
    return "–" if seconds is None else durations.hms(timedelta(seconds=seconds))


def _hours(card_s: float) -> str:
    return f"{card_s / 3600:,.1f}"


def _share(part: float) -> str:
    return f"{part:.1%}"


def _count(number: float) -> str:
    return f"{number:,.0f}"


WAITS: dict[str, tuple[Promise, Say]] = {
    "p50_wait_s": (_("half wait no longer than"), length),
    "p95_wait_s": (_("95 % wait no longer than"), length),
}
OTHERS: dict[str, tuple[Promise, Say]] = {
    "evictions": (_("evictions"), _count),
    "lost_card_s": (_("lost card-hours"), _hours),
    "card_s": (_("card-hours in use"), _hours),
    "finished": (_("tasks finished"), _count),
}
WHOLE: dict[str, tuple[Promise, Say]] = {
    **WAITS,
    **OTHERS,
    "card_utilisation": (_("cards in use"), _share),
}


def whole(result: Mapping[str, Any]) -> list[Pair]:
    """Return the figures of all tasks together."""
    before, after = result["before"]["summary"], result["after"]["summary"]
    return [_pair(name, before, after, WHOLE, _most([before, after], name)) for name in WHOLE]


def groups(result: Mapping[str, Any]) -> list[Group]:
    """Return the figures by business and class; bars of one figure have one scale."""
    before, after = (_by_key(result[side]["rows"]) for side in ("before", "after"))
    figures = {**WAITS, **OTHERS}
    rows = [*before.values(), *after.values()]
    most = {name: _most(rows, name) for name in figures}
    found = []
    for key in sorted(before.keys() | after.keys()):
        one, other = before.get(key, {}), after.get(key, {})
        found.append(
            Group(
                business=key[0],
                task_class=CLASSES.get(key[1], key[1]),
                tasks=(one or other)["tasks"],
                pairs=[_pair(name, one, other, figures, most[name]) for name in figures],
            )
        )
    return found


def _by_key(rows: list[Any]) -> dict[tuple[str, str], Any]:
    return {(row["business"], row["class"]): row for row in rows}


def _most(rows: list[Any], name: str) -> float:
    return max((row[name] or 0 for row in rows), default=0) or 1


def _pair(
    name: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    figures: Mapping[str, tuple[Promise, Say]],
    most: float,
) -> Pair:
    label, say = figures[name]
    one, other = before.get(name), after.get(name)
    words = ["–" if value is None else say(value) for value in (one, other)]
    return Pair(
        label=label,
        before=words[0],
        after=words[1],
        before_bar=round(WIDTH * (one or 0) / most, 1),
        after_bar=round(WIDTH * (other or 0) / most, 1),
        differs=words[0] != words[1],
    )


def courses(result: Mapping[str, Any]) -> list[Course]:
    """Return the courses before and after, over the same time and on one scale."""
    sides = {"before": pgettext("what-if", "Before"), "after": pgettext("what-if", "After")}
    both = {side: result[side]["course"] for side in sides}
    cards = max(course["capacity"] for course in both.values())
    waiting = max(max(course["waiting"], default=0) for course in both.values())
    return [
        Course(
            title=title,
            cards=_cards(title, both[side], top=cards),
            waiting=_waiting(title, both[side], top=waiting),
        )
        for side, title in sides.items()
    ]


def _cards(title: str, course: Mapping[str, Any], *, top: float) -> Plot:
    columns = [
        Column(word=gettext("cards of high tasks"), line=1, filled=True),
        Column(word=gettext("all cards in use"), line=2),
    ]
    used = [high + elastic for high, elastic in zip(course["high"], course["elastic"], strict=True)]
    return _plot(f"{title}: {gettext('all cards in use')}", course, columns, [course["high"], used], top=top)


def _waiting(title: str, course: Mapping[str, Any], *, top: float) -> Plot:
    columns = [Column(word=gettext("waiting tasks"), line=3)]
    return _plot(f"{title}: {gettext('Waiting tasks')}", course, columns, [course["waiting"]], top=top)


def _plot(
    label: str, course: Mapping[str, Any], columns: list[Column], figures: list[list[float]], *, top: float
) -> Plot:
    rows = [
        Row(at=at, said=length(at), cells=[(f"{figure:.1f}", figure) for figure in line])
        for place, line in enumerate(zip(*figures, strict=True))
        for at in (place * course["span"],)
    ]
    head = gettext("After so long")
    return Plot(label=label, head=head, columns=columns, rows=rows, elapsed=True, top=top)
