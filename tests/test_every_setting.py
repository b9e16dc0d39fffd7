"""Every setting, policy key and option: what is blank, zero, negative or no value is refused or means something."""

import argparse
import ast
import re
from collections.abc import Iterator
from typing import Any

import pytest

from cluster.agent import options
from jobs.admin import PolicyForm
from jobs.models import Policy
from jobs.policy_fields import DEFAULTS, LEAST, MOST, MOST_S
from jobs.scheduling import policy
from launch.places import ROOT
from taiji_site import env

DOCS = (ROOT / "docs" / "settings.md").read_text().splitlines()


def rows_of(name: str) -> str:
    """Return what the page of settings says of the name."""
    return "\n".join(line for line in DOCS if line.startswith("|") and f"`{name}`" in line.split("|")[1])


def calls(kind: str) -> Iterator[tuple[str, list[Any]]]:
    """Give the settings that are read by one function of env.py, with its further arguments where they are plain."""
    for node in ast.walk(ast.parse((ROOT / "taiji_site" / "settings.py").read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"env.{kind}":
            name, *rest = node.args
            if isinstance(name, ast.Constant):
                yield str(name.value), [eval(ast.unparse(one)) if _is_plain(one) else None for one in rest]


def _is_plain(node: ast.expr) -> bool:
    return not any(isinstance(one, ast.Name | ast.Call) for one in ast.walk(node))


NUMBERS, OTHERS = dict(calls("number")), {
    kind: dict(calls(kind))
    for kind in (
        "flag", "choice", "shaped", "zone", "database", "addresses", "address", "networks", "mail_server", "mailboxes"
    )
}  # fmt: skip


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    problems: list[tuple[str, str, str]] = []
    monkeypatch.setattr(env, "_problems", problems)
    return problems


def test_each_setting_is_on_the_page_of_settings() -> None:
    names = [*NUMBERS, *(name for some in OTHERS.values() for name in some), *dict(calls("text"))]
    assert len(names) > 30
    assert [name for name in names if not rows_of(name)] == []


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", ["-1", "0", "1.5", "1e3", "many", "9" * 30, "٣"])
def test_a_number_that_is_none_is_refused_and_a_zero_is_too_or_is_explained(
    name: str, value: str, found: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    default, least, most = NUMBERS[name]
    monkeypatch.setenv(name, value)
    taken = env.number(name, default, least, most)
    if value == "0" and least == 0:
        assert (taken, found) == (0, [])
        assert re.search(r"\b0: |, 0 at", rows_of(name)), "what does 0 mean?"
        return
    assert taken == default
    ((check, wrong, way_out),) = found
    assert (check, name in wrong, str(least) in wrong, name in way_out) == ("taiji.E003", True, True, True)


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", ["", "  "])
def test_a_blank_number_is_the_default(
    name: str, value: str, found: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert env.number(name, *NUMBERS[name]) == NUMBERS[name][0]
    assert found == []


WRONG = {
    "TAIJI_LOG_LEVEL": ["LOUD", "0"],
    "TAIJI_CONTAINER_NETWORK": ["lan", "-1"],
    "TAIJI_CONTAINER_USER": ["root", "-1", "1000:", "1000:staff"],
    "REDIS_URL": ["localhost:6379", "http://x", "redis://", "unix://relative"],
    "TAIJI_TIME_ZONE": ["Mars"],
    "DATABASE_URL": ["mysql://x"],
    "TAIJI_GIT": ["git@host:x", "https://u:p@host/"],
    "TAIJI_OIDC_ISSUER": ["login.example.com", "https://u:p@host", "https://host/?a=b"],
    "TAIJI_OIDC_ALGORITHM": ["none", "HS256"],
    "TAIJI_PUBLIC_URL": ["taiji.example.com", "https://u:p@host", "https://host/?a=b"],
    "TAIJI_MAIL_URL": [
        *["mail.example.com", "imap://mail.example.com", "smtp://", "smtp://:25", "smtp://[mail"],
        *["smtp://mail:many", "smtp://mail:0", "smtp://mail:65536", "smtp+tls://user@mail"],
        *["smtp+tls://:hush@mail", "smtp+tls://user:a#b@mail", "smtp://mail/a", "smtp://mail?a=b"],
    ],
    "TAIJI_MAIL_FROM": [
        "taiji",
        "a@example.com,b@example.com",
        "Taiji <a@example.com>",
        ",",
        "a@b\nTo: c@d.org",
    ],
    "TAIJI_OPERATORS_MAIL": ["operators", "a@example.com;b@example.com", "a@example.com, b", ",", "-1"],
    "TAIJI_MAIL_LANGUAGE": ["de", "0"],
    "TAIJI_TRUSTED_PROXIES": ["the proxy", "10.0.0.5/8", "10.0.0.0/33"],
    **{name: ["maybe", "-1", "2"] for name in OTHERS["flag"]},
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, some in OTHERS.items() for name in some])
def test_what_is_no_number_is_refused_where_it_is_wrong_and_blank_is_the_default(
    kind: str, name: str, found: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = ["unix:///run/v.sock" if one is None else one for one in OTHERS[kind][name]]
    monkeypatch.delenv(name, raising=False)
    default = getattr(env, kind)(name, *rest)
    monkeypatch.setenv(name, " ")
    assert getattr(env, kind)(name, *rest) == default
    assert found == []
    for value in WRONG[name]:
        monkeypatch.setenv(name, value)
        assert getattr(env, kind)(name, *rest) == default
        ((_check, wrong, way_out),) = found
        assert name in wrong
        assert name in way_out
        found.clear()


def test_a_password_in_a_wrong_address_is_not_shown(
    found: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", "rds://:hush@host/0")
    env.shaped("REDIS_URL", "", "redis://.*", "redis://host:6379/0")
    assert "hush" not in str(found)


@pytest.mark.parametrize(
    "wrong", ["smtp+tls://:hush@mail", "smtp://u:hush@mail:many", "smtp://u:hush@two hosts"]
)
def test_a_password_in_a_wrong_address_of_a_mail_server_is_not_shown(
    wrong: str, found: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAIJI_MAIL_URL", wrong)
    env.mail_server("TAIJI_MAIL_URL")
    assert found
    assert "hush" not in str(found)


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("smtp://mail", ("smtp", "mail", 25, "", "")),
        ("smtp://10.0.0.5:2525/", ("smtp", "10.0.0.5", 2525, "", "")),
        ("smtp+tls://taiji%40example.com:p%23%2F@Mail.example.com",
         ("smtp+tls", "mail.example.com", 587, "taiji@example.com", "p#/")),
        ("smtp+ssl://u:p@[::1]", ("smtp+ssl", "::1", 465, "u", "p")),
    ],
)  # fmt: skip
def test_the_address_of_a_mail_server_says_how_it_is_spoken_to(
    url: str, server: tuple[object, ...], found: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAIJI_MAIL_URL", url)
    assert env.mail_server("TAIJI_MAIL_URL") == env.MailServer(*server)  # type: ignore[arg-type]
    assert found == []


NUMBER_KEYS = [key for key in DEFAULTS if key not in policy.CHOICES]


def faults(**values: object) -> dict[str, Any]:
    given = {key: str(value) for key, value in values.items()}
    form = PolicyForm({**given, "reason": "because"}, instance=Policy())
    return dict(form.errors)


@pytest.mark.parametrize("key", NUMBER_KEYS)
@pytest.mark.parametrize("value", ["-1", "nan", "inf", "many", "1e300", "-0.5"])
def test_a_key_of_the_policy_that_no_pass_could_follow_is_refused(db: None, key: str, value: str) -> None:
    assert list(faults(**{key: value})) == [key]


@pytest.mark.parametrize("key", NUMBER_KEYS)
def test_a_zero_in_the_policy_is_refused_or_explained(db: None, key: str) -> None:
    if faults(**{key: "0"}):
        assert key in policy.POSITIVE or LEAST[key] > 0
    else:
        assert rows_of(key)
        assert key in ZEROES


# What a zero means, for each key that takes one: none of them is a trap.
ZEROES = {
    "reserve_after_s": "at once",
    "aging_s": "none",
    "min_run_s": "evicted at any age",
    "max_evictions_per_hour": "no cap",
    "evict_delay_s": "at once",
    "exit_grace_s": "KILL at once",
    "pull_up_backoff_s": "at once",
    "restart_lost_s": "only when operators say so",
    "quarantine_after": "never",
}


@pytest.mark.parametrize("key", DEFAULTS)
def test_a_blank_key_of_the_policy_is_its_default(db: None, key: str) -> None:
    assert faults(**{key: ""}) == {}
    assert rows_of(key)


def test_the_greatest_values_of_the_policy_stop_no_pass(db: None) -> None:
    from django.utils import timezone

    from jobs.engine import passes

    greatest = {key: MOST.get(key, MOST_S) for key in NUMBER_KEYS}
    assert faults(**greatest) == {}
    Policy.objects.create(pk=1, values={key: policy.check(key, value) for key, value in greatest.items()})
    assert passes.run() is not None
    assert timezone.now()


@pytest.mark.parametrize("option", ["--cards-every", "--log-cap", "--code-cap", "--simulate"])
@pytest.mark.parametrize("value", ["", "0", "-1", "many", "P40:0", "P40:-1", "nan", "1e400"])
def test_an_option_of_the_agent_that_means_nothing_is_refused(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        options.arguments().parse_args(["run", f"{option}={value}"])
    assert option in capsys.readouterr().err


@pytest.mark.parametrize("name", [name for name in options.KEPT if name not in {"url", "storage"}])
def test_a_blank_option_of_the_agent_is_its_default(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv(options.PREFIX + name.upper(), "")
    given = argparse.Namespace(**dict.fromkeys(options.KEPT), state=tmp_path, command="run")
    given.url, given.storage = "https://taiji.example.com", str(tmp_path)
    assert getattr(options.complete(given), name) == options.KEPT[name]
