"""The words for what operators do with hosts."""

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

VERBS: dict[str, Promise] = {
    "cordon": _("Cordon"),
    "uncordon": _("Offer again"),
    "drain": _("Drain"),
    "remove": pgettext_lazy("host", "Remove"),
    "restore": _("Restore"),
}
WHAT_IT_DOES: dict[str, Promise] = {
    "cordon": _("It takes no more tasks; what runs there goes on to its end."),
    "uncordon": _("It takes tasks again."),
    "drain": _(
        "It takes no more tasks, its elastic tasks are evicted, and its high ones go on to their end."
    ),
    "remove": _(
        "It is gone for good: what runs there ends as lost, and its agent is told to stop whatever is left there."
    ),
    "restore": _("It was removed, and takes tasks again."),
}
