"""Every field of the config document: its check, its default, its meaning in one sentence."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs import source_fields
from jobs.values import (
    LONGEST_SCRIPT,
    Check,
    Fault,
    Invalid,
    Secret,
    checked,
    choice,
    duration,
    elasticity,
    flag,
    image,
    known,
    listed,
    moment,
    names,
    refuse,
    shape,
    shown,
    text,
    whole,
    wrong_type,
)

MOST_ENV = 256
YEAR_S = 366 * 86400
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
PLATFORM_NAMES = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
        "RANK",
        "NODE_RANK",
        "WORLD_SIZE",
        "NNODES",
        "MASTER_ADDR",
        "MASTER_PORT",
    }
)


def env(value: object) -> dict[str, str | Secret]:
    """Take {NAME: "value"} and {NAME: {"value": "…", "secret": true}}."""
    if not isinstance(value, dict):
        wrong_type(value, _('an object such as {"EPOCHS": "3"}'))
    if len(value) > MOST_ENV:
        refuse("length", _("At most %d variables are taken.") % MOST_ENV)
    faults = [Fault(shown(name), "name", problem) for name in value if (problem := _bad_env_name(name))]
    found = checked(((shown(name), entry, _env_value) for name, entry in value.items()), faults)
    if faults:
        raise Invalid(faults)
    return found


def _bad_env_name(name: object) -> str:
    if not isinstance(name, str) or not _ENV_NAME.fullmatch(name):
        return _("Write a name of letters, digits and underscores that starts with no digit, 128 at most.")
    if name in PLATFORM_NAMES or name.startswith("TAIJI_"):
        return _("The platform sets this name itself; choose another one.")
    return ""


def _env_value(value: object) -> str | Secret:
    take = text(LONGEST_SCRIPT, lines=True)
    if isinstance(value, str):
        return str(take(value))
    if not isinstance(value, dict):
        wrong_type(value, _('a text in quotes, such as "3", or {"value": "3", "secret": true}'))
    parts = shape({"value": take, "secret": flag})(value)
    if parts.get("secret"):
        return Secret(parts.get("value") or None)
    if "value" not in parts:
        raise Invalid([Fault("value", "required", _("Give the value of this variable."))])
    return str(parts["value"])


def anything(value: object) -> object:
    """Take any value, of a field whose use is refused."""
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of the document."""

    check: Check
    says: str | Promise
    json: Mapping[str, Any]  # its type in the words of JSON Schema
    default: Any = None  # stands in the normal form where the field is absent; None: stays absent
    refused: str | Promise = ""  # why this installation doesn't take it, and what to do instead


def _texts(longest: int, says: str | Promise, *, lines: bool = False, refused: str | Promise = "") -> Field:
    return Field(check=text(longest, lines=lines), says=says, json={"type": "string"}, refused=refused)


def _names(longest: int, says: str | Promise) -> Field:
    return Field(check=known(longest), says=says, json={"type": "string"})


def _flags(says: str | Promise) -> Field:
    return Field(check=flag, says=says, json={"type": "boolean"}, default=False)


def _numbers(least: int, most: int, default: int, says: str | Promise) -> Field:
    limits = {"type": "integer", "minimum": least, "maximum": most}
    return Field(check=whole(least, most), says=says, json=limits, default=default)


def _spans(says: str | Promise) -> Field:
    return Field(check=duration(10 * YEAR_S), says=says, json={"type": ["integer", "string"]})


_t = gettext_lazy
FIELDS: dict[str, Field] = {
    "Token": _texts(512, _t("Your API token; the header Authorization: Token … does the same.")),
    "business_flag": _names(64, _t("The business that the task belongs to.")),
    "host_num": _numbers(1, 10_000, 1, _t("How many hosts.")),
    "host_gpu_num": _numbers(1, 1024, 1, _t("How many cards on each host.")),
    "image_full_name": Field(
        check=image,
        says=_t("Container image. Absent: the one that operators chose for all, else the host itself."),
        json={"type": "string"},
    ),
    "model_local_file_path": _texts(
        1024, _t("Folder with the code on your machine; taiji submit uploads it and fills in upload.")
    ),
    "upload": Field(
        check=source_fields.digest,
        says=_t("Digest of uploaded code, sha256:…, as PUT uploads/ took it."),
        json={"type": "string", "example": "sha256:" + "0" * 64},
    ),
    "task_flag": _texts(255, _t("Name of the task; by default business_flag and the time.")),
    "GPUName": Field(
        check=names,
        says=_t("GPU types to try in this order, behind commas; by default those of the business."),
        json={"type": "string", "example": "M40,P40"},
    ),
    "is_elasticity": Field(
        check=elasticity,
        says=_t("true: elastic; false: high, within quota; auto: high where quota lasts, else elastic."),
        json={"enum": [True, False, "auto"]},
        default=False,
    ),
    "start_cmd": _texts(
        LONGEST_SCRIPT,
        _t("Shell command that is the task; where there is code by default its ./start.sh, else ./start.py."),
        lines=True,
    ),
    "exit_cmd": _texts(
        LONGEST_SCRIPT,
        _t("Shell command run beside the task when it is to end; 30 seconds in all."),
        lines=True,
    ),
    "exec_start_in_all_mpi_pods": _flags(_t("Run start_cmd on every host, not only on the first.")),
    "enable_evicted_pulled_up": _flags(_t("Start again by itself after an eviction.")),
    "keep_alive": _flags(_t("Keep the place for 30 minutes after the end.")),
    "dataset_id": Field(
        check=source_fields.number,
        says=_t("A dataset that the business knows, by its number; then dataset_params is ignored."),
        json={"type": ["string", "integer"]},
    ),
    "dataset_params": Field(
        check=source_fields.ceph,
        says=_t("Private ceph folders to mount."),
        json={"type": "object"},
    ),
    "model_id": Field(
        check=source_fields.number,
        says=_t(
            "Code that the business knows, by its number; then model_params, upload and model_local_file_path "
            "are ignored."
        ),
        json={"type": ["string", "integer"]},
    ),
    "model_params": Field(
        check=source_fields.git,
        says=_t("Code from git."),
        json={"type": "object"},
    ),
    "priority": Field(
        check=choice("low", "medium", "high"),
        says=_t("Order inside the business."),
        json={"enum": ["low", "medium", "high"]},
        default="medium",
    ),
    "time_limit": _spans(_t("Stopped and failed after so long: seconds, or text such as 2h30m.")),
    "not_before": Field(
        check=moment,
        says=_t("Does not start before this time, given with its zone."),
        json={"type": "string", "format": "date-time"},
    ),
    "retry_limit": _numbers(0, 100, 0, _t("How often to try again after a failure.")),
    "checkpoint_interval": _spans(
        _t("How often the task writes a checkpoint: seconds, or text such as 10m.")
    ),
    "env": Field(
        check=env,
        says=_t("Environment variables; secret ones are never shown again."),
        json={
            "type": "object",
            "additionalProperties": {
                "oneOf": [
                    {"type": "string"},
                    {
                        "type": "object",
                        "properties": {"value": {"type": "string"}, "secret": {"type": "boolean"}},
                    },
                ]
            },
        },
    ),
    "region": _names(64, _t("The region to stay in.")),
    "tags": Field(
        check=listed(32, text(64)),
        says=_t("Words to find the task by."),
        json={"type": "array", "items": {"type": "string"}},
    ),
    "depends_on": Field(
        check=anything,
        says=_t("Tasks to wait for."),
        json={},
        refused=_t(
            "This installation does not wait for other tasks yet; submit this one when they have ended."
        ),
    ),
    "array": Field(
        check=anything,
        says=_t("Many tasks from one document."),
        json={},
        refused=_t("This installation takes no arrays yet; submit the tasks one by one."),
    ),
    "notify": Field(
        check=anything,
        says=_t("Whom to tell."),
        json={},
        refused=_t("This installation sends no messages yet; look at the task's page."),
    ),
}
