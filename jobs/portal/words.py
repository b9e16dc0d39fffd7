"""The words and colours of states, classes and outcomes on the pages."""

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from jobs.models import STATE_WORDS, Attempt
from jobs.states import State

STATES: dict[str, Promise] = {**STATE_WORDS, Attempt.Outcome.LOST: _("lost")}
COLOURS: dict[str, str] = {
    State.BLOCKED: "secondary",
    State.QUEUED: "azure",
    State.HELD: "secondary",
    State.STARTING: "cyan",
    State.RUNNING: "green",
    State.EVICTING: "orange",
    State.STOPPING: "orange",
    State.KEEPING: "purple",
    State.SUCCEEDED: "teal",
    State.FAILED: "red",
    State.STOPPED: "secondary",
    State.EVICTED: "orange",
    Attempt.Outcome.LOST: "red",
}
MOVING = frozenset({State.STARTING, State.RUNNING, State.EVICTING, State.STOPPING})  # their dot is animated
CLASSES: dict[str, Promise] = {
    "high": pgettext_lazy("class", "high"),
    "elastic": pgettext_lazy("class", "elastic"),
    "auto": pgettext_lazy("class", "auto"),
}
CLASS_COLOURS = {"high": "blue", "elastic": "lime", "auto": "indigo"}
