"""Names are told from each other by what is seen of them, whatever door they come by."""

import json
from typing import Any

import pytest
from django.apps import apps
from django.core.exceptions import ValidationError
from django.db import models
from django.test import Client
from django.urls import reverse

from cluster.characters import bad_character, one_line
from quotas.models import Business, GroupRule, Reservation
from tests.api.conftest import Caller
from tests.api.test_exchange import lines, offer
from tests.api.test_kept_admin import root, text
from tests.world import World

__all__ = ["root"]  # the fixture

UNSEEN = [
    *("\x00", "\x07", "\x1b", "\x7f", "\x85"),  # control characters
    *("\u00ad", "\u061c", "\u180e", "\u200b", "\u200e", "\u2060", "\ufeff", "\U000e0041"),  # of no width
    *("\u202a", "\u202e", "\u2066", "\u2069"),  # they turn what follows
    *("\u2028", "\u2029", "\ud800"),
    *("\u034f", "\u115f", "\u1160", "\u3164", "\uffa0", "\u2800", "\ufe00", "\ufe0f", "\U000e0100"),
    *("\u00a0", "\u2003", "\u202f", "\u205f"),  # spaces that look like another
    *("\ue000", "\ufdd0", "\uffff", "\U0010ffff"),  # nobody's, or never to be any
]
SEEN = [
    "训练 bert",
    "naïve – ✓",
    "👩‍💻",
    "👩🏽‍🚒",
    "🏳️‍🌈",
    "क्‍ष",
    "می‌روم",
    "a/b\\c",
    "全角\u3000空格",
    "ＧＰＵ",
    "👨‍👩‍👧‍👦",
    "❤️‍🔥 ☎︎ 1️⃣ #️⃣ ‼️ ℹ️",
    "🏴‍☠️",
    "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",  # Scotland's flag
    "র‍্যাব",  # Bengali
    "ತರ‍್ಕ",  # Kannada
    "ශ්‍රී",  # Sinhala
    "ᠬᠠᠷ᠎ᠠ ᠭ᠋ᠠ ᠠ‍ᠨ ᠮᠣᠩᠭᠣᠯ ᠤᠨ",  # Mongolian
    "GPU‌ها",  # Persian, behind a Latin letter
    "۳‌تایی 2‌تا",  # behind digits
    "e\u0301",
    "\U0001faff",  # a picture that not each Python knows yet
    "\U000323af",  # an ideograph, likewise
]
IN_A_FILE = [sign for sign in UNSEEN if sign not in "\ud800\x85\u2028\u2029\r\n"]  # that end no line of it
OURS = {"cluster", "quotas", "jobs"}
GIVEN = {"name", "flag", "description", "note", "group"}  # fields for names; no other is somebody's words
CHECKED_BEFORE = {
    "jobs.Code",
    "jobs.Dataset",
    "cluster.BroughtJob",
}  # read from documents, or named by a cluster


@pytest.mark.parametrize("sign", UNSEEN, ids=ascii)
def test_a_text_of_one_line_has_nothing_that_is_not_seen(sign: str) -> None:
    assert bad_character(f"a{sign}b", lines=False) == f"U+{ord(sign):04X}"
    with pytest.raises(ValidationError):
        one_line(f"a{sign}b")


@pytest.mark.parametrize("good", SEEN)
def test_a_text_takes_any_script(good: str) -> None:
    assert not bad_character(good, lines=False)
    one_line(good)


@pytest.mark.parametrize("joiner", ["\u200c", "\u200d"], ids=ascii)
def test_a_joiner_stands_only_where_it_is_seen(joiner: str) -> None:
    assert bad_character(f"ad{joiner}s", lines=False)
    assert bad_character(f"{joiner}ads", lines=False)
    assert bad_character(f"广{joiner}告", lines=False)
    for name in ("می{}", "{}می", "می{} روم", "می{0}{0}روم", "क्{}", "🏳️{}", "e\u0301{}s", "1{}2", "ㅤ{}ا"):
        assert bad_character(name.format(joiner), lines=False), name


@pytest.mark.parametrize("look", ["\ufe0e", "\ufe0f"], ids=ascii)
def test_how_a_picture_looks_is_said_only_of_pictures(look: str) -> None:
    for name in (f"{look}ads", f"ads{look}", f"1{look}", f"✓{look}{look}", f"a {look}", f"广{look}告"):
        assert bad_character(name, lines=False) == f"U+{ord(look):04X}", name
    assert not bad_character(f"✓{look}", lines=False)


def test_flags_in_letters_that_are_not_seen_are_only_those_that_are_drawn() -> None:
    flag = "".join(chr(0xE0000 + ord(letter)) for letter in "gbsct\x7f")
    assert not bad_character(f"\U0001f3f4{flag}", lines=False)
    assert bad_character(flag, lines=False)
    assert bad_character(f"\U0001f3f4{flag[:-1]}", lines=False)
    assert bad_character(f"a{flag}", lines=False)


def test_texts_of_lines_hold_all_that_a_program_may_be_told() -> None:
    assert not bad_character("a\u200d\u00a0\u202e\u3164\ue000\tb\r\n", lines=True)
    assert bad_character("a\x1b", lines=True) == "U+001B"
    assert bad_character("a\ud800", lines=True) == "U+D800"


def test_every_name_that_people_give_to_a_row_is_checked_alike() -> None:
    fields = [
        field
        for model in apps.get_models()
        if model._meta.app_label in OURS and model._meta.label not in CHECKED_BEFORE
        for field in model._meta.concrete_fields
        if isinstance(field, models.CharField) and field.name in GIVEN
    ]
    assert len(fields) > 10
    assert [str(field) for field in fields if one_line not in field.validators] == []


@pytest.mark.django_db
@pytest.mark.parametrize("sign", IN_A_FILE, ids=ascii)
def test_no_door_takes_such_a_name(world: World, root: Client, sign: str) -> None:
    name, code = f"a{sign}b", f"U+{ord(sign):04X}"
    table = lines("flag,name", f"speech,{name}")
    assert f"{code} is not allowed" in text(offer(root, Business, table))
    assert f"{code} is not allowed" in text(offer(root, Business, lines("flag,name", f"{name},")))
    form = {**_NO_ROWS, "flag": "speech", "name": name}
    assert (
        root.post(reverse("admin:quotas_business_add"), form).status_code == 200
    )  # the form, with its fault
    assert (
        root.post(reverse("admin:quotas_grouprule_add"), {"group": name, "role": "auditor"}).status_code
        == 200
    )
    assert not Business.objects.filter(flag="speech").exists()
    assert not GroupRule.objects.exists()


_NO_ROWS = {
    f"{rows}-{which}_FORMS": "0"
    for rows in ("quotas", "defaultgputype_set", "member_set")
    for which in ("TOTAL", "INITIAL")
}


@pytest.mark.django_db
def test_the_forms_above_are_refused_for_the_name_alone(world: World, root: Client) -> None:
    form = {**_NO_ROWS, "flag": "speech", "name": "ab"}
    assert root.post(reverse("admin:quotas_business_add"), form).status_code == 302
    assert (
        root.post(reverse("admin:quotas_grouprule_add"), {"group": "ab", "role": "auditor"}).status_code
        == 302
    )


@pytest.mark.django_db
@pytest.mark.parametrize("sign", ["\x00", "\u200b", "\u202e", "\u2069"], ids=ascii)
def test_no_call_of_the_api_takes_such_a_name(world: World, sign: str) -> None:
    world.host("h1", 8, "P40")
    world.business("ads", P40=16)
    ann, operator = Caller(world.user("ann", "ads")), Caller(world.operator())
    name = f"a{sign}b"
    calls: list[tuple[Caller, str, dict[str, Any], str]] = [
        (ann, "tasks/", {"business_flag": "ads", "start_cmd": "true", "task_flag": name}, "task_flag"),
        (ann, "templates/", {"name": name, "config": {}}, "name"),
        (ann, "views/", {"name": name, "query": "state=queued"}, "name"),
        (ann, "tokens/", {"name": name, "scope": "read"}, "name"),
        (operator, "reservations/", {"business": "ads", "gpu_type": "P40", "cards": 1, "note": name}, "note"),
    ]
    for caller, path, body, field in calls:
        answer = caller.post(path, body)
        assert answer.status_code == 400, json.dumps(body)
        assert [(fault["field"], fault["code"]) for fault in answer.json()["errors"]] == [
            (field, "character")
        ]
    assert not Reservation.objects.exists()
