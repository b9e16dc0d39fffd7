"""Every text that people see, and its translations; `python -m tests.portal.catalog` brings them together."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from babel.messages.pofile import read_po, write_po
from django.utils.translation.template import templatize

from jobs.scheduling.reasons import SENTENCES, Reason
from jobs.simulation.forecast import BASES

ROOT = Path(__file__).parents[2]
FILE = ROOT / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.po"
ROOMS = ("jobs", "cluster", "quotas", "taiji_site")
WORDS = {
    "_": None,
    "_t": None,
    "gettext": None,
    "gettext_lazy": None,
    "ngettext": (1, 2),
    "ngettext_lazy": (1, 2),
    "pgettext": ((1, "c"), 2),
    "pgettext_lazy": ((1, "c"), 2),
}

Message = tuple[str | tuple[str, ...], str | None]  # text (or both numbers of it), and its context


def messages() -> dict[Message, set[str]]:
    """Return every text with the files that show it."""
    found: dict[Message, set[str]] = {}
    for path in sorted([*_python(), *(ROOT / "templates").rglob("*.html")]):
        source = path.read_text()
        code = _as_python(source) if path.suffix == ".html" else source
        place = path.relative_to(ROOT).as_posix()
        for _line, text, _notes, context in extract("python", BytesIO(code.encode()), WORDS):
            found.setdefault((text, context), set()).add(place)
    for code, sentence in SENTENCES.items():
        for text in filter(None, (sentence, Reason(code).advice[1])):
            found.setdefault((text, None), set()).add("jobs/scheduling/reasons.py")
    for sentence in BASES.values():
        found.setdefault((sentence, None), set()).add("jobs/simulation/forecast.py")
    return found


def _as_python(template: str) -> str:
    """Return the texts of a template as calls, one after the other: its indents mean nothing to Python."""
    return "\n".join(line.strip() for line in templatize(template).splitlines())


def _python() -> Iterator[Path]:
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            if "migrations" not in path.parts:
                yield path


def catalogue() -> Catalog:
    """Return the translations."""
    with FILE.open("rb") as file:
        return read_po(file, locale="zh_Hans", abort_invalid=True)


def update() -> None:
    """Write the catalogue anew: with texts that are new, without those that nobody shows any more."""
    old = catalogue()
    new = Catalog(
        locale="zh_Hans",
        project="Taiji",
        version="1",
        header_comment="# Simplified Chinese.",
        msgid_bugs_address="none",
        creation_date=old.creation_date,
        revision_date=old.creation_date,
        last_translator="Taiji",
        language_team="Taiji",
        fuzzy=False,
    )
    for (text, context), places in sorted(
        messages().items(), key=lambda item: (sorted(item[1]), str(item[0]))
    ):
        key = text if isinstance(text, str) else text[0]
        known = old.get(key, context)
        new.add(
            text, known.string if known else "", [(place, 0) for place in sorted(places)], context=context
        )
    with FILE.open("wb") as file:
        write_po(file, new, width=110, omit_header=False, include_lineno=False)


if __name__ == "__main__":
    update()
