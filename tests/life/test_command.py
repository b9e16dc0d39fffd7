"""The `taiji` command against the real platform, with real agents and processes behind it."""

import json
import os
import stat
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from django.db.models import F

from jobs.models import Attempt, Policy, Task
from quotas.models import ApiToken
from tests.agent.conftest import ROOT
from tests.life.house import House

Done = subprocess.CompletedProcess[str]


class Shell:
    """Ann's shell on a machine far from the platform."""

    def __init__(self, house: House, home: Path) -> None:
        self.house = house
        self.home = home
        house.world.business("ads", P40=16)
        self.token = ApiToken.objects.issue(house.world.user("ann", "ads"), "shell")
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TAIJI_")},
            **{
                "HOME": str(home),
                "LC_ALL": "C.UTF-8",
                "TERM": "dumb",
                "COLUMNS": "200",
                "PYTHONPATH": str(ROOT),
            },
        }
        self.env.pop("XDG_CONFIG_HOME", None)

    def __call__(self, *words: str, sent: str = "", **env: str) -> Done:
        """Run the command and return what it did."""
        line = [sys.executable, "-m", "jobs.client.command", *words]
        return subprocess.run(
            line, input=sent, capture_output=True, text=True, cwd=self.home, env=self.env | env, timeout=90
        )

    def log_in(self) -> Done:
        """Log in as a script does."""
        return self("login", self.house.url, "--token-stdin", sent=f"{self.token}\n")

    def document(self, text: str, name: str = "task.yaml") -> str:
        """Write a document and return its name."""
        (self.home / name).write_text(text)
        return name


@pytest.fixture
def shell(house: House, tmp_path: Path) -> Shell:
    """Return a shell in which ann is logged in."""
    home = tmp_path / "home"
    home.mkdir()
    shell = Shell(house, home)
    assert shell.log_in().returncode == 0
    return shell


def test_a_login_is_kept_for_its_owner_alone_and_forgotten(shell: Shell) -> None:
    kept = shell.home / ".config" / "taiji" / "login.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert json.loads(kept.read_text()) == {"url": shell.house.url, "token": shell.token}
    assert shell("logout").stdout == "Forgotten.\n"
    refused = shell("list")
    assert (refused.returncode, refused.stdout) == (77, "")
    assert "run `taiji login URL` once" in refused.stderr


def test_a_token_that_is_piped_in_is_taken_without_asking_for_it(shell: Shell) -> None:
    shell("logout")
    done = shell("login", shell.house.url, sent=f"{shell.token}\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert "you may submit for ads" in done.stdout


def test_a_wrong_token_is_not_kept(shell: Shell) -> None:
    shell("logout")
    refused = shell("login", shell.house.url, "--token-stdin", sent="no-such-token")
    assert refused.returncode == 77
    assert not (shell.home / ".config" / "taiji" / "login.json").exists()
    assert "no-such-token" not in refused.stderr


@pytest.mark.parametrize("words", [("list",), ("show", "1"), ("stop", "1", "2")])
def test_a_token_of_the_environment_that_is_none_any_more_is_named(
    shell: Shell, words: tuple[str, ...]
) -> None:
    refused = shell(*words, TAIJI_TOKEN="old")
    assert (refused.returncode, refused.stdout) == (77, "")
    said = f"taiji: The token in TAIJI_TOKEN is not valid (any more) at {shell.house.url}.\n"
    assert refused.stderr == said
    ApiToken.objects.all().delete()
    kept = shell(*words)
    assert (kept.returncode, "TAIJI_TOKEN is not" in kept.stderr) == (77, False)
    assert "Log in with `taiji login URL`" in kept.stderr


def test_a_kept_token_goes_to_no_other_platform(shell: Shell) -> None:
    refused = shell("list", TAIJI_URL="http://127.0.0.1:9")
    assert refused.returncode == 77
    assert "TAIJI_TOKEN" in refused.stderr


SAMPLE = """{
"business_flag": "ads",# which business
"host_num": 1, # hosts
"host_gpu_num": 1 ,# cards on each
"GPUName": "P40", # P40, M40
"model_local_file_path": "code", # a folder of this machine
"is_elasticity": false,
"exit_cmd": "", # optional
}"""


def test_a_document_with_comments_and_a_folder_of_code_runs_and_shows_its_log(shell: Shell) -> None:
    shell.house.host("h1")
    (shell.home / "code").mkdir()
    (shell.home / "code" / "start.sh").write_text("#!/bin/sh\necho from the folder\nprintf '\\377'\nexit 7\n")
    (shell.home / "code" / "start.sh").chmod(0o755)
    line = [sys.executable, "-m", "jobs.client.command", "submit", shell.document(SAMPLE), "--follow"]
    done = subprocess.run(line, capture_output=True, cwd=shell.home, env=shell.env, timeout=90)
    assert done.returncode == 7, done.stderr
    assert b"from the folder\n\xff" in done.stdout
    assert b"[taiji] failed: " in done.stderr


def test_waiting_gives_zero_for_a_task_that_succeeds_and_its_answer_as_json(shell: Shell) -> None:
    shell.house.host("h1")
    file = shell.document("{business_flag: ads, GPUName: P40, start_cmd: 'true'}")
    done = shell("submit", file, "--wait", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["state"] == "succeeded"


def test_waiting_for_a_task_that_somebody_stops_gives_143(shell: Shell) -> None:
    shell.house.host("h1")
    file = shell.document("{business_flag: ads, GPUName: P40, start_cmd: sleep 300}")
    line = [sys.executable, "-m", "jobs.client.command", "submit", file, "--wait"]
    waits = subprocess.Popen(line, cwd=shell.home, env=shell.env, stderr=subprocess.PIPE)
    task = shell.house.until(lambda: Task.objects.first())
    shell.house.reach(task, "running")
    assert shell("stop", str(task.pk)).stdout == f"{task.pk}  stopping\n"
    assert waits.wait(60) == 143


def test_a_copy_is_submitted_with_a_field_changed(shell: Shell) -> None:
    shell.house.host("h1", 4)
    first = shell.house.submit("true", host_gpu_num=2)
    copied = shell("clone", str(first.pk), "--set", "host_gpu_num=4", "--json")
    assert copied.returncode == 0, copied.stderr
    made = Task.objects.get(pk=json.loads(copied.stdout)["id"])
    assert (made.host_gpu_num, made.origin_id, made.config["start_cmd"]) == (4, first.pk, "true")


def test_what_is_there_is_shown_in_tables(shell: Shell) -> None:
    shell.house.host("h1", 4)
    shell.house.submit("sleep 300", host_gpu_num=2)
    task = shell.house.submit("true", host_gpu_num=4, task_flag="[red]large[/red]")
    shell.house.until(lambda: Task.objects.get(pk=task.pk).reason_code)
    assert "SZ      P40   1-3   2" in shell("free").stdout
    assert "ads       P40   all     2     16" in shell("quota").stdout
    assert "h1    SZ      ready" in shell("hosts").stdout
    listed = shell("list", "--state", "queued", "--user", "me").stdout
    assert "[red]large[/red]" in listed  # what users call things is no markup
    assert "asks 4 P40 on one host" in " ".join(listed.split())
    assert all("asks 4 P40 on one host" in shell(word, str(task.pk)).stdout for word in ("show", "why"))


def test_on_a_narrow_screen_each_task_of_a_list_is_one_line(shell: Shell) -> None:
    shell.house.host("h1", 4)
    runs = shell.house.submit("sleep 300", host_gpu_num=2, task_flag="runs")
    waits = shell.house.submit("true", host_gpu_num=4, task_flag="a name that is longer than anybody needs")
    shell.house.until(lambda: Task.objects.get(pk=waits.pk).reason_code)
    shell.house.reach(runs, "running")
    lines = shell("list", COLUMNS="80").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["ID", str(waits.pk), str(runs.pk)]
    assert all(len(line) <= 80 for line in lines)
    assert "BUSINESS" not in lines[0]
    assert "a name that is" in lines[1]
    assert "asks 4 P40 on" in lines[1]
    assert "running" in lines[2]


def test_an_evicted_task_says_for_whom_by_which_rule_and_what_that_cost(shell: Shell) -> None:
    shell.house.host("h1", 2)
    Policy.objects.update_or_create(pk=1, defaults={"values": {"min_run_s": 0}})
    victim = shell.house.submit("sleep 300", is_elasticity=True, host_gpu_num=2)
    shell.house.reach(victim, "running")
    Attempt.objects.filter(task=victim).update(created_at=F("created_at") - timedelta(minutes=30))
    high = shell.house.submit("sleep 300", host_gpu_num=2)
    shell.house.reach(high, "running")
    for word in ("why", "show"):
        told = shell(word, str(victim.pk)).stdout
        assert f"Evicted for task {high.pk} of ads: its cards were the cheapest to give up" in told
        assert "lost  At most 1.0" in told
    chinese = shell("why", str(victim.pk), LC_ALL="zh_CN.UTF-8").stdout
    assert f"为业务 ads 的任务 {high.pk} 让出卡：让出它的卡代价最小" in chinese
    assert "最多损失 1.0" in chinese


def test_a_preview_names_whom_it_would_evict(shell: Shell) -> None:
    shell.house.host("h1", 2)
    victim = shell.house.submit("sleep 300", is_elasticity=True, host_gpu_num=2)
    shell.house.reach(victim, "running")
    told = shell("preview", shell.document("{business_flag: ads, GPUName: P40, start_cmd: 'true'}"))
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith("starts after evicting\n")
    assert f"evicts  task {victim.pk} of ads, loses 0.0 card-hours, does not come back" in told.stdout


def test_a_preview_says_what_would_become_of_a_document(shell: Shell) -> None:
    shell.house.host("h1")
    starts = shell("preview", shell.document("{business_flag: ads, GPUName: P40, start_cmd: 'true'}"))
    assert starts.returncode == 0, starts.stderr
    assert starts.stdout.startswith("starts now\n")
    never = shell(
        "preview", shell.document("{business_flag: ads, GPUName: P40, start_cmd: x, host_gpu_num: 64}")
    )
    assert (never.returncode, never.stdout.splitlines()[0]) == (1, "would never start")
    assert 'would start with  {"host_gpu_num": 2}  with 2 cards on each host: starts now' in never.stdout
    assert Task.objects.count() == 0


def test_a_preview_says_of_each_way_to_start_whether_it_evicts(shell: Shell) -> None:
    shell.house.host("h1", 2)
    Policy.objects.update_or_create(pk=1, defaults={"values": {"min_run_s": 0}})
    victim = shell.house.submit("sleep 300", is_elasticity=True, host_gpu_num=2)
    shell.house.reach(victim, "running")
    asked = "{business_flag: ads, GPUName: P40, start_cmd: x, is_elasticity: true, host_gpu_num: 2}"
    told = shell("preview", shell.document(asked)).stdout
    assert (
        'would start with  {"is_elasticity": false}  as a high task, on the quota of the business: '
        "evicts tasks: 1, loses 0.0 card-hours\n"
    ) in told


def test_a_preview_takes_the_document_with_a_folder_that_a_submission_takes(shell: Shell) -> None:
    shell.house.host("h1")
    (shell.home / "code").mkdir()
    text = "{business_flag: ads, GPUName: P40, start_cmd: '', model_local_file_path: %s}"
    starts = shell("preview", shell.document(text % "code"))
    assert (starts.returncode, starts.stdout.splitlines()[0]) == (0, "starts now"), starts.stderr
    gone = shell("preview", shell.document(text % "cod"))
    assert (gone.returncode, gone.stderr) == (65, "taiji: model_local_file_path: cod is no folder\n")


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("{business_flag: ads, host_nums: 2}", 65, "host_nums: "),
        (
            "{business_flag: [ads",
            65,
            "task.yaml is no task document (JSON or YAML object): see docs/client.md (line 1, column 21: ",
        ),
        ("import os\nx: y = 1\n", 65, "task.yaml is no task document"),
        ("{business_flag: ads, gpus: 2}", 65, 'did you mean "host_gpu_num"?'),
        ("- ads", 65, "task.yaml holds no document"),
        ("{business_flag: ads, model_local_file_path: not-there}", 65, "model_local_file_path: "),
        ("{business_flag: strangers, start_cmd: x}", 65, "business_flag: "),
    ],
)
def test_a_faulty_document_is_told_with_its_place(shell: Shell, text: str, code: int, words: str) -> None:
    refused = shell("submit", shell.document(text))
    assert refused.returncode == code, refused.stderr
    assert words in refused.stderr
    assert "Traceback" not in refused.stderr
    assert Task.objects.count() == 0


def test_a_change_without_a_value_is_a_wrong_command_line(shell: Shell) -> None:
    refused = shell("submit", shell.document("{business_flag: ads}"), "--set", "host_num")
    assert refused.returncode == 2, refused.stderr
    assert "--set takes FIELD=VALUE" in refused.stderr
    assert Task.objects.count() == 0


def test_a_text_that_reads_like_another_kind_is_asked_for_in_quotes_that_the_shell_leaves(
    shell: Shell,
) -> None:
    file = shell.document("{business_flag: ads, GPUName: P40, host_gpu_num: 9999}")
    refused = shell("submit", file, "--set", "start_cmd=true")
    assert refused.returncode == 65, refused.stderr
    written = """write --set 'start_cmd="true"'\n"""
    assert refused.stderr.endswith(written)
    quoted = shell("preview", file, "--set", 'start_cmd="true"')
    assert "start_cmd" not in quoted.stdout + quoted.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("show", "99"), 66, "taiji: task 99: "),
        (("why", "99"), 66, "taiji: task 99: "),
        (("logs", "99"), 66, "taiji: task 99: "),
        (("clone", "99"), 66, "taiji: task 99: "),
        (("show", "x"), 2, "valid integer"),
        (("submit", "no-file.json"), 66, "no-file.json: No such file or directory"),
        (("retry", "99"), 66, "task 99: "),
        (("login", "taiji.example.org"), 77, "one looks like https://taiji.example.org"),
        (("logs", "1", "--follow", "--attempt", "1"), 2, "leave --attempt out"),
        (("sim", "--hosts", "h.csv"), 2, "--hosts alone is not enough"),
    ],
)
def test_each_fault_is_one_sentence_and_a_code(
    shell: Shell, words: tuple[str, ...], code: int, said: str
) -> None:
    refused = shell(*words)
    assert refused.returncode == code, refused.stderr
    assert said in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_platform_that_is_away_is_told_as_that(shell: Shell) -> None:
    refused = shell("list", TAIJI_URL="http://127.0.0.1:9", TAIJI_TOKEN="x")
    assert refused.returncode == 69
    assert "gives no answer" in refused.stderr


def test_the_platform_speaks_the_language_of_the_shell(shell: Shell) -> None:
    refused = shell("submit", shell.document("{business_flag: ads}"), LC_ALL="zh_CN.UTF-8")
    assert any("\u4e00" <= letter <= "\u9fff" for letter in refused.stderr)


def test_a_list_of_documents_is_submitted_at_once_and_what_is_refused_is_told_by_its_place(
    shell: Shell,
) -> None:
    shell.house.host("h1")
    good = "{business_flag: ads, GPUName: P40, start_cmd: 'true', is_elasticity: true, task_flag: many}"
    done = shell("submit-many", shell.document(f"- {good}\n- {{business_flag: ads}}\n- {good}\n"))
    assert done.returncode == 65
    assert "taiji: document 2, start_cmd: " in done.stderr
    assert len(done.stdout.splitlines()) == Task.objects.filter(task_flag="many").count() == 2
    listed = json.loads(shell("list", "--json", "--fields", "id,task_flag").stdout)
    assert [list(row) for row in listed] == [["id", "task_flag"]] * 2
    refused = shell("submit-many", shell.document("{}"))
    assert (refused.returncode, "holds no list" in refused.stderr) == (65, True)
