"""The pod of an instance, from its spec: what is asked of the cluster, and that its schemas know all of it."""

import json
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from cluster.kubernetes import names, pods
from cluster.kubernetes.options import Options
from cluster.kubernetes.pods import Member
from tests.kubernetes import schemas

ID = uuid.UUID(int=7)
OPTIONS = Options(
    region="Shen Zhen",
    namespace="tasks",
    storage_claim="storage",
    default_image="plain:1",
    tools_image="tools:1",
)
CONTAINER: dict[str, Any] = {
    "image": "team/train:3",
    "user": "1000:100",
    "memory_mib": 4096,
    "cpus": 1.5,
    "shm_mib": 1024,
    "pids": 100,
    "network": "host",
    "read_only": True,
    "pull_timeout_s": 600,
}


def spec(**more: Any) -> dict[str, Any]:
    """Return what a host with an agent would be told, alone on two cards."""
    return {
        "label": "7 train #1",
        "command": "./train.sh $HOME",
        "exit_command": "",
        "grace_s": 30,
        "env": {"RATE": "0.1", "PRICE": "$(RATE)$"},
        "cards": [4, 5],
        "storage": "business-3",
        "task_dir": "task-7",
        "hosts": [{"name": "gpu-1", "address": "10.0.0.1", "cards": 2}],
        "rank": 0,
        "master_port": 20007,
        "wait_for_go": False,
        "container": None,
        "limits": {},
        **more,
    }


def member(rank: int = 0, **more: Any) -> Member:
    """Return an instance on gpu-1."""
    resources = more.pop("resources", {"nvidia.com/gpu": 2})
    secrets = {
        name: more.pop(name) for name in ("secret_env", "code_token", "pod_token", "registry") if name in more
    }
    return Member(
        id=ID,
        gang=70,
        rank=rank,
        host_id=5,
        node="gpu-1",
        spec=spec(**more),
        resources=resources,
        **secrets,
    )


def pod(options: Options = OPTIONS, **more: Any) -> dict[str, Any]:
    """Return its pod."""
    return pods.pod(member(**more), options)


def main(**more: Any) -> dict[str, Any]:
    """Return the container that runs the command."""
    found: dict[str, Any] = pod(**more)["spec"]["containers"][0]
    return found


def env(**more: Any) -> dict[str, str]:
    """Return the variables that have a value there."""
    return {one["name"]: one.get("value", "") for one in main(**more)["env"]}


GANG: dict[str, Any] = {
    "hosts": [{"name": f"gpu-{n}", "address": "", "cards": 8} for n in (1, 2)],
    "wait_for_go": True,
    "cards": list(range(8)),
}
GIT = {"kind": "git", "url": "https://git.test/a.git", "branch": "", "commit": ""}
CODE: dict[str, Any] = {"code": GIT, "prepare_s": 60}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"container": CONTAINER},
        {"command": None, **GANG},
        {"exit_command": "save", "secret_env": {"KEY": "hunter2"}, **GANG},
        {"code_token": "t", "pod_token": "p", **CODE},
        {"container": CONTAINER, "registry": {"username": "u", "password": "p", "name": "hub.test"}},
    ],
)
def test_what_is_made_is_what_a_real_api_server_knows(more: dict[str, Any]) -> None:
    one = member(**more)
    options = replace(OPTIONS, priority_class="batch", runtime_class="nvidia", service_account="task")
    made = [pods.pod(one, options), pods.service(70, options), *pods.secrets(one, options)]
    try:
        assert [fault for thing in made for fault in schemas.faults(thing)] == []
    except schemas.Absent as absent:
        pytest.skip(str(absent))


def test_the_schemas_find_a_field_that_is_not_there() -> None:
    wrong = pod()
    wrong["spec"]["hostname2"] = "x"
    try:
        assert "hostname2" in str(schemas.faults(wrong))
    except schemas.Absent as absent:
        pytest.skip(str(absent))


def test_a_pod_is_the_same_each_time_it_is_made() -> None:
    assert json.dumps(pod(**CODE)) == json.dumps(pod(**CODE))


def test_its_names_and_labels_are_ids_and_people_find_the_task_in_a_note() -> None:
    metadata = pod()["metadata"]
    assert metadata["name"] == "taiji-70-0"
    assert metadata["annotations"] == {"taiji.io/label": "7 train #1"}
    expected = {
        "taiji.io/instance": str(ID),
        "taiji.io/gang": "70",
        "taiji.io/host": "5",
        "taiji.io/region": names.region_label("Shen Zhen"),
    }
    assert expected.items() <= metadata["labels"].items()


def test_the_scheduler_binds_it_but_to_no_other_node() -> None:
    body = pod()["spec"]
    assert "nodeName" not in body
    terms = body["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert terms == [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}]}]


def test_cards_are_counted_and_not_named() -> None:
    assert main()["resources"] == {"limits": {"nvidia.com/gpu": "2"}}
    two_kinds = {"nvidia.com/mig-1g.10gb": 3, "nvidia.com/mig-3g.40gb": 1}
    assert main(resources=two_kinds)["resources"]["limits"] == {name: str(n) for name, n in two_kinds.items()}
    assert main(resources={})["resources"] == {"limits": {}}


def test_limits_of_the_installation_hold_for_containers_and_plain_processes() -> None:
    limits = {"memory_mib": 100, "cpus": 0.5, "pids": 9}
    expected = {"nvidia.com/gpu": "2", "memory": "100Mi", "cpu": "500m"}
    assert main(limits=limits)["resources"]["limits"] == expected
    assert main(container=CONTAINER)["resources"]["limits"] == {
        "nvidia.com/gpu": "2",
        "memory": "4096Mi",
        "cpu": "1500m",
    }


def test_no_value_is_taken_for_a_reference_to_another() -> None:
    """Kubernetes expands `$(NAME)` in values and commands; a shell's `$` has to come out as it was."""
    assert env()["PRICE"] == "$$(RATE)$$"
    assert main()["command"][-1] == "./train.sh $$HOME"


def test_our_variables_win_over_those_of_the_task() -> None:
    found = env(env={"RANK": "9", "TAIJI_STORAGE": "/x", "A": "1"})
    assert (found["RANK"], found["A"]) == ("0", "1")
    assert found["TAIJI_STORAGE"] == "/taiji/storage/business-3"
    assert found["TAIJI_TASK_DIR"] == "/taiji/storage/business-3/task-7"


def test_a_secret_stands_in_no_pod() -> None:
    one = member(secret_env={"KEY": "hunter2"}, code_token="glpat-1", pod_token="pod.2", **CODE)
    assert not any(word in json.dumps(pods.pod(one, OPTIONS)) for word in ("hunter2", "glpat-1", "pod.2"))
    (secret,) = pods.secrets(one, OPTIONS)
    assert secret["stringData"] == {
        "KEY": "hunter2",
        "TAIJI_CODE_TOKEN": "glpat-1",
        "TAIJI_POD_TOKEN": "pod.2",
    }
    reference = next(
        item for item in pods.pod(one, OPTIONS)["spec"]["containers"][0]["env"] if item["name"] == "KEY"
    )
    assert reference["valueFrom"] == {"secretKeyRef": {"name": "taiji-70-0", "key": "KEY"}}


def test_the_password_of_a_registry_is_where_the_kubelet_looks_for_it() -> None:
    one = member(container=CONTAINER, registry={"username": "u", "password": "p", "name": "hub.test"})
    (secret,) = pods.secrets(one, OPTIONS)
    assert json.loads(secret["stringData"][".dockerconfigjson"])["auths"]["hub.test"]["password"] == "p"
    assert pods.pod(one, OPTIONS)["spec"]["imagePullSecrets"] == [{"name": "taiji-70-0-image"}]


def test_members_of_a_gang_are_found_by_name_and_wait_for_each_other() -> None:
    body = pod(rank=1, **GANG)["spec"]
    assert (body["hostname"], body["subdomain"]) == ("taiji-70-1", "taiji-70")
    found = env(rank=1, **GANG)
    assert found["MASTER_ADDR"] == "taiji-70-0.taiji-70.tasks.svc"
    assert found["TAIJI_HOSTS"] == "\n".join(f"taiji-70-{n}.taiji-70.tasks.svc slots=8" for n in (0, 1))
    assert (found["RANK"], found["WORLD_SIZE"], found["TAIJI_WAITS"]) == ("1", "2", "yes")
    service = pods.service(70, OPTIONS)["spec"]
    labels: Mapping[str, str] = pod(**GANG)["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()
    assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)


def test_the_exit_command_runs_before_an_ordered_end_within_the_grace() -> None:
    body = pod(exit_command="echo $HOME", grace_s=12.5)["spec"]
    assert body["terminationGracePeriodSeconds"] == 13
    assert body["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][-1] == "echo $HOME"
    assert "lifecycle" not in main()


def test_a_task_without_an_image_gets_the_clusters_own() -> None:
    assert main()["image"] == "plain:1"
    assert main(container=CONTAINER)["image"] == "team/train:3"


def test_a_container_that_may_not_write_may_do_so_where_it_has_to() -> None:
    found = main(container=CONTAINER)
    assert found["securityContext"]["readOnlyRootFilesystem"] is True
    paths = {one["mountPath"] for one in found["volumeMounts"]}
    assert {"/tmp", "/var/tmp", "/run", "/dev/shm", "/taiji/work"} <= paths


def test_tasks_see_the_folder_of_their_business_alone_and_no_token_of_the_cluster() -> None:
    body = pod()["spec"]
    (mount,) = (one for one in body["containers"][0]["volumeMounts"] if one["name"] == "storage")
    assert mount == {"name": "storage", "mountPath": "/taiji/storage/business-3", "subPath": "business-3"}
    assert body["automountServiceAccountToken"] is False
    assert body["containers"][0]["securityContext"]["allowPrivilegeEscalation"] is False


def test_whether_a_node_that_is_away_is_lost_is_not_for_the_cluster_to_say() -> None:
    kept = [one for one in pod()["spec"]["tolerations"] if one.get("effect") == "NoExecute"]
    assert {one["key"] for one in kept} == {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
    assert all("tolerationSeconds" not in one for one in kept)
