"""`manage.py simulate`: what it reads, writes and draws, and what it says where something is wrong."""

import gzip
import json
import os
import pty
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from jobs.management import picture
from jobs.management.side_by_side import duration

HOSTS = "host,region,gpu_type,gpu_num\nh1,sz,P40,8\n"
JOBS = (
    "job_id,user,group,submit_s,duration_s,host_num,host_gpu_num,gpu_type,priority_class,end_state\n"
    "e,,B,0,4000,1,8,P40,best,\n"
    "t,,A,1000,500,1,8,P40,strict,\n"
)
SCENARIO = """
hosts: [{host: h1, gpu_type: P40, gpu_num: 8}]
events:
  - {at: 0, submit: {id: t1, business: A, duration_s: 60}}
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a folder with a small recording and a scenario."""
    (tmp_path / "hosts.csv").write_text(HOSTS)
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "s.yaml").write_text(SCENARIO)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def simulate(*arguments: str) -> str:
    out = StringIO()
    call_command("simulate", *arguments, stdout=out)
    return out.getvalue()


RECORDED = ("--hosts", "hosts.csv", "--jobs", "jobs.csv")
CLASSES = ("--class-map", "strict=high,best=elastic")


def figures(files: Path, *arguments: str) -> dict[str, Any]:
    simulate(*RECORDED, *CLASSES, "--json", "out.json", *arguments)
    found: dict[str, Any] = json.loads((files / "out.json").read_text())
    return found


def test_a_job_evicted_for_good_and_one_that_comes_back_as_every_job_does(files: Path) -> None:
    assert figures(files)["tasks"]["e"]["state"] == "evicted"
    told = figures(files, "--every-job", "pull_up=true", "exit_s=30", "checkpoint_s=600", "restart_s=60")
    assert told["tasks"]["t"]["start_s"] == 1030
    back = told["tasks"]["e"]
    assert (back["state"], [a["start_s"] for a in back["attempts"]]) == ("succeeded", [0, 1530])
    assert back["end_s"] == 1530 + 60 + (4000 - 600)


def test_a_column_of_the_table_goes_before_what_holds_for_every_job(files: Path) -> None:
    lines = JOBS.splitlines()
    (files / "jobs.csv").write_text("\n".join([f"{lines[0]},pull_up", f"{lines[1]},false", f"{lines[2]},"]))
    assert figures(files, "--every-job", "pull_up=true")["tasks"]["e"]["state"] == "evicted"


def test_packed_files_with_a_byte_order_mark_are_read(files: Path) -> None:
    with gzip.open(files / "jobs.csv.GZ", "wt", encoding="utf-8-sig") as file:
        file.write(JOBS)
    assert "2" in simulate("--hosts", "hosts.csv", "--jobs", "jobs.csv.GZ", *CLASSES).split("finished")[0]


def test_jobs_that_the_cluster_could_never_hold_are_counted(files: Path) -> None:
    (files / "jobs.csv").write_text(JOBS.replace("1,8,P40,best", "9,8,P40,best"))
    assert "1: the whole cluster could never hold them" in simulate(*RECORDED, *CLASSES)


def test_who_reads_no_further_is_told_nothing(files: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    ours, theirs = os.pipe()
    os.close(ours)
    command = [sys.executable, str(root / "manage.py"), "simulate", "--scenario", "s.yaml"]
    done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_policy_on_the_command_line_goes_before_the_scenarios_own(files: Path) -> None:
    (files / "s.yaml").write_text(SCENARIO + "policy: {slice_s: bad}\n")
    with pytest.raises(CommandError, match="slice_s"):
        simulate("--scenario", "s.yaml")
    assert "finished  1" in simulate("--scenario", "s.yaml", "--policy", "slice_s=60")


FAULTS = [
    ((), "give --scenario FILE, or --hosts FILE and --jobs FILE, or --live"),
    (("--scenario", "s.yaml", "--hosts", "hosts.csv"), "do not go together"),
    (("--hosts", "hosts.csv"), "--hosts alone is not enough"),
    (("--scenario", "none.yaml"), "--scenario: there is no file none.yaml"),
    (("--hosts", ".", "--jobs", "jobs.csv"), "--hosts: . cannot be read: Is a directory"),
    (
        ("--hosts", "jobs.csv", "--jobs", "jobs.csv"),
        "--hosts: jobs.csv has no column host, gpu_num; its first line",
    ),
    ((*RECORDED, "--policy", "slice_s"), "--policy: 'slice_s' is not KEY=VALUE"),
    ((*RECORDED, "--policy", "slice=1"), "there is no policy key 'slice'; there are high_order"),
    ((*RECORDED, "--policy", "placement=best"), "placement is one of best_fit, spread, not 'best'"),
    (
        (*RECORDED, "--class-map", "strict=hi"),
        "--class-map: the class of strict is one of high, elastic, auto",
    ),
    ((*RECORDED, "--time-limits", "long"), "--time-limits is a number, not 'long'"),
    ((*RECORDED, "--time-limits", "0"), "--time-limits is none, or a factor"),
    ((*RECORDED, "--every-job", "nap_s=3"), "what every job has is one of priority, region, pull_up"),
    (
        (*RECORDED, *CLASSES, "--every-job", "pull_up=maybe"),
        "jobs, row 1: pull_up is true or false, not 'maybe'",
    ),
    (RECORDED, "jobs, row 1: class is one of high, elastic, auto, not 'best'"),
    ((*RECORDED, *CLASSES, "--json", "no/out.json"), "--json: there is no folder"),
    ((*RECORDED, *CLASSES, "--plot", "no/out.svg"), "--plot: there is no folder"),
    ((*RECORDED, *CLASSES, "--plot", "out.pdf"), "--plot writes .svg or .png files, and out.pdf is neither"),
    ((*RECORDED, *CLASSES, "--json", "."), ". cannot be written: Is a directory"),
    (("--live", "--plot", "out.svg"), "--plot draws one simulation"),
    (
        ("--scenario", "s.yaml", "--default-class", "high"),
        "--default-class would change nothing with --scenario",
    ),
    (("--scenario", "s.yaml", "--days", "3"), "--days would change nothing with --scenario"),
    (("--live", "--every-job", "pull_up=true"), "--every-job would change nothing with --live"),
    (("--hosts", "h\0.csv", "--jobs", "jobs.csv"), r"--hosts: 'h\x00.csv' cannot be read"),
    (("--live", "--days", "0"), "--days is a number of days, more than 0 and 3650 at most, not 0"),
]


@pytest.mark.parametrize(
    ("arguments", "words"), FAULTS, ids=lambda value: value if isinstance(value, str) else None
)
def test_a_fault_of_the_command_line_is_named(files: Path, arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(CommandError) as refused:
        simulate(*arguments)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("500,1,8", "nan,1,8", "jobs, row 2: duration_s is a number, 0 or more, not 'nan'"),
        ("500,1,8", "-5,1,8", "jobs, row 2: duration_s is a number, 0 or more, not '-5'"),
        ("500,1,8", "500,0,8", "jobs, row 2: host_num is a whole number, 1 or more, not '0'"),
        ("t,,A", "e,,A", "jobs, row 2: two tasks are called 'e'"),
        (
            "duration_s,",
            "seconds,",
            "--jobs: jobs.csv has no column duration_s; its first line names job_id, user",
        ),
        ("t,,A", "t\N{LATIN SMALL LETTER U WITH DIAERESIS},,A", "--jobs: jobs.csv is no text in UTF-8"),
        (JOBS, "", "--jobs: jobs.csv has no column job_id, submit_s"),
    ],
)
def test_a_fault_of_a_table_is_named_with_its_row(files: Path, old: str, new: str, words: str) -> None:
    (files / "jobs.csv").write_text(JOBS.replace(old, new), encoding="latin-1")
    with pytest.raises(CommandError) as refused:
        simulate(*RECORDED, *CLASSES)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hosts: [", "--scenario: s.yaml is no YAML"),
        ("- hosts", "--scenario: s.yaml is no scenario"),
        ("host: []", "a scenario's key is one of hosts, quotas, policy"),
        ("hosts: [h1]", "hosts, row 1: a row names its values"),
        ("hosts: h1", "hosts is a list of rows, not 'h1'"),
        ("hosts: [{host: h1}]", "hosts, row 1: gpu_num is missing"),
        ("events: [{at: 1, jump: {}}]", "events, row 1: what happens is one of submit, stop, host"),
        ("events: [{at: x, stop: {task: t}}]", "events, row 1: at is a number, not 'x'"),
        ("events: [{at: 1, stop: {task: t}}]", "events, row 1: there is no task 't'"),
        ("events: [{at: 1, stop: t}]", "events, row 1: stop names its values (task), not 't'"),
        (
            "events: [{at: 1, submit: {id: t, gpus: 3}}]",
            "events, row 1: a value of submit is one of id, business",
        ),
        ("policy: [slice_s]", "policy names its values"),
        ("until: 2026-13-45", "--scenario: 's.yaml' cannot be read: month must be in 1..12"),
        (f"until: {'9' * 5000}", "--scenario: 's.yaml' cannot be read: Exceeds the limit"),
        (
            "hosts: [{host: h1, gpus: 8}]",
            "hosts, row 1: a value of hosts is one of host, region, gpu_type, gpu_num",
        ),
        (
            "quotas: [{business: A, limit: 8}]",
            "quotas, row 1: a value of quotas is one of business, gpu_type",
        ),
        (
            "events: [{at: 0, reservation: {business: A, cards: 8, from_s: 60, to_s: 60}}]",
            "events, row 1: to_s comes after from_s: 60 does not come after 60",
        ),
    ],
)
def test_a_fault_of_a_scenario_is_named_with_its_row(files: Path, text: str, words: str) -> None:
    (files / "s.yaml").write_text(text)
    with pytest.raises(CommandError) as refused:
        simulate("--scenario", "s.yaml")
    assert words in str(refused.value)


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_it_draws_what_happened(files: Path, kind: str) -> None:
    simulate(*RECORDED, *CLASSES, "--plot", f"out.{kind}")
    drawn = (files / f"out.{kind}").read_bytes()
    if kind == "png":
        assert drawn.startswith(b"\x89PNG")
    else:
        assert all(
            word in drawn.decode() for word in ("Cards in use", "Tasks that wait", "Evictions", "all cards")
        )


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.5, "0.5 seconds"),
        (1, "1 second"),
        (60, "60 seconds"),
        (119, "119 seconds"),
        (300, "5 minutes"),
        (7100, "118 minutes"),
        (7200, "2 hours"),
        (9000, "2.5 hours"),
        (864000, "10 days"),
    ],
)
def test_a_length_of_time_is_a_number_that_people_read(seconds: float, said: str) -> None:
    assert picture.length(seconds) == said


def test_the_same_simulation_is_the_same_picture(files: Path) -> None:
    drawn = []
    for _ in range(2):
        simulate(*RECORDED, *CLASSES, "--plot", "out.svg")
        drawn.append((files / "out.svg").read_bytes())
    assert drawn[0] == drawn[1]


def test_without_matplotlib_it_says_how_to_install_it(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ValueError, match=r"pip install -r requirements-plot\.txt"):
        picture.refuse_early(files / "out.svg")


@pytest.mark.parametrize("watched", [True, False])
def test_a_bar_shows_on_a_terminal_and_only_there(files: Path, watched: bool) -> None:
    ours, theirs = pty.openpty()
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, str(root / "manage.py"), "simulate", "--scenario", "s.yaml"]
    errors = theirs if watched else subprocess.PIPE
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, env=os.environ | {"TERM": "xterm"})
    os.close(theirs)
    shown = b"" if not watched else os.read(ours, 65536)
    os.close(ours)
    assert done.returncode == 0
    assert b"finished  1" in done.stdout
    assert (b"Simulating" in shown) == watched
    assert not done.stderr


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "–"), (0, "0 s"), (59, "59 s"), (60, "1 min"), (3599, "1 h 00 min"), (90060, "25 h 01 min")],
)
def test_lengths_of_time_are_said_in_words(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words


TWO_TYPES = "hosts: [{host: h1, gpu_type: P40, gpu_num: 2}, {host: h1, gpu_type: V100, gpu_num: 2}]\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "hosts: [{host: h1, gpu_num: 1000000000000000}]",
            "hosts, row 1: gpu_num is a number, 1e+12 at most",
        ),
        ("hosts: [{host: h1, gpu_num: 10000000}]", "hosts, row 1: gpu_num is 1000000 at most"),
        ("hosts: [{host: h1, gpu_num: 8}, {host: H1, gpu_num: 8}]", "hosts, row 2: host 'H1' is there twice"),
        (
            "hosts: [{host: h1, region: a, gpu_num: 8}, {host: h1, region: b, gpu_type: P40, gpu_num: 8}]",
            "hosts, row 2: host 'h1' stands in two regions",
        ),
        ("quotas: [{business: A, cards: 8}, {business: a, cards: 4}]", "quotas, row 2: business 'a' has two"),
        (f"until: {'9' * 400}", "until is a number, 0 or more"),
        ("until: 1.0e+300", "until is a number, 1e+12 at most"),
        ("events: [{at: 0, 5: {}, stop: {}}]", "one thing that happens, not ['5', 'stop']"),
        ("events: [{at: 0, submit: {id: a, duration_s: 1, priority: [x]}}]", "priority is one of low"),
        (
            "events: [{at: 0, submit: {id: a, duration_s: 1}}, {at: 0, submit: {id: ' a', duration_s: 1}}]",
            "events, row 2: two tasks are called 'a'",
        ),
        (
            TWO_TYPES + "events: [{at: 0, card: {host: h1, index: 4, state: broken}}]",
            "events, row 1: host 'h1' has 4 cards, from 0 on: there is no card 4",
        ),
        ("hosts: " + "[" * 5000, "s.yaml is no YAML"),
    ],
)
def test_what_no_simulation_could_work_on_is_refused(files: Path, text: str, words: str) -> None:
    (files / "s.yaml").write_text(text)
    with pytest.raises(CommandError) as refused:
        simulate("--scenario", "s.yaml")
    assert words in str(refused.value)


def test_a_broken_card_is_missing_from_its_own_type_alone(files: Path) -> None:
    submits = (
        f"  - {{at: 1, submit: {{id: {name}, host_gpu_num: 2, gpu_type: {name}, duration_s: 9}}}}\n"
        for name in ("P40", "V100")
    )
    broken = "events:\n  - {at: 0, card: {host: h1, index: 3, state: broken}}\n"
    (files / "s.yaml").write_text(TWO_TYPES + broken + "".join(submits))
    simulate("--scenario", "s.yaml", "--json", "out.json")
    tasks = json.loads((files / "out.json").read_text())["tasks"]
    assert tasks["P40"]["attempts"][0]["cards"] == {"h1": [0, 1]}
    assert tasks["V100"]["start_s"] is None


def test_a_full_disk_is_told_with_the_file(files: Path) -> None:
    with pytest.raises(CommandError, match=r"/dev/full cannot be written: No space left"):
        simulate("--scenario", "s.yaml", "--json", "/dev/full")


def test_breaking_it_off_shows_no_traceback(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("jobs.simulation.simulate.Simulator.run", interrupted)
    with pytest.raises(CommandError, match="broken off") as refused:
        simulate("--scenario", "s.yaml")
    assert refused.value.returncode == 130


@pytest.mark.parametrize("days", ["inf", "1e9", "nan"])
def test_days_are_no_more_than_anybody_recorded(files: Path, days: str) -> None:
    with pytest.raises(CommandError, match="--days is a number of days, more than 0 and 3650 at most"):
        simulate("--live", "--days", days)
