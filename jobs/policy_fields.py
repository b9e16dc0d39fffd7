"""The fields of forms that change the policy: one for each key, with what it means and what it may be."""

from dataclasses import fields
from typing import Any

from django import forms
from django.utils.translation import gettext

from cluster.agent import protocol
from jobs import policy_words
from jobs.scheduling import policy, types

# Seconds. A host that is well says nothing while its waiting call is held, and may have to call again.
LEAST = {
    "lost_after_s": 2 * protocol.WAIT_S,
    "start_deadline_s": 30,  # less stops what is on its way, each time anew
    "plan_lapse_s": 45,  # victims take up to 30 s to leave: cards given up before would be evicted for in vain
}
MOST_S = 10 * 365 * 86400  # no time that is longer can be told from never, and dates end somewhere
MOST = {**policy.MOST, "max_evictions_per_hour": 3600, "quarantine_after": 1000}
DEFAULTS = {field.name: field.default for field in fields(types.Policy)}


def policy_field(key: str, default: object) -> forms.Field:
    """Return the field of one key; a blank one means the default."""
    blank = gettext("Blank: %s.") % default
    says: dict[str, Any] = {
        "label": f"{policy_words.LABELS[key]} · {key}",  # the simulator and the guide name the key
        "help_text": f"{policy_words.HELP[key]} {blank}",
        "required": False,
    }
    if key in policy.CHOICES:
        named = [(choice, f"{choice}: {policy_words.CHOICES[choice]}") for choice in policy.CHOICES[key]]
        return forms.ChoiceField(choices=[("", "—"), *named], **says)
    return forms.FloatField(min_value=LEAST.get(key, 0), max_value=MOST.get(key, MOST_S), **says)
