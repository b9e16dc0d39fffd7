"""The form of a question what would have been: quotas, keys of the policy, hosts, and how many days are replayed."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _t

from cluster.models import GpuType, Region
from jobs.engine import snapshot
from jobs.policy_fields import DEFAULTS, policy_field
from jobs.scheduling import policy
from jobs.simulation.what_if import Change, HostChange, NewHosts, QuotaChange
from jobs.what_if_rules import (
    DAYS,
    FEWEST_DAYS,
    MOST_CARDS,
    MOST_DAYS,
    MOST_HOSTS,
    MOST_ON_HOST,
    hosts_to,
)
from quotas.models import Business

QUOTAS, ADDED = 4, 2  # lines of the form


@dataclass(frozen=True, slots=True, kw_only=True)
class FormLine:
    """Some fields that belong together."""

    fields: list[forms.BoundField]


def _look(field: forms.Field) -> forms.Field:
    select = isinstance(field.widget, forms.Select)
    field.widget.attrs["class"] = "form-select" if select else "form-control"
    return field


def _number(label: Any, least: int, most: int) -> forms.Field:
    return forms.IntegerField(label=label, min_value=least, max_value=most, required=False)


class WhatIfForm(forms.Form):
    """A change, and the days that it is tried on."""

    days = forms.IntegerField(
        label=_t("Days to replay"),
        min_value=FEWEST_DAYS,
        max_value=MOST_DAYS,
        initial=DAYS,
        help_text=_t(
            "The tasks of so many days are run again, in fast motion, without the change and with it."
        ),
    )
    cordon = forms.CharField(
        label=_t("Hosts that take no tasks"),
        required=False,
        help_text=_t("Their names, with commas between them."),
    )
    remove = forms.CharField(
        label=_t("Hosts that are gone"),
        required=False,
        help_text=_t("Their names, with commas between them."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Make the fields from what there is now."""
        super().__init__(*args, **kwargs)
        self.now = snapshot.policy()
        for key, default in DEFAULTS.items():
            self.fields[f"policy_{key}"] = policy_field(key, default)
            if (value := getattr(self.now, key)) != default:
                self.fields[f"policy_{key}"].initial = value
        self._add_lines()
        for field in self.fields.values():
            _look(field)

    def _add_lines(self) -> None:
        businesses, types, regions = Business.objects.all(), GpuType.objects.all(), Region.objects.all()

        def one(label: Any, rows: Any, empty: Any) -> forms.Field:
            # Several of these fields show the same rows, which are read once.
            field = forms.TypedChoiceField(label=label, required=False, coerce=int, empty_value=None)
            field.choices = [("", empty), *((str(pk), name) for pk, name in rows)]
            return field

        of_business = list(businesses.values_list("pk", "flag"))
        of_type, of_region = list(types.values_list("pk", "name")), list(regions.values_list("pk", "name"))
        for line in range(QUOTAS):
            self.fields[f"quota_{line}_business"] = one(_t("Business"), of_business, "–")
            self.fields[f"quota_{line}_gpu_type"] = one(_t("GPU type"), of_type, "–")
            self.fields[f"quota_{line}_region"] = one(_t("Region"), of_region, _("all"))
            self.fields[f"quota_{line}_cards"] = _number(_t("Cards"), 0, MOST_CARDS)
        for line in range(ADDED):
            self.fields[f"added_{line}_region"] = one(_t("Region"), of_region, "–")
            self.fields[f"added_{line}_gpu_type"] = one(_t("GPU type"), of_type, "–")
            self.fields[f"added_{line}_hosts"] = _number(_t("Hosts"), 1, MOST_HOSTS)
            self.fields[f"added_{line}_cards"] = _number(_t("Cards on each"), 1, MOST_ON_HOST)

    def policy_fields(self) -> list[forms.BoundField]:
        """Return the fields of the policy's keys."""
        return [self[f"policy_{key}"] for key in DEFAULTS]

    def quota_lines(self) -> list[FormLine]:
        """Return the lines for quotas."""
        names = ("business", "gpu_type", "region", "cards")
        return [FormLine(fields=[self[f"quota_{line}_{name}"] for name in names]) for line in range(QUOTAS)]

    def added_lines(self) -> list[FormLine]:
        """Return the lines for hosts that are to come."""
        names = ("region", "gpu_type", "hosts", "cards")
        return [FormLine(fields=[self[f"added_{line}_{name}"] for name in names]) for line in range(ADDED)]

    def clean(self) -> dict[str, Any]:
        """Make the change of what was typed; one that changes nothing is refused."""
        cleaned = super().clean() or self.cleaned_data
        self.change = Change(
            quotas=tuple(self._quotas()),
            policy=dict(self._policy()),
            added=tuple(self._added()),
            hosts=tuple(self._hosts()),
        )
        if not self.errors and not self.change:
            raise forms.ValidationError(_("Change something: a quota, a key of the policy, or hosts."))
        return cleaned

    def _policy(self) -> Iterator[tuple[str, str | float | None]]:
        """Give the keys that differ from now; a blank one is the default."""
        for key, default in DEFAULTS.items():
            name = f"policy_{key}"
            if name in self.errors:
                continue
            given = self.cleaned_data.get(name)
            if given in (None, ""):
                if getattr(self.now, key) != default:
                    yield key, None
                continue
            try:
                value = policy.check(key, given)
            except ValueError as error:
                self.add_error(name, str(error))
                continue
            if value != getattr(self.now, key):
                yield key, value

    def _line(self, kind: str, line: int, *names: str) -> dict[str, Any] | None:
        """Return a line that was filled in; what is missing of it is a fault, and so is all of an empty one None."""
        given = {name: self.cleaned_data.get(f"{kind}_{line}_{name}") for name in names}
        if all(value is None for name, value in given.items() if name != "region" or kind == "added"):
            return None
        whole = True
        for name, value in given.items():
            if value is None and not (name == "region" and kind == "quota"):
                whole = False
                if f"{kind}_{line}_{name}" not in self.errors:
                    self.add_error(f"{kind}_{line}_{name}", _("Fill this in too, or empty the whole line."))
        return given if whole else None

    def _quotas(self) -> Iterator[QuotaChange]:
        seen = set()
        for line in range(QUOTAS):
            given = self._line("quota", line, "business", "gpu_type", "region", "cards")
            if given is None:
                continue
            key = (given["business"], given["gpu_type"], given["region"])
            if key in seen:
                self.add_error(f"quota_{line}_business", _("This quota stands in a line above already."))
            seen.add(key)
            yield QuotaChange(**given)

    def _added(self) -> Iterator[NewHosts]:
        for line in range(ADDED):
            given = self._line("added", line, "region", "gpu_type", "hosts", "cards")
            if given is not None:
                yield NewHosts(**given)

    def _hosts(self) -> Iterator[HostChange]:
        taken: set[int] = set()
        for verb in ("cordon", "remove"):
            for host in self._named(verb):
                if host in taken:
                    self.add_error(verb, _("A host is named in both fields."))
                taken.add(host)
                yield HostChange(host=host, verb=verb)

    def _named(self, field: str) -> list[int]:
        """Return the hosts whose names were typed."""
        given = (self.cleaned_data.get(field) or "").replace("，", ",").split(",")
        found, faults = hosts_to(field, (name.strip() for name in given if name.strip()))
        for fault in faults:
            self.add_error(field, fault)
        return found
