"""Templates: what people start from; made from the form, changed by those who made them, and removed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib.auth.models import User
from django.db import transaction
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from cluster.characters import one_line
from jobs import templates
from jobs.models import Template
from jobs.portal.masks import masked
from quotas import access, audit
from quotas.models import Business

ME, ALL = "me", "all"
OF = "of:"  # before the flag of a business


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A template as lists show it."""

    id: int
    name: str
    description: str
    seen_by: str
    changeable: bool


class SaveForm(forms.Form):
    """Name, words and readers of a template; its fields stand in the submit form, so their names are long."""

    save_name = forms.CharField(
        label=gettext_lazy("Name of the template"),
        max_length=128,
        validators=[one_line],
        widget=forms.TextInput(attrs={"class": "form-control", "autocomplete": "off"}),
    )
    save_for = forms.ChoiceField(
        label=gettext_lazy("Who may see it"), widget=forms.Select(attrs={"class": "form-select"})
    )
    save_says = forms.CharField(
        label=gettext_lazy("What it is for"),
        max_length=255,
        required=False,
        validators=[one_line],
        widget=forms.TextInput(attrs={"class": "form-control", "autocomplete": "off"}),
    )

    def __init__(
        self,
        data: Mapping[str, Any] | None,
        *,
        user: User,
        flags: Iterable[str],
        opened: Template | None,
        over: bool = False,
    ) -> None:
        super().__init__(data, initial=_initial(opened) if opened else {"save_for": ME})
        for name in ("save_name", "save_says") if opened and over else ():
            _let_stay(self.fields[name], self.initial[name])
        choices = [(ME, _("Only me")), *((OF + flag, _("Members of %s") % flag) for flag in flags)]
        if access.is_operator(user):
            choices.append((ALL, _("Everybody")))
        field = self.fields["save_for"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices


def _let_stay(field: forms.Field, held: str) -> None:
    """Let a template keep the words that it has, whatever is in them."""

    def check(value: str) -> None:
        if value != held:
            one_line(value)

    field.validators = [check if each is one_line else each for each in field.validators]


def _initial(opened: Template) -> dict[str, str]:
    return {
        "save_name": opened.name,
        "save_says": opened.description,
        "save_for": _readers(opened),
    }


def _readers(template: Template) -> str:
    if template.business:
        return OF + template.business.flag
    return ME if template.user_id else ALL


def offers(user: User) -> list[Offer]:
    """Return every template that `user` may start from, in the order of names."""
    changeable = set(Template.objects.changeable_by(user).values_list("pk", flat=True))
    found = Template.objects.visible_to(user).select_related("business")
    return [
        Offer(
            id=template.pk,
            name=template.name,
            description=template.description,
            seen_by=_seen_by(template),
            changeable=template.pk in changeable,
        )
        for template in found
    ]


def _seen_by(template: Template) -> str:
    if template.business:
        return _("Members of %s") % template.business.flag
    return _("Only me") if template.user_id else _("Everybody")


def opened(user: User, given: str | None) -> Template | None:
    """Return the template that the form was started from, where there is (still) one that the user may see."""
    if not given or not (given.isascii() and given.isdigit() and len(given) < 19):
        return None
    return Template.objects.visible_to(user).select_related("business").filter(pk=int(given)).first()


def changeable(user: User, pk: int) -> Template:
    """Return a template that `user` may change or remove; the others do not exist for him."""
    return get_object_or_404(Template.objects.changeable_by(user), pk=pk)


def save(user: User, said: Mapping[str, Any], document: Mapping[str, Any], over: Template | None) -> Template:
    """Keep a document as a template, without its secrets: a new one, or in place of `over`."""
    business, owner = _kept_for(user, said)
    if over is None:
        over = Template(user=owner)
    elif business is None:
        over.user = owner
    over.name, over.description = said["save_name"], said["save_says"]
    over.business, over.config = business, masked(document)
    with transaction.atomic():
        over.save()
        audit.note("template.saved", by=user, on=over)
    return over


def name_taken(user: User, said: Mapping[str, Any], over: Template | None) -> str:
    """Return what is wrong with a name that another template of the same readers has; blank where none has it."""
    business, owner = _kept_for(user, said)
    if not templates.name_taken(user, said["save_name"], business, owner, over):
        return ""
    return _("There is a template of this name: choose another name, or open that one to change it.")


def _kept_for(user: User, said: Mapping[str, Any]) -> tuple[Business | None, User | None]:
    """Return the business whose members may see it, else the only one who may; neither: everybody may."""
    readers = said["save_for"]
    if readers.startswith(OF):
        return Business.objects.get(flag=readers.removeprefix(OF)), user
    return None, None if readers == ALL else user
