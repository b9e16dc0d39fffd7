"""How much a question what would have been may ask, and which hosts it may take out."""

from collections.abc import Iterable

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from cluster.host_states import State, target
from cluster.models import Host

MOST_DAYS, FEWEST_DAYS, DAYS = 30, 1, 7
MOST_CARDS, MOST_HOSTS, MOST_ON_HOST = 1_000_000, 5000, 64
NAMED = 10  # names that a fault lists


def hosts_to(verb: str, names: Iterable[str]) -> tuple[list[int], list[str]]:
    """Return the hosts of these names, and in sentences what keeps some from being tried."""
    names = list(dict.fromkeys(names))
    hosts = Host.objects.filter(name__in=names).exclude(state=Host.State.REMOVED)
    found = {host.name: host.pk for host in hosts}
    faults = []
    for host in hosts:
        if target(State(host.state), verb) is None:  # it could be tried, and never made
            words = {"host": host.name, "state": host.get_state_display()}
            faults.append(_("%(host)s is %(state)s already.") % words)
    if unknown := [name for name in names if name not in found]:
        said = ngettext("There is no host %(names)s.", "There are no hosts %(names)s.", len(unknown))
        faults.append(said % {"names": ", ".join(unknown[:NAMED])})
    return [found[name] for name in names if name in found], faults
