"""What hosts are told of the code and the data of a task."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography.fernet import InvalidToken
from django.conf import settings

from cluster import bundles, rows, vault
from cluster.models import Instance
from jobs.materials import Code
from jobs.models import Attempt, Task

FIELDS = frozenset({"upload", "model_id", "model_params", "dataset_id", "dataset_params"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The parts of a spec that bring code and data; `secrets` are None where the present keys cannot read them."""

    code: dict[str, Any] | None = None
    data: tuple[dict[str, Any], ...] = ()
    secrets: dict[str, str] | None = field(default_factory=dict)

    def of_rank(self, rank: int, members: int) -> dict[str, Any]:
        """Return what the spec of one member says: one whose commit is not chosen yet follows the first."""
        found: dict[str, Any] = {}
        if self.code:
            follows = rank > 0 and members > 1 and self.code["kind"] == "git" and not self.code["commit"]
            found["code"] = {**self.code, "follow": True} if follows else self.code
        if self.data:
            found["data"] = list(self.data)
        return found | ({"prepare_s": settings.PREPARE_S} if found else {})


NOTHING = Sources()


def load(configs: Mapping[int, Mapping[str, Any]]) -> dict[int, Sources]:
    """Return the sources of the tasks that have any, by task; at most three queries, none where no task has."""
    ids = [task for task, config in configs.items() if FIELDS & config.keys()]
    if not ids:
        return {}
    found = Task.objects.filter(pk__in=rows.among(ids)).values_list(
        "pk", "code__kind", "code__params", "code__secrets", "dataset__params", "dataset__secrets"
    )
    listed = list(found)
    ran = _commits([pk for pk, kind, params, *_rest in listed if kind == Code.Kind.GIT])
    return {
        pk: Sources(
            code=_code(kind, params, ran.get(pk, "")) if kind else None,
            data=tuple(data["mounts"]) if data else (),
            secrets=_secrets(sealed, data_sealed),
        )
        for pk, kind, params, sealed, data, data_sealed in listed
    }


def _code(kind: str, params: Mapping[str, Any], ran: str) -> dict[str, Any]:
    limits = bundles.limits()
    most = {"files": limits.files, "bytes": limits.bytes}
    if kind == Code.Kind.UPLOAD:
        return {"kind": "upload", "digest": params["digest"], **most}
    asked = params.get("commit", "")
    # What an earlier attempt ran stands: a checkpoint belongs to the code that wrote it.
    branch = params.get("branch", "")
    return {"kind": "git", "url": params["url"], "branch": branch, "commit": ran or asked, **most}


def _commits(tasks: Collection[int]) -> dict[int, str]:
    """Return the commits that the tasks ran first."""
    if not tasks:
        return {}
    attempts = dict(Attempt.objects.filter(task__in=rows.among(tasks)).values_list("pk", "task_id"))
    ran = Instance.objects.filter(gang__in=rows.among(attempts)).exclude(commit="")
    found = ran.order_by("-gang", "-rank").values_list("gang", "commit")
    return {attempts[gang]: commit for gang, commit in found}


def _secrets(*sealed: str | None) -> dict[str, str] | None:
    try:
        return {path: value for text in sealed for path, value in vault.unseal(text or "").items()}
    except InvalidToken:
        return None
