"""Quotas, businesses and members as CSV: out, and in again after a look at what would change."""

import re
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from quotas.models import Business, Member, Quota
from tests.api.test_kept_admin import address, root, text
from tests.world import World

__all__ = ["root"]  # the fixture


def lines(*rows: str) -> str:
    return "".join(f"{row}\r\n" for row in rows)


def offer(browser: Client, model: Any, table: str, reason: str = "the plan of spring") -> Any:
    """Hand a table in, and return what is said of it."""
    file = SimpleUploadedFile("table.csv", table.encode(), "text/csv")
    form = {"import_file": file, "format": "0", "resource": "0", "reason": reason}
    return browser.post(address(model, "import"), form)


def confirm(browser: Client, model: Any, offered: Any) -> Any:
    """Say yes to what was shown."""
    fields = offered.context["confirm_form"]
    return browser.post(address(model, "process_import"), {one.name: one.value() for one in fields})


def preview(offered: Any) -> str:
    """Return the table of the difference."""
    found = re.search(r'<table class="import-preview">.*</table>', text(offered))
    assert found, text(offered)
    return found[0]


def written(browser: Client, model: Any) -> str:
    return str(browser.get(address(model, "export")).content.decode())


def test_what_is_written_out_and_read_in_again_changes_nothing(world: World, root: Client) -> None:
    world.user("ann", "ads", role="lead")
    Quota.objects.create(
        business=world.business("ads"),
        gpu_type=world.gpu_type(),
        region=world.region("SZ"),
        cards=4,
        elastic_cards=0,
    )
    for model in (Quota, Business, Member):
        table = written(root, model)
        offered = offer(root, model, table)
        assert "Skipped" in preview(offered)
        assert "<ins>" not in preview(offered)
        confirm(root, model, offered)
        assert written(root, model) == table
        assert model.history.count() == model.objects.count()


def test_a_table_of_quotas_shows_what_it_changes_before_it_does(world: World, root: Client) -> None:
    table = lines(
        "business,gpu_type,region,cards,elastic_cards,user_elastic_cards",
        "ads,P40,,8,,",
        "speech,p40,SZ,4,6,2",
    )
    world.business("speech")
    world.region("SZ")
    offered = offer(root, Quota, table)
    assert "<del>16</del> <ins>8</ins>" in preview(offered)
    assert "<ins>speech</ins>" in preview(offered)
    assert Quota.objects.get().cards == 16  # nothing happened yet
    confirm(root, Quota, offered)
    assert written(root, Quota) == table.replace("p40", "P40")
    record = Quota.objects.get(business__flag="ads").history.first()
    assert (record.history_change_reason, record.history_user.username) == ("the plan of spring", "root")


@pytest.mark.parametrize(
    ("model", "table", "said"),
    [
        (Quota, lines("business,gpu_type,region,cards", "nobody,P40,,8"), "no business called nobody"),
        (Quota, lines("business,gpu_type,region,cards", "ads,H1,,8"), "no GPU type called H1"),
        (Quota, lines("business,gpu_type,region,cards", "ads,P40,,-8"), "greater than or equal to 0"),
        (Quota, lines("business,gpu_type,region,cards", "ads,P40,,x"), "cards"),
        (Quota, lines("business,region,cards", "ads,,8"), "gpu_type"),
        (Business, lines("flag,name", "a/b,"), "No slashes"),
        (Business, lines("flag,default_gpu_types", 'ads,"P40, H1"'), "no such GPU type: H1"),
        (Member, lines("business,user,role", "ads,ghost,member"), "no user called ghost"),
        (Member, lines("business,user,role", "ads,root,boss"), "boss"),
    ],
)
def test_a_table_with_a_fault_says_it_and_changes_nothing(
    root: Client, model: Any, table: str, said: str
) -> None:
    before = list(model.objects.values())
    offered = offer(root, model, table)
    assert said in text(offered)
    assert "confirm_form" not in offered.context
    assert list(model.objects.values()) == before


def test_a_table_without_a_reason_is_not_looked_at(root: Client) -> None:
    offered = offer(root, Quota, lines("business,gpu_type,region,cards", "ads,P40,,8"), reason=" ")
    assert "This field is required" in text(offered)
    assert Quota.objects.get().cards == 16


def test_businesses_and_members_come_as_tables(world: World, root: Client) -> None:
    world.gpu_type("M40")
    world.user("ann")
    confirm(
        root,
        Business,
        offer(root, Business, lines("flag,name,default_gpu_types", 'speech,Speech 语音,"M40, P40"')),
    )
    confirm(root, Member, offer(root, Member, lines("business,user,role", "speech,ann,lead")))
    speech = Business.objects.get(flag="speech")
    types = speech.defaultgputype_set.values_list("gpu_type__name", flat=True)
    assert (speech.name, list(types)) == ("Speech 语音", ["M40", "P40"])
    assert speech.member_set.get().role == "lead"
    offered = offer(root, Business, lines("flag,default_gpu_types", "speech,P40"))
    assert "<del>M40, P40</del> <ins>P40</ins>" in preview(offered)
    confirm(root, Business, offered)
    assert (
        Business.objects.get(flag="speech").name == "Speech 语音"
    )  # a column that is missing changes nothing
    assert list(types.all()) == ["P40"]
