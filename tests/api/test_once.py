"""A request that is repeated under its key is answered as before and does nothing more."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
import time_machine
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

from cluster import clock
from jobs import kept_answers, services
from jobs.models import KeptAnswer, Task
from quotas.models import ApiToken
from tests.api.conftest import Caller, doc, errors
from tests.world import World

Call = Callable[[User], Caller]


def same(first: Any, again: Any) -> bool:
    return (first.status_code, first.content) == (again.status_code, again.content)


def test_a_repeated_submission_gets_the_same_answer_word_for_word(ann: Caller) -> None:
    first = ann.post("tasks/", doc(), Idempotency_Key="k1")
    ann.post(f"tasks/{first.json()['id']}/hold/")
    again = ann.post("tasks/", doc(), Idempotency_Key="k1")
    assert same(first, again)
    assert (first.status_code, again.json()["state"]) == (201, "queued")
    assert ("Idempotency-Replayed" in first, again["Idempotency-Replayed"]) == (False, "true")
    assert Task.objects.count() == 1


def test_the_order_of_fields_makes_no_other_request(ann: Caller) -> None:
    first = ann.post("tasks/", {"business_flag": "ads", "start_cmd": "true"}, Idempotency_Key="k1")
    again = ann.post("tasks/", {"start_cmd": "true", "business_flag": "ads"}, Idempotency_Key="k1")
    assert same(first, again)


def test_a_key_of_another_address_is_taken(ann: Caller) -> None:
    task = ann.post("tasks/", doc(), Idempotency_Key="k1").json()["id"]
    response = ann.post(f"tasks/{task}/stop/", Idempotency_Key="k1")
    assert (response.status_code, errors(response)) == (409, {"": "idempotency_key_reused"})
    assert Task.objects.get().state == "queued"


def test_a_token_for_another_business_gets_no_answer_that_was_kept(ann: Caller, world: World) -> None:
    world.user("ann", "speech")
    business = world.business("speech")
    secret = ApiToken.objects.issue(ann.user, "speech", business_id=business.pk)
    assert ann.post("tasks/", doc(), Idempotency_Key="k1").status_code == 201
    ann.token = secret
    response = ann.post("tasks/", doc(), Idempotency_Key="k1")
    assert (response.status_code, errors(response)) == (409, {"": "idempotency_key_reused"})


def test_a_stop_that_is_repeated_is_no_conflict(ann: Caller) -> None:
    task = ann.post("tasks/", doc()).json()["id"]
    first = ann.post(f"tasks/{task}/stop/", Idempotency_Key="k1")
    assert same(first, ann.post(f"tasks/{task}/stop/", Idempotency_Key="k1"))
    assert ann.post(f"tasks/{task}/stop/").status_code == 409


def test_a_retry_that_is_repeated_makes_one_task(ann: Caller) -> None:
    task = ann.post("tasks/", doc()).json()["id"]
    ann.post(f"tasks/{task}/stop/")
    first, again = (ann.post(f"tasks/{task}/retry/", Idempotency_Key="k1") for _ in range(2))
    assert (first.status_code, same(first, again)) == (201, True)
    assert Task.objects.count() == 2


def test_what_was_refused_is_looked_at_anew(ann: Caller, world: World) -> None:
    asked = doc(host_num=3, host_gpu_num=8, is_elasticity=True)
    assert ann.post("tasks/", asked, Idempotency_Key="k1").status_code == 400
    world.host("h3", 8, "P40")
    assert ann.post("tasks/", asked, Idempotency_Key="k1").status_code == 201


def test_what_broke_off_is_done_at_the_next_try(ann: Caller) -> None:
    with patch("jobs.api.rows.just_made", side_effect=RuntimeError), pytest.raises(RuntimeError):
        ann.post("tasks/", doc(), Idempotency_Key="k1")
    assert not Task.objects.exists()
    assert ann.post("tasks/", doc(), Idempotency_Key="k1").status_code == 201


def test_after_a_day_the_key_is_new_again(ann: Caller) -> None:
    ann.post("tasks/", doc(), Idempotency_Key="k1")
    KeptAnswer.objects.update(at=timezone.now() - timedelta(hours=25))
    assert ann.post("tasks/", doc(host_num=2), Idempotency_Key="k1").status_code == 201
    assert (Task.objects.count(), KeptAnswer.objects.count()) == (2, 1)


def test_a_server_whose_clock_is_a_day_ahead_gives_the_same_answer(
    ann: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ann.post("tasks/", doc(), Idempotency_Key="k1")
    monkeypatch.setattr(clock, "follows", True)
    with time_machine.travel(timezone.now() + timedelta(hours=25)):
        assert same(first, ann.post("tasks/", doc(), Idempotency_Key="k1"))
    assert Task.objects.count() == 1


def test_old_answers_are_removed_and_others_stay(ann: Caller) -> None:
    for key in ("old", "new"):
        ann.post("tasks/", doc(), Idempotency_Key=key)
    KeptAnswer.objects.filter(key="old").update(at=timezone.now() - timedelta(hours=25))
    assert kept_answers.forget_old(timezone.now()) == 1
    assert KeptAnswer.objects.get().key == "new"


def test_no_secret_is_kept_with_an_answer(ann: Caller) -> None:
    written = doc(env={"KEY": {"value": "hush-hush", "secret": True}}, Token=ann.token)
    assert ann.post("tasks/", written, Idempotency_Key="k1").status_code == 201
    kept = repr(KeptAnswer.objects.values().get())
    assert "hush-hush" not in kept
    assert ann.token not in kept


@pytest.mark.django_db(transaction=True)
def test_requests_at_the_same_moment_make_one_task(ann: Caller) -> None:
    def post(_number: int) -> tuple[int, bytes]:
        try:
            response = ann.post("tasks/", doc(), Idempotency_Key="k1")
            return response.status_code, response.content
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        answers = Counter(pool.map(post, range(12)))
    assert [(status, number) for (status, _body), number in answers.items()] == [(201, 12)]
    assert Task.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_task_is_there_only_with_its_answer(ann: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process may be killed after the task was made and before its answer was kept."""

    def dies(*_args: Any, **_kwargs: Any) -> None:
        raise SystemExit

    with patch("jobs.api.once._keep", dies), pytest.raises(SystemExit):
        ann.post("tasks/", doc(), Idempotency_Key="k1")
    assert not Task.objects.exists()
    assert not KeptAnswer.objects.exists()


def test_the_key_of_a_page_is_another_one(ann: Caller) -> None:
    services.submit(ann.user, doc(), idempotency_key="k1")
    assert ann.post("tasks/", doc(), Idempotency_Key="k1").status_code == 201
    assert Task.objects.count() == 2
