"""The submit form: every field of the config document that this installation runs, as people type it."""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Protocol

from django import forms
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from jobs.portal import words
from jobs.values import shown

REST = "rest"  # the field for what has none of its own
FLAGS = ("enable_evicted_pulled_up", "keep_alive", "exec_start_in_all_mpi_pods")
TEXTS = (
    *("business_flag", "task_flag", "GPUName", "region", "image_full_name", "priority"),
    *("start_cmd", "exit_cmd"),
    *("upload", "model_local_file_path", "model_id", "dataset_id"),
)
OBJECTS = ("model_params", "dataset_params")  # typed as JSON
NUMBERS = ("host_num", "host_gpu_num", "time_limit", "checkpoint_interval", "retry_limit")
KEPT: dict[str, Any] = {"secret": True}  # a secret without its value: that of the copied task is meant
CLASSES: dict[str, bool | str] = {"false": False, "true": True, "auto": "auto"}


class Fault(Protocol):
    """One thing that is wrong with a document."""

    @property
    def field(self) -> str:
        """Return the path of the field, such as `host_num` or `env.NAME`."""

    @property
    def message(self) -> str:
        """Return what is wrong and what would do."""


class Typed(forms.CharField):
    """What was typed, whatever it is: Django's own would leave a text with a NUL out instead of refusing it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.validators = []

    def to_python(self, value: Any) -> Any:
        """Take the lines as they were typed: browsers send each end of line as CRLF."""
        return super().to_python(value.replace("\r\n", "\n") if isinstance(value, str) else value)


def _text(label: Any, help_text: Any = "", **attrs: object) -> Typed:
    look = {"class": "form-control", "autocomplete": "off", **attrs}
    return Typed(
        label=label, help_text=help_text, required=False, strip=False, widget=forms.TextInput(attrs=look)
    )


def _number(label: Any, help_text: Any = "", least: int = 0) -> Typed:
    # A text field with a number's looks: whether it is a good number is the document's to say.
    look = {"class": "form-control", "min": least, "step": 1, "inputmode": "numeric"}
    return Typed(label=label, help_text=help_text, required=False, widget=forms.NumberInput(attrs=look))


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


def _flag(label: Any, help_text: Any = "") -> forms.BooleanField:
    widget = forms.CheckboxInput(attrs={"class": "form-check-input"})
    return forms.BooleanField(label=label, help_text=help_text, required=False, widget=widget)


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
        _("One or several, tried in this order. Blank: the business's own."),
        placeholder="P40, M40",
    )
    host_num = _number(_("Hosts"), least=1)
    host_gpu_num = _number(_("Cards on each host"), least=1)
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
        _("Inside the business."),
        [
            ("", "—"),
            ("low", pgettext_lazy("priority", "low")),
            ("medium", pgettext_lazy("priority", "medium")),
            ("high", pgettext_lazy("priority", "high")),
        ],
    )
    image_full_name = _text(
        _("Container image"), _("Blank: as operators chose."), maxlength=512, placeholder="registry/name:tag"
    )
    time_limit = _text(_("Time limit"), _("Seconds, or 2h30m. Blank: none."))
    checkpoint_interval = _text(_("Checkpoint every"), _("Seconds, or 10m."))
    retry_limit = _number(_("Retries after failures"))
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
        self._offer("business_flag", [(flag, flag) for flag in businesses])
        self._offer("region", [("", _("any")), *((name, name) for name in regions)])
        self._typed: dict[str, Any] = {}
        self.general: list[str] = []  # faults that belong to no field of the form

    def _offer(self, name: str, choices: list[tuple[str, Any]]) -> None:
        widget = self.fields[name].widget
        assert isinstance(widget, forms.Select)
        given = str(self.data.get(name) or self.initial.get(name) or "")
        if given and given not in {value for value, _label in choices}:
            choices.append(
                (given, given)
            )  # what was typed is never replaced in silence; the document refuses it
        widget.choices = choices

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
        self.is_valid()
        typed = self._typed = dict(self.cleaned_data)  # a copy: add_error takes the field out of cleaned_data
        document = self._object(REST)
        document |= {name: found for name in OBJECTS if (found := self._object(name))}
        document |= {name: typed[name] for name in TEXTS if typed[name].strip()}
        document |= {name: _as_number(typed[name]) for name in NUMBERS}
        document |= {name: True for name in FLAGS if typed[name]}
        chosen = typed["is_elasticity"]
        document["is_elasticity"] = CLASSES.get(chosen, chosen or False)
        document["not_before"] = _as_moment(typed["not_before"])
        given = document.get("env")
        document["env"] = (given if isinstance(given, dict) else {}) | self._env()
        return {name: value for name, value in document.items() if value not in ("", {})}

    def _object(self, name: str) -> dict[str, Any]:
        """Return the JSON object in a field."""
        text = self._typed[name].strip() or "{}"
        try:
            found = json.loads(text)
        except RecursionError:
            self.add_error(name, _("This is nested too deeply; no field needs that."))
            return {}
        except ValueError as error:
            self.add_error(name, _("This is not JSON: %(error)s.") % {"error": error})
            return {}
        if not isinstance(found, dict):
            self.add_error(name, _('A JSON object is needed, such as {"tags": ["night"]}.'))
            return {}
        return found

    def _env(self) -> dict[str, Any]:
        plain = {name: value or "" for name, value in self._lines("env").items()}
        secret = self._lines("secret_env", name_alone=True)
        return plain | {
            name: KEPT if value is None else {"value": value, "secret": True}
            for name, value in secret.items()
        }

    def _lines(self, field: str, *, name_alone: bool = False) -> dict[str, str | None]:
        """Return NAME → value of the lines of a field; None where a line is a name alone."""
        found: dict[str, str | None] = {}
        for number, line in enumerate(self._typed[field].splitlines(), start=1):
            name, equals, value = line.partition("=")
            if not line.strip():
                continue
            if not equals and not name_alone:
                self.add_error(field, _("Line %(number)d has no “=”.") % {"number": number})
            found[name.strip()] = value if equals else None
        return found

    def blame(self, faults: Iterable[Fault]) -> None:
        """Put each fault beside its field, and those that have none above the form."""
        for fault in faults:
            root = fault.field.partition(".")[0].partition("[")[0]
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
        secret = {shown(typed) for typed in self._lines("secret_env", name_alone=True)}
        field = "secret_env" if name in secret else "env"
        self.add_error(field, f"{name}: {fault.message}" if name else fault.message)

    def _typed_rest(self) -> dict[str, Any]:
        try:
            return dict(json.loads(self._typed[REST] or "{}"))
        except (ValueError, TypeError, RecursionError):
            return {}


def without_kept_secrets(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document without secrets that a copy takes over: no verdict depends on them."""
    env = {name: value for name, value in document.get("env", {}).items() if value != KEPT}
    objects = {name: _with_any_secret(document[name]) for name in OBJECTS if name in document}
    return {**document, **objects, "env": env}


def _with_any_secret(value: Any) -> Any:
    """Return the value with some text in the places of secrets that a copy takes over."""
    if value == KEPT:
        return "kept"
    if isinstance(value, dict):
        return {name: _with_any_secret(inner) for name, inner in value.items()}
    return [_with_any_secret(inner) for inner in value] if isinstance(value, list) else value


def typed(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a person would have typed to get `document`: the initial values of the form."""
    fields = ConfigForm.base_fields
    values = {name: value for name, value in document.items() if name in fields and name != "env"}
    values |= {name: json.dumps(document[name], ensure_ascii=False) for name in OBJECTS if name in document}
    values["is_elasticity"] = _class_of(document.get("is_elasticity", False))
    if isinstance(types := document.get("GPUName"), list):
        values["GPUName"] = ", ".join(types)
    if moment := document.get("not_before"):
        values["not_before"] = _local(str(moment))
    env = document.get("env", {})
    plain = {name: value for name, value in env.items() if isinstance(value, str)}
    values["env"] = "\n".join(f"{name}={value}" for name, value in plain.items() if _one_line(value))
    values["secret_env"] = "\n".join(name for name in env if name not in plain)
    rest = {name: value for name, value in document.items() if name not in fields}
    if long := {name: value for name, value in plain.items() if not _one_line(value)}:
        rest["env"] = long
    values[REST] = json.dumps(rest, ensure_ascii=False) if rest else ""
    return values


def _one_line(value: str) -> bool:
    return len(value.splitlines()) < 2 and not value.endswith(("\n", "\r"))


def _class_of(value: object) -> str:
    return next((name for name, meant in CLASSES.items() if meant == value), "false")


def _as_number(text: str) -> int | str:
    """Return the number that was typed, or the text itself for the document to refuse."""
    text = text.strip()
    return int(text) if text.isascii() and text.removeprefix("-").isdigit() and len(text) < 19 else text


def _as_moment(text: str) -> str:
    """Return a local time as the document wants it, with its zone; what is none stays as typed."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return (timezone.make_aware(moment) if timezone.is_naive(moment) else moment).isoformat()


def _local(text: str) -> str:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return (timezone.localtime(moment) if timezone.is_aware(moment) else moment).strftime("%Y-%m-%dT%H:%M")
