"""Names of tasks are searched by their index where there is one, also where it came later than the process."""

import pytest
from django.db import connection

from jobs import name_search
from tests.world import World


@pytest.mark.django_db
def test_an_index_of_names_that_comes_later_is_used_without_a_restart(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(name_search, "_pieces", {})
    task = world.task(task_flag="night-run")
    if connection.vendor != "postgresql":  # lists look at the names themselves
        assert name_search.ids("night", 5) is None
        return
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {name_search.NAMES} RENAME TO put_away")
        assert name_search.ids("night", 5) is None
        cursor.execute(f"ALTER TABLE put_away RENAME TO {name_search.NAMES}")
    assert name_search.ids("night", 5) == [task.pk]
