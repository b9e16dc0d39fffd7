"""What `script/test` takes: how long to explore, and that other examples are then drawn than in the checks."""

import pytest
from hypothesis import settings

from launch import exploring, testing
from launch.words import Refusal


def test_minutes_are_a_number_that_stands_alone() -> None:
    assert exploring.minutes(["--explore", "0.5"]) == 0.5


@pytest.mark.parametrize(
    "arguments",
    [["--explore"], ["--explore", "x"], ["--explore", "0"], ["--explore", "nan"], ["--explore", "inf"],
     ["--explore", "1", "tests"], ["--no-skips", "--explore", "1"]],
)  # fmt: skip
def test_anything_else_is_refused_with_what_would_do(arguments: list[str]) -> None:
    with pytest.raises(Refusal, match="script/test --explore 30"):
        exploring.minutes(arguments)


def test_examples_are_the_same_each_time_unless_one_explores() -> None:
    assert settings.get_profile("same").derandomize
    assert settings().derandomize == (settings.get_current_profile_name() == "same")
    assert not settings.get_profile("explore").derandomize


@pytest.mark.parametrize("asked", ["-h", "--help"])
def test_asked_for_help_it_names_its_own_arguments_and_runs_nothing(
    asked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert testing.main([asked]) == 0
    said = capsys.readouterr().out
    assert all(
        argument in said for argument in ("--no-skips", "--audit", "--explore MINUTES", "pytest --help")
    )
