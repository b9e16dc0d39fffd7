"""People who submit and steer tasks over HTTP, and operators; whoever is not answered asks again."""

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import httpx
from django.db import DatabaseError, connection

from cluster.models import GpuType, Host
from jobs import services
from jobs.models import Policy, Task
from jobs.states import State
from quotas.models import ApiToken, Business, Quota
from tests.chaos.chronicle import Chronicle
from tests.chaos.deeds import Deed
from tests.chaos.installation import host_of
from tests.chaos.work import OWNERS, document
from tests.world import World

PATIENCE_S = 5.0  # for one answer
LINE = 12  # who sees so many waiting submits nothing elastic: there is always work, and it comes to an end
AGAIN_S = 0.5
FIRST_QUOTAS = {"ads": {"P40": 7, "M40": 4}, "speech": {"P40": 5, "M40": 0}}
# As the product has them by default, but in seconds where those are minutes: hosts are lost and given up,
# evictions reach their cap, and starts their deadline while somebody watches.
POLICY: dict[str, float] = {
    "min_run_s": 1,
    "max_evictions_per_hour": 3,
    "exit_grace_s": 2,
    "plan_lapse_s": 20,
    "start_deadline_s": 40,
    "pull_up_backoff_s": 0.2,
    "lost_after_s": 25,
    "restart_lost_s": 5,
    "reserve_after_s": 30,
    "aging_s": 60,
    "quarantine_after": 0,
}
VERBS = {"stop_task": "stop", "hold": "hold", "release": "release", "free": "free", "retry": "retry"}


class Unanswered(Exception):
    """Nobody knows whether it was done: it is asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked for and not answered yet."""

    deed: Deed
    key: str
    due: float = 0.0
    undo: bool = False


class People:
    """All who use the installation; `accepted` maps keys of submissions to the tasks that were made of them."""

    def __init__(self, url: str, seed: int, chronicle: Chronicle) -> None:
        """Talk to the platform at `url`."""
        self._http = httpx.Client(base_url=f"{url}/api/v1/", timeout=PATIENCE_S, trust_env=False)
        self._seed = seed
        self._chronicle = chronicle
        self._tokens: dict[str, str] = {}
        self._began = 0.0
        self._coming: deque[Deed] = deque()
        self._number = 0
        self._waiting: deque[Asked] = deque()
        self._at_hand = 0
        self._lock = threading.Lock()
        self.accepted: dict[str, int] = {}
        self.owners: dict[int, str] = {}

    def settle_in(self) -> None:
        """Make businesses with quotas, people with tokens, and the policy."""
        world = World()
        for flag, cards in FIRST_QUOTAS.items():
            world.business(flag, **cards)
        for flag, name in OWNERS.items():
            self._tokens[flag] = ApiToken.objects.issue(world.user(name, flag), "chaos")
        Policy.objects.update_or_create(pk=1, defaults={"values": POLICY})

    @property
    def unanswered(self) -> int:
        """Return how much was asked for and not answered."""
        with self._lock:
            return len(self._waiting) + self._at_hand

    def begin(self, deeds: list[Deed]) -> None:
        """Ask for each deed at its time from now on."""
        self._began = time.monotonic()
        self._coming = deque(deed for deed in deeds if deed.kind in self._ways)

    def run(self, over: threading.Event) -> None:
        """Ask, and again for what was not answered, until `over`; several threads may."""
        while not over.is_set():
            if asked := self._next():
                self._ask(asked)
            else:
                time.sleep(0.05)
        connection.close()

    def _next(self) -> Asked | None:
        """Take what is to be asked for now."""
        now = time.monotonic()
        with self._lock:
            while self._coming and self._coming[0].at <= now - self._began:
                self._number += 1
                key = f"chaos-{self._seed}-{self._number}"
                self._waiting.append(Asked(deed=self._coming.popleft(), key=key))
            asked = next((asked for asked in self._waiting if asked.due <= now), None)
            if asked is not None:
                self._waiting.remove(asked)
                self._at_hand += 1
        return asked

    def _ask(self, asked: Asked) -> None:
        more: Asked | None = None
        try:
            done = self._ways[asked.deed.kind](asked)
        except (Unanswered, httpx.TransportError, DatabaseError):
            connection.close()
            more = replace(asked, due=time.monotonic() + AGAIN_S)
        else:
            if done:
                self._chronicle.done(asked.deed.kind, done, host_of(asked.deed.target))
            if asked.deed.for_s and not asked.undo:
                more = replace(asked, due=time.monotonic() + asked.deed.for_s, undo=True)
        with self._lock:
            self._at_hand -= 1
            if more is not None:
                self._waiting.append(more)

    @property
    def _ways(self) -> dict[str, Callable[[Asked], str]]:
        steer = dict.fromkeys(VERBS, self._steer)
        return {**steer, "submit": self._submit, "quota": self._quota, "host": self._host}

    def _submit(self, asked: Asked) -> str:
        if not asked.deed.word.startswith("high") and Task.objects.waiting().count() >= LINE:
            return ""
        config = document(asked.deed)
        flag = config["business_flag"]
        answer = self._post("tasks/", flag, json=config, key=asked.key)
        if _is_over_quota(answer):
            return ""  # the whole quota was so small just then
        if answer.status_code != 201:
            raise AssertionError(f"a good document was refused: {answer.status_code} {answer.text}")
        return self._made(answer.json()["id"], flag, asked.key, str(asked.deed))

    def _made(self, task: int, flag: str, key: str, says: str) -> str:
        self.accepted[key], self.owners[task] = task, flag
        return f"{says}: task {task}"

    def _steer(self, asked: Asked) -> str:
        tasks = sorted(self.owners)[-60:]
        if not tasks:
            return ""
        task, verb = tasks[asked.deed.pick % len(tasks)], VERBS[asked.deed.kind]
        answer = self._post(f"tasks/{task}/{verb}/", self.owners[task])
        if answer.status_code == 409 or _is_over_quota(answer):
            return ""  # its state does not allow that now, or the whole quota is too small for a retry
        if answer.status_code == 201:
            return self._made(answer.json()["id"], self.owners[task], asked.key, f"{verb} task {task}")
        if answer.status_code != 200:
            raise AssertionError(f"{verb} of task {task}: {answer.status_code} {answer.text}")
        return f"{verb} task {task}"

    def _post(self, path: str, flag: str, key: str = "", json: object = None) -> httpx.Response:
        headers = {"Authorization": f"Token {self._tokens[flag]}"}
        answer = self._http.post(path, headers=headers | ({"Idempotency-Key": key} if key else {}), json=json)
        if answer.status_code >= 500:
            raise Unanswered(answer.text)
        return answer

    def _quota(self, asked: Asked) -> str:
        deed = asked.deed
        Quota.objects.filter(
            business=Business.objects.get(flag=deed.target),
            gpu_type=GpuType.objects.get(name=deed.word),
            region=None,
        ).update(cards=int(deed.number))
        return str(deed)

    def _host(self, asked: Asked) -> str:
        state = Host.State.READY if asked.undo else asked.deed.word
        name = host_of(asked.deed.target)
        Host.objects.filter(name=name).update(state=state)
        return f"host {name} {state}"

    def calm(self) -> None:
        """Give back what was taken: quotas and hosts as at first, kept places free; raises DatabaseError."""
        world = World()
        for flag, cards in FIRST_QUOTAS.items():
            world.business(flag, **cards)
        Host.objects.exclude(state=Host.State.READY).update(state=Host.State.READY)
        for task in Task.objects.filter(state=State.KEEPING).select_related("user"):
            with suppress(services.Conflict):  # its time was over meanwhile
                services.free(task, task.user)


def _is_over_quota(answer: httpx.Response) -> bool:
    return answer.status_code == 400 and {fault["code"] for fault in answer.json()["errors"]} == {
        "over_quota"
    }
