"""Every text that people see is there in Chinese too."""

import re

import pytest
from django.test import Client
from django.utils import translation

from tests.portal import catalog
from tests.world import World

PLACEHOLDERS = re.compile(r"%(?:\(\w+\))?[sdi]|\{\w+\}|<a href=|</a>")


def both(text: str | tuple[str, ...] | list[str] | None) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else tuple(text or ("",))


def test_every_text_is_translated() -> None:
    done = catalog.catalogue()
    texts = catalog.messages()
    assert len(texts) > 300, "the search for texts finds nothing any more"
    missing = []
    for (text, context), places in texts.items():
        known = done.get(both(text)[0], context)
        if known is None or not all(both(known.string)):
            missing.append((text, context, sorted(places)))
    assert missing == [], "python -m tests.portal.catalog adds them to the catalogue"


def test_the_catalogue_holds_nothing_that_nobody_shows() -> None:
    shown = {(both(text)[0], context) for text, context in catalog.messages()}
    assert [
        known.id
        for known in catalog.catalogue()
        if known.id and (both(known.id)[0], known.context) not in shown
    ] == []


def test_translations_keep_the_placeholders() -> None:
    wrong = []
    for known in catalog.catalogue():
        wanted = sorted(set(PLACEHOLDERS.findall(both(known.id)[-1]))) if known.id else []
        if known.id and sorted(set(PLACEHOLDERS.findall(both(known.string)[-1]))) != wanted:
            wrong.append(known.id)
    assert wrong == []


@pytest.mark.parametrize(("language", "word"), [("en", "Free cards"), ("zh-hans", "空闲卡")])
def test_a_page_speaks_the_language_of_the_browser(language: str, word: str, ann: Client) -> None:
    page = ann.get("/", headers={"Accept-Language": language}).content.decode()
    assert f'<html lang="{language}"' in page
    assert word in page


def test_the_chosen_language_wins_over_the_browsers(ann: Client) -> None:
    ann.post("/i18n/setlang/", {"language": "zh-hans", "next": "/tasks/"})
    assert "任务" in ann.get("/tasks/", headers={"Accept-Language": "en"}).content.decode()


def test_reasons_events_and_refusals_are_translated(world: World, ann: Client) -> None:
    task = world.task(reason_code="hold")
    with translation.override("zh-hans"):
        ann.post("/i18n/setlang/", {"language": "zh-hans"})
        page = ann.get(f"/tasks/{task.pk}/").content.decode()
        form = ann.post("/tasks/new/", {"business_flag": "ads", "host_num": "x"}).content.decode()
    assert "被所有者挂起" in page
    assert "放行它" in page
    assert "请填写任务的启动命令" in form
