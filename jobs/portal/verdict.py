"""What the scheduler says of the form: its dry run, or what is still wrong with it."""

import json
from dataclasses import dataclass, replace

from django.contrib.auth.models import User
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs import config
from jobs.engine import ask
from jobs.engine.verdict import Alternative, Verdict
from jobs.models import Task
from jobs.portal import masks
from jobs.portal.forms import Complaint, ConfigForm

HOSTS_SHOWN = 6
VICTIMS_SHOWN = 8
STAND_IN = "true"  # a command, where only that is missing: what is free does not depend on it


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A change of the form with which the task would start; `use` is the change as JSON."""

    message: str
    use: str
    said: str
    colour: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the page says beside the form."""

    colour: str
    title: str
    verdict: Verdict | None
    complaints: list[Complaint]

    @property
    def still_missing(self) -> bool:
        """Say whether nothing is wrong but what is not filled in yet."""
        return bool(self.complaints) and all(complaint.missing for complaint in self.complaints)

    @property
    def more_hosts(self) -> int:
        """Return how many hosts are not listed."""
        where = self.verdict.where if self.verdict else None
        return max(0, len(where.hosts) - HOSTS_SHOWN) if where else 0

    @property
    def more_victims(self) -> int:
        """Return how many tasks that would leave are not listed."""
        return max(0, len(self.verdict.evicts) - VICTIMS_SHOWN) if self.verdict else 0

    @property
    def ways(self) -> list[Way]:
        """Return the other ways to ask that would start, the best first."""
        return [_way(other) for other in self.verdict.alternatives] if self.verdict else []


def of(user: User, form: ConfigForm, *, origin: Task | None = None, alternatives: bool = False) -> Answer:
    """Return what would become of the form; its faults stand beside its fields then."""
    document = form.document()
    if origin is not None and origin.user_id == user.pk:  # only its owner's copies keep the secrets of a task
        document = masks.without_kept(document)
    unreadable = bool(form.errors)
    found = None
    try:
        found = ask.preview(user, document, alternatives=alternatives)
        form.blame(found.faults)
    except config.Invalid as invalid:
        form.blame(invalid.faults)
        if _lacks_only_a_command(invalid.faults):
            found = ask.preview(user, {**document, "start_cmd": STAND_IN}, alternatives=alternatives)
    return _answer(None if unreadable else found, form.complaints())


def _lacks_only_a_command(faults: list[config.Fault]) -> bool:
    others = [fault for fault in faults if fault.code not in config.NEVER_CODES]
    return [(fault.field, fault.code) for fault in others] == [("start_cmd", "required")]


def _way(other: Alternative) -> Way:
    said, colour = _("starts now"), "green"
    if other.verdict == "starts_after_evicting":
        text = ngettext("evicts %(tasks)d task", "evicts %(tasks)d tasks", other.victims) % {
            "tasks": other.victims
        }
        said, colour = text, "orange"
    use = json.dumps(dict(other.change), ensure_ascii=False)
    return Way(message=other.message, use=use, said=said, colour=colour)


def _answer(found: Verdict | None, complaints: list[Complaint]) -> Answer:
    if found is None:
        refused = Answer(colour="red", title=_("Would be refused"), verdict=None, complaints=complaints)
        if refused.still_missing:
            return replace(refused, colour="secondary", title=_("Not complete yet"))
        return refused
    colour, title = _heading(found)
    return Answer(colour=colour, title=title, verdict=found, complaints=complaints)


def _heading(found: Verdict) -> tuple[str, str]:
    if found.verdict == "starts":
        return "green", _("Starts now")
    if found.verdict == "starts_after_evicting":
        number = len(found.evicts)
        text = ngettext("Starts after evicting %d task", "Starts after evicting %d tasks", number)
        return "orange", text % number
    if found.verdict == "never":
        return "red", _("Never starts")
    if found.position and found.of:
        return "azure", _("Queues at %(place)d of %(of)d") % {"place": found.position, "of": found.of}
    return "azure", _("Has to wait")
