"""Quotas, businesses and members as CSV: out, and in again after a look at what would change."""

import csv
import io
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from quotas.audit import AuditEntry
from quotas.models import Business, DefaultGpuType, Member, Quota
from quotas.table import Table
from tests.api.test_kept_admin import address, root, text
from tests.world import World

__all__ = ["root"]  # the fixture


def lines(*rows: str) -> str:
    return "".join(f"{row}\r\n" for row in rows)


def offer(browser: Client, model: Any, table: str | bytes, reason: str = "the plan of spring") -> Any:
    """Hand a table in, and return what is said of it."""
    written = table.encode() if isinstance(table, str) else table
    file = SimpleUploadedFile("table.csv", written, "text/csv")
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


FORMULAS = ["=1+1", "==", "+8613", "-1", "@ads", "'=1", "''-1", "＝1", "'quoted'", "'", "-"]


def test_names_like_formulas_are_none_on_the_way_out_and_are_read_in_again_as_they_are(
    world: World, root: Client
) -> None:
    named = {f"{name}{number}": name for number, name in enumerate(FORMULAS)}
    Business.objects.bulk_create(Business(flag=flag, name=name) for flag, name in named.items())
    table = written(root, Business)
    cells = [cell for row in csv.reader(io.StringIO(table)) for cell in row]
    assert not [cell for cell in cells if cell[:1] in ("=", "+", "-", "@", "＝")]
    assert "'=1+1" in cells
    offered = offer(root, Business, table)
    assert "<ins>" not in preview(offered)
    confirm(root, Business, offered)
    assert dict(Business.objects.exclude(flag="ads").values_list("flag", "name")) == named
    assert written(root, Business) == table


def test_a_table_without_the_guard_is_read_as_it_is(world: World, root: Client) -> None:
    confirm(
        root, Business, offer(root, Business, lines("flag,name", "speech,=1+1", "vision,'=1+1", "audio,'a'"))
    )
    assert list(Business.objects.exclude(flag="ads").values_list("flag", "name")) == [
        ("audio", "'a'"),
        ("speech", "=1+1"),
        ("vision", "=1+1"),
    ]


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
    written_down = AuditEntry.objects.order_by("deed").values_list(
        "deed", "actor", "target_id", "args__reason"
    )
    assert list(written_down) == [
        ("quota.added", "root", str(Quota.objects.get(business__flag="speech").pk), "the plan of spring"),
        ("quota.changed", "root", str(Quota.objects.get(business__flag="ads").pk), "the plan of spring"),
    ]


@pytest.mark.parametrize(
    ("model", "table", "said"),
    [
        (Quota, lines("business,gpu_type,region,cards", "nobody,P40,,8"), "no business called nobody"),
        (Quota, lines("business,gpu_type,region,cards", "ads,H1,,8"), "no GPU type called H1"),
        (Quota, lines("business,gpu_type,region,cards", "ads,P40,,-8"), "greater than or equal to 0"),
        (Quota, lines("business,gpu_type,region,cards", "ads,P40,,x"), "cards"),
        (Quota, lines("business,region,cards", "ads,,8"), "gpu_type"),
        (Quota, lines("business;gpu_type;region;cards", "ads;P40;;8"), "with commas between them"),
        (Quota, lines("business,gpu_type,region,cards", "广告,P40,,8").encode("gbk"), "CSV UTF-8"),
        (Quota, lines("business,gpu_type,region,cards", "ads,P40,,1.5"), "1.5 is no whole number"),
        (Quota, lines("business,gpu_type,region,cards", "ads,P40,,1e2"), "1e2 is no whole number"),
        (Quota, lines("business,gpu_type,region,cards", "ads,P40,,8", "ads,P40,,9"), "in row 1 already"),
        (Quota, lines("business,gpu_type,region,cards,cards", "ads,P40,,8,9"), "cards are there twice"),
        (Business, lines("flag,name", "a/b,"), "No slashes"),
        (Business, lines("flag,name", "new,a\x00b"), "U+0000 is not allowed"),
        (Business, lines("flag,name", "new,", "new ,"), "in row 1 already"),
        (Business, lines("flag,default_gpu_types", 'ads,"P40, H1"'), "no such GPU type: H1"),
        (Member, lines("business,user,role", "ads,ghost,member"), "no user called ghost"),
        (Member, lines("business,user,role", "ads,root,boss"), "boss"),
    ],
)
def test_a_table_with_a_fault_says_it_and_changes_nothing(
    root: Client, model: Any, table: str | bytes, said: str
) -> None:
    before = list(model.objects.values())
    offered = offer(root, model, table)
    assert said in text(offered)
    assert "Traceback" not in text(offered)
    assert "confirm_form" not in offered.context
    assert list(model.objects.values()) == before


def test_a_table_that_a_spreadsheet_marked_as_utf_8_is_read(root: Client) -> None:
    table = lines("business,gpu_type,region,cards", "ads,P40,,8").encode("utf-8-sig")
    assert "<del>16</del> <ins>8</ins>" in preview(offer(root, Quota, table))


def test_a_table_that_is_confirmed_twice_is_read_in_once(root: Client) -> None:
    offered = offer(root, Quota, lines("business,gpu_type,region,cards", "ads,P40,,8"))
    confirm(root, Quota, offered)
    again = root.get(confirm(root, Quota, offered).url)
    assert "read in already" in text(again)
    assert Quota.objects.get().history.count() == 2


def test_a_table_whose_business_went_after_the_look_says_that_nothing_was_read_in(
    world: World, root: Client
) -> None:
    world.business("speech")
    rows = lines("business,gpu_type,region,cards", "ads,P40,,8", "speech,P40,,4")
    offered = offer(root, Quota, rows)
    Business.objects.get(flag="speech").delete()
    said = text(confirm(root, Quota, offered))
    assert "Nothing was read in" in said
    assert "Row 2: there is no business called speech" in said
    assert Quota.objects.get().cards == 16


QUOTAS = "business,gpu_type,region,cards"


def change(world: World) -> None:
    Quota.objects.filter(business__flag="ads").update(cards=12)


def agree(world: World) -> None:
    Quota.objects.filter(business__flag="ads").update(cards=8)


def delete(world: World) -> None:
    Quota.objects.filter(business__flag="ads").delete()


def add(world: World) -> None:
    world.business("nlp", P40=5)


@pytest.mark.parametrize(
    ("meanwhile", "said"),
    [
        (change, "Row 1: cards was 16 when you looked and is 12 now"),
        (agree, "Row 1: cards was 16 when you looked and is 8 now"),
        (delete, "Row 1: it was deleted since you looked"),
        (add, "Row 3: it was added since you looked"),
    ],
)
def test_a_table_undoes_nothing_that_was_changed_since_it_was_looked_at(
    world: World, root: Client, meanwhile: Callable[[World], None], said: str
) -> None:
    world.business("speech", P40=4)
    world.business("nlp")
    offered = offer(root, Quota, lines(QUOTAS, "ads,P40,,8", "speech,P40,,4", "nlp,P40,,2"))
    meanwhile(world)
    held = list(Quota.objects.values())
    answer = confirm(root, Quota, offered)
    assert answer.status_code == 409
    assert said in text(answer)
    assert text(answer).count("import-error-li") == 1, "no other row was changed"
    assert list(Quota.objects.values()) == held


def test_a_row_that_the_table_leaves_as_it_was_is_not_turned_back_either(world: World, root: Client) -> None:
    offered = offer(root, Quota, lines(QUOTAS, "ads,P40,,16"))
    assert "Skipped" in preview(offered)
    change(world)
    assert "is 12 now" in text(confirm(root, Quota, offered))
    assert Quota.objects.get().cards == 12


def test_what_the_table_does_not_name_may_be_changed_meanwhile(world: World, root: Client) -> None:
    offered = offer(root, Quota, lines(QUOTAS, "ads,P40,,8"))
    Quota.objects.update(elastic_cards=3)
    confirm(root, Quota, offered)
    assert Quota.objects.values_list("cards", "elastic_cards").get() == (8, 3)


def test_types_of_a_business_that_were_changed_since_the_look_are_kept(world: World, root: Client) -> None:
    world.gpu_type("M40")
    offered = offer(root, Business, lines("flag,default_gpu_types", "ads,M40"))
    DefaultGpuType.objects.all().delete()
    said = text(confirm(root, Business, offered))
    assert "default_gpu_types was P40 when you looked and is – now" in said
    assert not DefaultGpuType.objects.exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seen", "x"),
        ("import_file_name", "somebody-else-s"),
        ("import_file_name", "."),
        ("format", "9"),
        ("format", "x"),
        ("resource", "9"),
        ("resource", "x"),
        ("reason", "r" * 300),
        ("reason", "another"),
    ],
)
def test_an_answer_to_another_question_is_not_taken(
    field: str, value: str, root: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    offered = offer(root, Quota, lines(QUOTAS, "ads,P40,,8"))
    fields = {one.name: one.value() for one in offered.context["confirm_form"]}
    theirs = tmp_path / "somebody-else-s"
    theirs.write_text(lines(QUOTAS, "ads,P40,,8"))
    answer = root.post(address(Quota, "process_import"), {**fields, field: value})
    assert "Choose the table again" in text(answer)
    assert Quota.objects.get().cards == 16
    assert theirs.exists()


def test_a_row_named_twice_by_two_names_of_a_type_is_refused(world: World, root: Client) -> None:
    offered = offer(root, Quota, lines(QUOTAS, "ads,P40,,8", "ads,p40,,9"))
    assert "Row 2: it stands in row 1 already" in text(offered)


def test_a_table_of_any_length_is_looked_at_in_the_same_number_of_queries(world: World, root: Client) -> None:
    flags = [f"b{number}" for number in range(200)]
    Business.objects.bulk_create(Business(flag=flag) for flag in flags)
    table = lines(QUOTAS, *(f"{flag},P40,,{number}" for number, flag in enumerate(flags)))
    with CaptureQueriesContext(connection) as asked:
        assert preview(offer(root, Quota, table)).count("<ins>b") == 200
    assert len([one for one in asked if "SAVEPOINT" not in one["sql"]]) < 30


def test_blanks_around_a_text_are_none_of_it(root: Client) -> None:
    confirm(root, Business, offer(root, Business, lines("flag,name", " new ,  New one ")))
    assert Business.objects.values_list("flag", "name").get(flag__contains="new") == ("new", "New one")


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


TYPES = "flag,name,default_gpu_types"


def queries(browser: Client, model: Any, table: str) -> int:
    """Read a table in; return how many queries that took."""
    offered = offer(browser, model, table)
    with CaptureQueriesContext(connection) as asked:
        assert confirm(browser, model, offered).status_code == 302
    return len(asked)


@pytest.mark.parametrize(
    ("model", "new", "changed"),
    [
        (Quota, f"{QUOTAS}\r\n" + "{},M40,,1\r\n", f"{QUOTAS}\r\n" + "{},M40,,2\r\n"),
        (Business, f"{TYPES}\r\n" + "new-{},New,P40\r\n", f"{TYPES}\r\n" + '{},Other,"M40, P40"\r\n'),
        (Member, "business,user,role\r\n{},ann,lead\r\n", "business,user,role\r\n{},ann,member\r\n"),
    ],
)
def test_a_table_of_any_length_is_read_in_with_the_same_number_of_queries_and_a_record_of_each_row(
    model: Any, new: str, changed: str, world: World, root: Client
) -> None:
    world.gpu_type("M40")
    world.user("ann")
    flags = [f"b{number:02}" for number in range(90)]
    Business.objects.bulk_create(Business(flag=flag) for flag in flags)

    def table(row: str, some: list[str]) -> str:
        head, line, _end = row.split("\r\n")
        return lines(head, *(line.format(flag) for flag in some))

    for row, kind in ((new, "+"), (changed, "~")):
        few = queries(root, model, table(row, flags[:3]))
        history = model.history.count()
        assert queries(root, model, table(row, flags[3:])) <= few
        records = model.history.order_by("-history_id")[: model.history.count() - history]
        assert len({record.id for record in records}) == len(records) == 87
        assert {(record.history_type, record.history_change_reason) for record in records} == {
            (kind, "the plan of spring")
        }
        assert {record.history_user.username for record in records} == {"root"}
    deeds = AuditEntry.objects.filter(kind=model._meta.model_name)
    assert {entry.target_id for entry in deeds} <= {
        str(pk) for pk in model.objects.values_list("pk", flat=True)
    }
    assert deeds.count() == 180


def test_a_row_that_somebody_else_adds_at_this_moment_is_named_and_nothing_is_read_in(
    world: World, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.business("speech")
    world.business("nlp")
    offered = offer(root, Quota, lines(QUOTAS, "ads,P40,,8", "speech,P40,,4", "nlp,P40,,2"))
    inner = Table._read

    def and_then_one_is_added(table: Table, *args: Any, **kwargs: Any) -> Any:
        found = inner(table, *args, **kwargs)
        world.business("nlp", P40=5)
        return found

    monkeypatch.setattr(Table, "_read", and_then_one_is_added)
    answer = confirm(root, Quota, offered)
    assert answer.status_code == 409
    assert "Row 3: it was added since you looked" in text(answer)
    assert text(answer).count("import-error-li") == 1
    assert Quota.objects.get().cards == 16
    assert Quota.history.count() == 1
