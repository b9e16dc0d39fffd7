"""The tour of the documentation, command by command, and the sample of a document as people send it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jobs import parse
from jobs.models import Task
from quotas.models import ApiToken
from tests.agent.conftest import ROOT
from tests.life.house import House

SAMPLE = """{
# basics
"Token":"%(token)s",# your token
"business_flag": "ads",# the business
"host_num": 1, # hosts
"host_gpu_num": 1 ,# cards on each
"image_full_name": "", # image
"model_local_file_path": "%(folder)s", # folder of the code
# optional
"task_flag": "demo", # a name
"GPUName": "P40", # P40/M40/V100, or 'P40,M40'
"is_elasticity": true,# an elastic task
"start_cmd": "%(command)s",# by default ./start.sh or ./start.py
"exit_cmd": "",# 30 seconds at most
"exec_start_in_all_mpi_pods": true, # on every host
"enable_evicted_pulled_up": true, #start it again
"keep_alive": false, #keep the place
# data
"dataset_id": "", # a known one
"dataset_params": { # private ceph
"dataset_source": "outer_ceph", # as it is
"dataset_name": "",# a name
"ceph_info": [# several
{
"addr": "ip1:port,ip2:port",# where
"name": "",# user
"secret": "", # password
"src_path": "", # there
"dst_path": "" # here
}
]
},
# code
"model_id": "", # a known one
"model_params": {
"model_source": "git", # as it is
"model_name": "",# a name
"path_info": {
"group": "",# group
"project": "",# project
"private_token": "",# token
"branch":"",# or
"commit_id":""# a commit
}
}
}
"""


@pytest.fixture
def shell(house: House, tmp_path: Path) -> tuple[Path, str, dict[str, str]]:
    """Return a folder, ann's token, and an environment in which `taiji` is this checkout's and ann logged in."""
    house.host("h1", 2)
    house.host("h2", 2)
    house.world.business("ads", P40=16)
    token = ApiToken.objects.issue(house.world.user("ann", "ads"), "tour")
    folder = tmp_path / "tour"
    (folder / "bin").mkdir(parents=True)
    (folder / "var").mkdir()
    (folder / "var" / "admin-token").write_text(token)
    taiji = folder / "bin" / "taiji"
    taiji.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m jobs.client.command "$@"\n')
    taiji.chmod(0o755)
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    env = os.environ | {"TAIJI_URL": house.url, "TAIJI_TOKEN": token, "PYTHONPATH": str(ROOT), "PATH": path}
    return folder, token, env


def blocks(heading: str) -> str:
    """Return the commands below a heading of the documentation of the API."""
    section = (ROOT / "docs" / "api.md").read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return "\n".join(re.findall(r"```sh\n(.*?)```", section, re.DOTALL))


def test_every_command_of_the_tour_works(house: House, shell: tuple[Path, str, dict[str, str]]) -> None:
    folder, _token, env = shell
    script = blocks("Who you are") + blocks("A tour")
    assert script.count("curl") > 20
    script = f"set -euo pipefail\n{script.replace('http://localhost:8000', house.url)}"
    done = subprocess.run(
        ["bash", "-x", "-c", script], cwd=folder, env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "step 1" in done.stdout
    assert Task.objects.count() == 3  # the first, one of the two, and the first again


def test_the_sample_runs_by_the_command(house: House, shell: tuple[Path, str, dict[str, str]]) -> None:
    folder, token, env = shell
    code = folder / "code"
    code.mkdir()
    (code / "start.sh").write_text("#!/bin/sh\necho by the command\n")
    (code / "start.sh").chmod(0o755)
    (folder / "task.json").write_text(SAMPLE % {"token": token, "folder": "code", "command": ""})
    done = subprocess.run(
        ["taiji", "submit", "task.json", "--follow"],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    assert "by the command" in done.stdout
    task = Task.objects.get()
    assert (task.task_flag, task.state, task.wanted_class, task.pull_up) == (
        "demo",
        "succeeded",
        "elastic",
        True,
    )
    assert token not in json.dumps(task.config)


def test_the_sample_runs_by_curl(house: House, shell: tuple[Path, str, dict[str, str]]) -> None:
    folder, token, env = shell
    document = parse.parse(SAMPLE % {"token": token, "folder": "", "command": "echo by curl"})
    (folder / "task.json").write_text(json.dumps(document))
    line = [
        "curl",
        "-fs",
        "-H",
        "Content-Type: application/json",
        f"{house.url}/api/v1/tasks/",
        "-d",
        "@task.json",
    ]
    done = subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert token not in done.stdout
    task = Task.objects.get(pk=json.loads(done.stdout)["id"])
    house.reach(task, "succeeded")
