"""What agents say of instances and of hosts, in the reader's language: a closed list of sentences, known by their form.

Agents write English, into rows that are kept. A sentence of theirs is looked for here when it is shown; what is not
found, such as the words of an engine or of a newer agent, is shown as it is.
"""

import re
from functools import cache

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

SENTENCES = (
    # Before the start: the host and its folders.
    _("It was stopped before it started."),
    _("The host could not start a keeper: %(why)s."),
    _("The keeper could not start: %(why)s"),
    _("The work folder could not be made: %(why)s."),
    _("The work folder could not be handed over: %(why)s."),
    _("The storage %(path)s is not there."),
    _("The folder %(path)s could not be made: %(why)s."),
    _("The folder %(path)s cannot be written."),
    _("The log could not be opened: %(why)s."),
    _("/bin/sh could not be started: %(why)s."),
    _("This host has no card %(cards)s."),
    _("This host runs no plain processes, and the order names no image."),
    _("This host runs no containers."),
    _("Shares of a card are for plain processes: this container would get the whole card."),
    _("The disk of %(path)s is full: starts may fail, and what tasks print may be lost."),
    _("The storage %(path)s does not answer: nothing can start here."),
    _("The storage %(path)s is not there: nothing can start here."),
    _("The storage %(path)s cannot be written: nothing can start here."),
    # Containers.
    _("There is no container engine."),
    _("This host's container engine does not answer: %(why)s."),
    _("The image %(image)s cannot be had: %(why)s."),
    _("The image %(image)s was not here within %(seconds)s s."),
    _("/bin/sh in the container ended at once."),
    _("/bin/sh in the container did not run within %(seconds)s s."),
    _("The container did not get its cards: %(devices)s is not there."),
    _("The container did not get the devices of this host's --devices: %(devices)s."),
    _("This host's --devices name %(path)s, where no device is."),
    _("The container could not be started: %(why)s."),
    # Code.
    _("The code was not there within %(seconds)s s."),
    _("The code could not be brought: %(why)s."),
    _("The code could not be unpacked: %(why)s"),
    _("The platform does not hand out the code: %(why)s"),
    _("The code arrived damaged: it is not what its digest says."),
    _("The code could not be kept on this host: %(why)s."),
    _("The code has neither start.sh nor start.py, and the task names no start_cmd."),
    _("The first member of the gang did not say in time which commit it runs."),
    _("This host has no git."),
    _("There is no branch %(name)s at %(url)s."),
    _("There is no default branch at %(url)s: name a branch."),
    _("There is no commit %(commit)s at %(url)s."),
    _("%(commit)s begins several commits of %(url)s."),
    _("The disk is full: %(url)s does not fit on it."),
    _(
        "%(url)s takes more than %(files)s files or %(mib)s MiB, which is the most. Keep what is large in the storage; "
        "a commit named by its whole id comes without its history."
    ),
    _("The disk is full: %(why)s"),
    _("%(url)s asks for a token: give private_token."),
    _("%(url)s refuses the token, or has no such project for it."),
    _("There is no project at %(url)s."),
    _("%(url)s is not an address that may be used."),
    _("%(url)s cannot be reached: %(why)s"),
    _("git could not fetch %(url)s: %(why)s"),
    # Data.
    _("The data was not there within %(seconds)s s."),
    _("The data could not be brought: %(why)s."),
    _("%(path)s cannot be mounted there: the platform uses %(other)s."),
    _("%(place)s could not be mounted as %(name)s: %(why)s"),
    _("%(place)s is not there although its mount ended well."),
    _("The agent's folder %(path)s has a comma in its name."),
    _("Private ceph can be mounted only by an agent that may mount, such as root's: %(why)s."),
    # Orders that make no sense to the agent.
    _("The order has no spec."),
    _("The order's spec lacks %(name)s."),
    _("The order's spec cannot be read: %(why)s."),
    _("The order's code has no digest."),
    _("The order's code is of a kind that this agent does not know."),
    _("The order's code has an address that is not fetched from."),
    _("The order's data is of a kind that this agent does not know."),
    _("The order's data lacks a whole path."),
    _("The order's %(field)s is not a text that a process can be given."),
    _("The order's %(field)s does not stay below the storage: %(value)s."),
    _("The environment has a name that no variable can have: %(name)s."),
    _("The environment's %(name)s has a value that no variable can have."),
    # Pods and nodes of a Kubernetes cluster.
    _("The cluster finds no place for the pod: %(why)s."),
    _("The cluster does not take the pod: %(why)s"),
    _("The cluster does not take the MPIJob: %(why)s"),
    _("The cluster does not take the change of the MPIJob: %(why)s"),
    _("The MPIJob is no more, or is another by now."),
    _("It asks for %(wanted)s, and was planned on %(planned)s."),
    _("Private ceph cannot be mounted at %(path)s: %(other)s is the platform's own."),
    _("Private ceph could not be mounted: %(why)s."),
    _("The cluster ended the pod: %(why)s."),
    _("The node evicted the pod: %(why)s."),
    _("The node refused the pod: %(why)s."),
    _("The pod ended unseen."),
    _("The order cannot be read with the keys that the platform has now."),
    _("The node is cordoned in its cluster."),
    _("The node has the taint %(taint)s."),
    _("The node is gone from its cluster."),
    _(
        "The type of its cards is not known (%(resources)s): the node has neither the label %(label)s of GPU feature "
        "discovery nor %(own)s."
    ),
    _("The device plugin says that one of the node's %(resource)s does not work."),
    _("used by a pod that is no task's"),
    # Calls to the platform that failed.
    _("The platform at %(url)s does not answer: %(why)s."),
    _("The platform at %(url)s answers %(status)s."),
    _("The platform's answer is not JSON."),
    _("The platform's answer is not an object."),
    _("The platform did not say where the log ends."),
    # Ends that nobody saw, and cards.
    _("keeper lost"),
    _("host restarted"),
    _("host lost"),
    _("pod lost"),
    _("card %(index)s: %(why)s"),
)


def shown(sentence: str) -> str:
    """Return a sentence of an agent in the present language, as it is where it is none of the known ones."""
    for form, pattern in _patterns():
        if found := pattern.fullmatch(sentence):
            return gettext(form) % found.groupdict() if found.groupdict() else gettext(form)
    return sentence


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((form, re.compile(_pattern(form), re.DOTALL)) for form in SENTENCES)


def _pattern(form: str) -> str:
    parts = re.split(r"%\((\w+)\)s", form)
    return "".join(f"(?P<{part}>.+?)" if place % 2 else re.escape(part) for place, part in enumerate(parts))
