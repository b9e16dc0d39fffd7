"""The closed list of how attempts end: a code, a sentence, and what its owner can do about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from cluster import host_sentences

Args = Mapping[str, Any]

# What the host said (cluster/agent/protocol.py, CAUSES) as the code of an end.
CAUSED = {
    "image": "image_failed",
    "code": "code_failed",
    "code_away": "code_failed",
    "waited": "code_failed",
    "data": "data_failed",
    "data_away": "data_failed",
    "oom": "out_of_memory",
    "maybe_oom": "maybe_out_of_memory",
    "card": "card_fault",
    "place": "no_place",
    "operator": "operator_away",
}
OWN_FAULTS = frozenset({"code", "data", "operator"})  # causes that any other host would have named as well
_OWN = _("Its own last lines in the log say more.")
_AGAIN = _(
    "It is nobody's fault: with enable_evicted_pulled_up or retry_limit the platform starts it again by itself."
)


@dataclass(frozen=True, slots=True)
class Ending:
    """One way to end; placeholders of the sentence are arguments of the end."""

    sentence: Promise
    advice: Promise | None = None  # None: there is nothing to mend


ENDINGS: dict[str, Ending] = {
    "succeeded": Ending(_("It ended well")),
    "stop": Ending(_("Stopped")),
    "evicted": Ending(_("Its cards are free again")),
    "exit_code": Ending(_("The process on %(host)s ended with exit code %(exit_code)s"), _OWN),
    "exit_signal": Ending(
        _("The process on %(host)s was ended by signal %(signal)s"),
        _("Signal 11 is a fault in a program or library, 9 and 15 were sent by something on the host."),
    ),
    "out_of_memory": Ending(
        _("The process on %(host)s was ended because the memory of the host ran out"),
        _(
            "Take smaller batches or fewer loader processes; memory of the host is meant here, not of the cards."
        ),
    ),
    "maybe_out_of_memory": Ending(
        _("The process on %(host)s was killed, probably because the memory of the host ran out"),
        _("Look how much memory it takes; where it is little, somebody killed it by hand on that host."),
    ),
    "card_fault": Ending(
        _("A card failed under the process on %(host)s"),
        _("Nothing is wrong with the task: run it again, broken cards are given to nobody."),
    ),
    "start_failed": Ending(
        _("It could not be started on %(host)s"),
        _("Mend what the sentence names and run it again; where it is the host's fault, tell operators."),
    ),
    "image_failed": Ending(
        _("Its image could not be brought to %(host)s"),
        _("Check the name in image_full_name, and whether hosts may pull it."),
    ),
    "code_failed": Ending(
        _("Its code could not be brought to %(host)s"),
        _(
            "Check the code that the task names: the uploaded folder, or the repository, branch or commit, and the "
            "token that may read it."
        ),
    ),
    "data_failed": Ending(
        _("Its data could not be brought to %(host)s"),
        _("Check the data set's address, name and secret, and whether hosts can reach it."),
    ),
    "no_place": Ending(
        _("Its cluster found no place for its pod on %(host)s"),
        _(
            "Let it ask for less besides cards, such as memory, or ask operators of the cluster what else holds it."
        ),
    ),
    "start_deadline": Ending(
        _("Not every process ran %(limit_s)g s after the start: %(hosts)s"),
        _("The hosts named kept the others waiting: their log or an operator can say why."),
    ),
    "operator_away": Ending(
        _("The cluster's MPI operator took no notice of it"),
        _("Ask operators of the cluster whether the MPI operator runs there, then run it again."),
    ),
    "time_limit": Ending(
        _("Its time limit of %(limit_s)g s is over"),
        _("Give it a longer time_limit, or let it write checkpoints and run it again."),
    ),
    "ended_from_outside": Ending(
        _("It was ended by something outside the platform"), _("Somebody sent it a signal on its host.")
    ),
    "keeper_lost": Ending(
        _("What kept its process on %(host)s died: nobody saw how it ended"),
        _("Was the memory of the host full? An operator finds more in the host's own log."),
    ),
    "host_restarted": Ending(_("Its host %(host)s was restarted"), _AGAIN),
    "lost": Ending(_("Its host %(host)s was lost"), _AGAIN),
    "pod_lost": Ending(
        _("Its pod on %(host)s was removed by force: nobody saw how it ended"),
        _("An operator of the cluster, or a controller there, deletes pods of tasks: ask who."),
    ),
}


def sentence(code: str, args: Args) -> str:
    """Return how an attempt ended; of a gang also which member it was. An unknown code is shown as it is."""
    ending = ENDINGS.get(code)
    try:
        said = str(ending.sentence) % args if ending else code
    except (KeyError, TypeError, ValueError):
        return code
    if detail := args.get("detail"):
        said = _t("%(said)s: %(detail)s") % {"said": said, "detail": host_sentences.shown(str(detail))}
    if "rank" in args and int(args.get("of") or 1) > 1:
        numbers = {"rank": args["rank"], "of": args["of"]}
        said = _t("Rank %(rank)s of a gang of %(of)s: %(said)s") % {**numbers, "said": said}
    return said


def advice(code: str) -> str:
    """Return what can be done about an end; blank where there is nothing to mend."""
    ending = ENDINGS.get(code)
    return str(ending.advice) if ending and ending.advice else ""
