"""The submit form: every field of the config document that this installation runs, as people type it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from jobs.portal import entries, words
from jobs.portal.entries import CLASSES, FLAGS, OBJECTS, REST
from jobs.values import Fault, shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """A fault as a list above or beside the form shows it."""

    message: str
    field: str = ""  # of the form; blank: none of them
    anchor: str = ""
    label: str | Promise = ""
    missing: bool = False  # a blank field that has to be filled: no mistake yet


class Typed(forms.CharField):
    """What was typed, whatever it is: Django's own would leave a text with a NUL out instead of refusing it."""

    origin: str | Promise = ""  # where the value that the form begins with comes from

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.validators = []

    def to_python(self, value: Any) -> Any:
        """Take the lines as they were typed: browsers send each end of line as CRLF."""
        return super().to_python(value.replace("\r\n", "\n") if isinstance(value, str) else value)


class Flag(forms.BooleanField):
    """Yes or no."""

    origin: str | Promise = ""


def _text(label: Any, help_text: Any = "", **attrs: object) -> Typed:
    look = {"class": "form-control", "autocomplete": "off", **attrs}
    return Typed(
        label=label, help_text=help_text, required=False, strip=False, widget=forms.TextInput(attrs=look)
    )


def _number(label: Any, help_text: Any = "") -> Typed:
    # A text field: one for numbers sends nothing at all where something else was typed.
    look = {"class": "form-control", "inputmode": "numeric", "autocomplete": "off"}
    return Typed(label=label, help_text=help_text, required=False, widget=forms.TextInput(attrs=look))


def _code(label: Any, help_text: Any = "", rows: int = 2, placeholder: str = "") -> Typed:
    look = {
        "class": "form-control font-monospace",
        "rows": rows,
        "spellcheck": "false",
        "placeholder": placeholder,
    }
    return Typed(
        label=label, help_text=help_text, required=False, strip=False, widget=forms.Textarea(attrs=look)
    )


def _choice(label: Any, help_text: Any = "", choices: Iterable[tuple[str, Any]] = ()) -> Typed:
    widget = forms.Select(attrs={"class": "form-select"}, choices=list(choices))
    return Typed(label=label, help_text=help_text, required=False, widget=widget)


def _flag(label: Any, help_text: Any = "") -> Flag:
    widget = forms.CheckboxInput(attrs={"class": "form-check-input"})
    return Flag(label=label, help_text=help_text, required=False, widget=widget)


class ConfigForm(forms.Form):
    """The document as fields; it refuses nothing itself, so that all faults of a document come together."""

    business_flag = _choice(_("Business"))
    task_flag = _text(_("Name"), _("Blank: the business and the time."), maxlength=255)
    is_elasticity = Typed(
        label=_("Class"),
        required=False,
        widget=forms.RadioSelect(choices=list(zip(CLASSES, words.CLASSES.values(), strict=True))),
    )
    GPUName = _text(
        _("GPU types"),
        _("One or several, tried in this order."),
        placeholder="P40, M40",
    )
    host_num = _number(_("Hosts"))
    host_gpu_num = _number(_("Cards on each host"))
    start_cmd = _code(
        _("Start command"), _("A shell line; $TAIJI_TASK_DIR is kept from attempt to attempt."), rows=3
    )

    enable_evicted_pulled_up = _flag(
        _("Start again after an eviction"), _("The program has to write checkpoints and load them.")
    )
    keep_alive = _flag(_("Keep the place for 30 minutes after the end"))
    exec_start_in_all_mpi_pods = _flag(
        _("Run the start command on every host"), _("Else on the first only; the others keep their place.")
    )
    exit_cmd = _code(_("Exit command"), _("Runs beside the process before it is stopped, for 30 s at most."))
    region = _choice(_("Region"))
    priority = _choice(
        _("Priority"),
        _("Inside the business. Blank: medium."),
        [
            ("", "—"),
            ("low", pgettext_lazy("priority", "low")),
            ("medium", pgettext_lazy("priority", "medium")),
            ("high", pgettext_lazy("priority", "high")),
        ],
    )
    image_full_name = _text(_("Container image"), maxlength=512, placeholder="registry/name:tag")
    time_limit = _text(_("Time limit"), _("Seconds, or 2h30m. Blank: none."))
    checkpoint_interval = _text(_("Checkpoint every"), _("Seconds, or 10m."))
    retry_limit = _number(_("Retries after failures"), _("Blank: none."))
    not_before = Typed(
        label=_("Not before"),
        required=False,
        widget=forms.DateTimeInput(attrs={"class": "form-control", "type": "datetime-local"}),
    )
    upload = _text(_("Uploaded code"), _("Its digest, as the upload answered it."), placeholder="sha256:…")
    model_local_file_path = _text(
        _("Folder it came from"), _("For people; taiji submit uploads the folder and fills both in.")
    )
    model_id = _text(_("Known code"), _("Its number; it stands before the other sources of code."))
    dataset_id = _text(_("Known dataset"), _("Its number; it stands before the mounts below."))
    model_params = _code(
        _("Code from git"),
        _("The part model_params of the config, as JSON. A token is stored encrypted and never shown again."),
        placeholder='{"path_info": {"group": "vision", "project": "resnet", "branch": "main", "private_token": "…"}}',
    )
    dataset_params = _code(
        _("Private ceph"),
        _(
            "The part dataset_params of the config, as JSON. Secrets are stored encrypted and never shown again."
        ),
        placeholder='{"ceph_info": [{"addr": "10.0.0.1:6789", "name": "ann", "secret": "…", "src_path": "/team"}]}',
    )
    env = _code(_("Environment"), _("One NAME=value a line."), rows=3, placeholder="EPOCHS=10")
    secret_env = _code(
        _("Secret environment"),
        _("The same, stored encrypted and never shown again. In a copy, a name alone keeps its value."),
        placeholder="API_KEY=…",
    )
    rest = _code(_("Other fields"), _("Further fields of the config, as a JSON object."), placeholder="{}")

    BASICS = (
        "business_flag",
        "task_flag",
        "is_elasticity",
        "GPUName",
        "host_num",
        "host_gpu_num",
        "start_cmd",
    )
    SHORT = (
        "region",
        "image_full_name",
        "priority",
        "time_limit",
        "checkpoint_interval",
        "retry_limit",
        "not_before",
    )
    LONG = ("exit_cmd", "env", "secret_env", "rest")
    SOURCES = ("upload", "model_local_file_path", "model_id", "dataset_id")

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        businesses: Iterable[str],
        regions: Iterable[str],
        initial: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(data, initial=dict(initial or {}))
        self._offer_businesses([(flag, flag) for flag in businesses])
        self._offer("region", [("", _("any")), *((name, name) for name in regions)])
        self._typed: dict[str, Any] = {}
        self._document: dict[str, Any] | None = None
        self.general: list[str] = []  # faults that belong to no field of the form
        self.missing: set[str] = set()  # fields that are blank and may not be

    def _offer_businesses(self, choices: list[tuple[str, Any]]) -> None:
        """Offer the user's own; a name of others is not shown, and none of his stands in its place unchosen."""
        widget = self.fields["business_flag"].widget
        assert isinstance(widget, forms.Select)
        given = self._given("business_flag")
        if (given or not self.is_bound) and given not in {value for value, _label in choices}:
            choices.insert(0, ("", "—"))
        widget.choices = choices

    def _given(self, name: str) -> str:
        return str(self.data.get(name) or self.initial.get(name) or "")

    def _offer(self, name: str, choices: list[tuple[str, Any]]) -> None:
        widget = self.fields[name].widget
        assert isinstance(widget, forms.Select)
        given = self._given(name)
        if given and given not in {value for value, _label in choices}:
            choices.append(
                (given, given)
            )  # what was typed is never replaced in silence; the document refuses it
        widget.choices = choices

    def say_origins(self, origins: Mapping[str, str]) -> None:
        """Say beside each field where the value that it begins with comes from."""
        for name, origin in origins.items():
            if isinstance(field := self.fields.get(name), Typed | Flag):
                field.origin = origin

    def basics(self) -> dict[str, forms.BoundField]:
        """Return the fields of the first group by name."""
        return {name: self[name] for name in self.BASICS}

    def flags(self) -> Iterator[forms.BoundField]:
        """Return the yes-or-no fields."""
        return (self[name] for name in FLAGS)

    def short(self) -> Iterator[forms.BoundField]:
        """Return the optional fields that fit in a half line."""
        return (self[name] for name in self.SHORT)

    def long(self) -> Iterator[forms.BoundField]:
        """Return the optional fields that need a whole line."""
        return (self[name] for name in self.LONG)

    def sources(self) -> Iterator[forms.BoundField]:
        """Return the fields of code and data that fit in a half line."""
        return (self[name] for name in self.SOURCES)

    def objects(self) -> Iterator[forms.BoundField]:
        """Return the fields of code and data that are typed as JSON."""
        return (self[name] for name in OBJECTS)

    def source_faults(self) -> bool:
        """Say whether code or data is named, or has a fault: then that group stands open."""
        return any(self[name].value() or self.errors.get(name) for name in (*self.SOURCES, *OBJECTS))

    def optional_faults(self) -> bool:
        """Say whether a field of the optional group has a fault: then the group stands open."""
        return any(self.errors.get(name) for name in (*FLAGS, *self.SHORT, *self.LONG))

    def document(self) -> dict[str, Any]:
        """Return the config document; what of it cannot even be read is left out, and has an error then."""
        if self._document is None:
            self.is_valid()
            self._typed = dict(self.cleaned_data)  # a copy: add_error takes the field out of cleaned_data
            found = entries.read(self._typed)
            self._document = found.document
            for name, message in found.faults:
                self.add_error(name, message)
        return dict(self._document)

    def blame(self, faults: Iterable[Fault]) -> None:
        """Put each fault beside its field, and those that have none above the form."""
        for fault in faults:
            root = fault.field.partition(".")[0].partition("[")[0]
            if fault.code == "required" and root == fault.field:
                self.missing.add(root)
            if root == "env":
                self._blame_env(fault)
            elif root in OBJECTS and root != fault.field:
                self.add_error(root, f"{fault.field.removeprefix(root + '.')}: {fault.message}")
            elif root in self.fields:
                self.add_error(root, fault.message)
            elif root in self._typed_rest():
                self.add_error(REST, f"{fault.field}: {fault.message}")
            else:
                self.general.append(f"{fault.field}: {fault.message}" if fault.field else fault.message)

    def _blame_env(self, fault: Fault) -> None:
        name = fault.field.partition(".")[2].partition(".")[0]
        secret = {shown(typed) for typed in entries.lines(self._typed, "secret_env", [], name_alone=True)}
        field = "secret_env" if name in secret else "env"
        self.add_error(field, f"{name}: {fault.message}" if name else fault.message)

    def _typed_rest(self) -> Mapping[str, Any]:
        return entries.rest(self._typed)

    def complaints(self) -> list[Complaint]:
        """Return every fault in the order of the fields, for a list that leads to them."""
        found = [
            Complaint(
                field=name,
                anchor=f"#{self[name].auto_id}",
                label=self.fields[name].label or name,
                message=str(message),
                missing=name in self.missing,
            )
            for name in self.fields
            for message in self.errors.get(name, ())
        ]
        return [*found, *(Complaint(message=message) for message in self.general)]
