"""The manifests of the whole platform: fields that exist, no right too many, processes as they start elsewhere."""

import copy
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from cryptography.fernet import Fernet
from django.urls import resolve

from cluster import mpijob_door
from cluster.mpijob_asks import BUSINESS
from launch import programs
from launch.places import Places
from tests.kubernetes import client_models, schemas
from tests.kubernetes.conftest import Kube

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
PARTS = ("platform", "databases", "controller")
JSON = dict[str, Any]
WITH_PODS = {"Deployment", "StatefulSet", "Job"}


def written(part: str) -> list[JSON]:
    """Return the objects of a folder as they stand in its files."""
    files = yaml.safe_load((FOLDER / part / "kustomization.yaml").read_text())["resources"]
    return [
        thing
        for name in files
        if name.endswith(".yaml")
        for thing in yaml.safe_load_all((FOLDER / part / name).read_text())
    ]


def every() -> list[JSON]:
    """Return all objects of all folders."""
    return [thing for part in (*PARTS, "whole") for thing in written(part)]


def pods() -> dict[str, JSON]:
    """Return the specs of all pods by the name of what makes them."""
    return {
        thing["metadata"]["name"]: thing["spec"]["template"]["spec"]
        for thing in every()
        if thing["kind"] in WITH_PODS
    }


def containers(spec: JSON) -> list[JSON]:
    """Return all containers of a pod."""
    return [*spec["containers"], *spec.get("initContainers", ())]


def arguments(name: str) -> list[str]:
    """Return what the main container of a Deployment is started with."""
    found: list[str] = pods()[name]["containers"][0]["args"]
    return found


def build(part: str) -> str:
    """Return what kustomize makes of a folder."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed: it builds the manifests")
    command = ["kubectl", "kustomize", str(FOLDER / part)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_object_has_only_fields_that_exist_and_all_that_are_needed() -> None:
    found = every()
    assert {thing["kind"] for thing in found} >= {
        "Ingress",
        "PodDisruptionBudget",
        "StatefulSet",
        "Job",
        "Role",
    }
    faults = {thing["metadata"]["name"]: client_models.faults(thing) for thing in found}
    assert {name: wrong for name, wrong in faults.items() if wrong} == {}


def test_a_field_that_is_wrong_missing_or_unknown_is_found() -> None:
    (worker,) = (
        thing
        for thing in written("platform")
        if thing["metadata"]["name"] == "taiji-worker" and thing["kind"] == "Deployment"
    )
    broken = copy.deepcopy(worker)
    del broken["spec"]["selector"]
    broken["spec"]["replica"] = 2
    broken["spec"]["template"]["spec"]["containers"][0]["args"][0] = 7
    assert sorted(client_models.faults(broken)) == [
        "spec.replica: there is no such field",
        "spec.selector: V1DeploymentSpec needs it",
        "spec.template.spec.containers.0.args.0: 7 is no str",
    ]


def test_what_the_recorded_schemas_know_is_right_by_them_too() -> None:
    try:
        known = [thing for thing in every() if thing["apiVersion"] in schemas.FILES]
        assert {thing["kind"] for thing in known} >= {"Job", "Service", "ConfigMap", "PersistentVolumeClaim"}
        for name, spec in pods().items():
            known.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
        assert [fault for thing in known for fault in schemas.faults(thing)] == []
    except schemas.Absent as absent:
        pytest.skip(str(absent))


def test_kustomize_builds_the_whole_once_each_with_one_image_of_the_product() -> None:
    built = list(yaml.safe_load_all(build("whole")))
    keys = [(thing["kind"], thing["metadata"]["name"]) for thing in built]
    assert sorted(keys) == sorted((thing["kind"], thing["metadata"]["name"]) for thing in every())
    images = {
        container["image"]
        for thing in built
        if thing["kind"] in WITH_PODS
        for container in containers(thing["spec"]["template"]["spec"])
    }
    ours = {image for image in images if "taiji" in image}
    assert ours == {"registry.example.com/taiji:0.1.0"}
    assert len(images - ours) == 2  # PostgreSQL and Valkey


def test_kubectl_takes_the_whole_as_far_as_it_looks_itself(kube: Kube, tmp_path: Path) -> None:
    built = tmp_path / "whole.yaml"
    built.write_text(build("whole"))
    command = [
        "kubectl",
        "apply",
        "--dry-run=client",
        "--validate=false",
        f"--server={kube.server.url}",
        f"--filename={built}",
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "HOME": str(tmp_path)}
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(every())


def test_no_pod_of_the_platform_has_a_right_that_it_does_not_need() -> None:
    for name, spec in pods().items():
        assert spec["securityContext"]["runAsNonRoot"], name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys(), name
        assert not any("hostPath" in volume for volume in spec["volumes"]), name
        if name != "taiji-controller":  # who alone calls the cluster's API
            assert spec["automountServiceAccountToken"] is False, name
        for container in containers(spec):
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False, name
            assert context["capabilities"] == {"drop": ["ALL"]}, name
            assert container["resources"]["limits"]["memory"], name


def test_an_upgrade_exchanges_what_asks_the_database_only_for_what_is_ready_and_of_the_new_schema() -> None:
    made = {(thing["kind"], thing["metadata"]["name"]): thing for thing in every()}
    for name in ("taiji-web", "taiji-worker", "taiji-controller"):
        spec = made["Deployment", name]["spec"]
        assert spec["strategy"] == {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}, name
        first = spec["template"]["spec"]["initContainers"][0]
        assert (first["name"], first["image"]) == ("wait-for-migrations", "taiji"), name
        assert "manage.py migrate --check" in first["args"][-1], name
        budget = made["PodDisruptionBudget", name]["spec"]
        assert 0 < budget["minAvailable"] < spec["replicas"], name
    web = pods()["taiji-web"]
    pause = web["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    arguments_of = arguments("taiji-web")
    grace = int(arguments_of[arguments_of.index("--timeout-graceful-shutdown") + 1])
    assert pause + grace < web["terminationGracePeriodSeconds"]


def test_what_is_meant_by_a_name_is_there() -> None:
    found = {
        (thing["kind"], thing["metadata"].get("namespace"), thing["metadata"]["name"]) for thing in every()
    }
    claims = {"taiji-data", "taiji-storage"}
    assert {name for kind, _, name in found if kind == "PersistentVolumeClaim"} == claims
    for name, spec in pods().items():
        mounted = {mount["name"] for one in containers(spec) for mount in one.get("volumeMounts", ())}
        offered = {volume["name"] for volume in spec["volumes"]}
        assert mounted - offered <= {"data"}, name  # a StatefulSet's own claim
        assert offered <= mounted, name
        for volume in spec["volumes"]:
            claim = volume.get("persistentVolumeClaim", {}).get("claimName", "taiji-data")
            assert ("PersistentVolumeClaim", "taiji", claim) in found
    for thing in every():
        if thing["kind"] in {"Deployment", "StatefulSet"}:
            assert thing["spec"]["selector"]["matchLabels"] == thing["spec"]["template"]["metadata"]["labels"]
    labels = {name: {"app": name} for name in pods()}
    for thing in every():
        if thing["kind"] == "Service":
            assert thing["spec"]["selector"] == labels[thing["metadata"]["name"]]
        if thing["kind"] == "PodDisruptionBudget":
            assert thing["spec"]["selector"]["matchLabels"] == labels[thing["metadata"]["name"]]


def test_the_ingress_leads_pages_and_their_sockets_to_any_web_server() -> None:
    made = {(thing["kind"], thing["metadata"]["name"]): thing for thing in every()}
    ingress = made["Ingress", "taiji"]
    [[path]] = [rule["http"]["paths"] for rule in ingress["spec"]["rules"]]
    assert (path["path"], path["pathType"]) == ("/", "Prefix")
    to = path["backend"]["service"]
    [port] = made["Service", to["name"]]["spec"]["ports"]
    [listens] = pods()[to["name"]]["containers"][0]["ports"]
    assert (port["name"], port["targetPort"]) == (to["port"]["name"], listens["name"])
    given = arguments(to["name"])
    assert given[given.index("--port") + 1] == str(listens["containerPort"])
    # A socket that hears nothing new is silent; one that is cut comes again, but not each minute.
    notes = ingress["metadata"]["annotations"]
    for way in ("read", "send"):
        assert int(notes[f"nginx.ingress.kubernetes.io/proxy-{way}-timeout"]) >= 3600
    assert made["Deployment", to["name"]]["spec"]["replicas"] > 1
    assert "sessionAffinity" not in made["Service", to["name"]]["spec"]  # whichever answers


def test_the_processes_are_started_as_they_are_on_one_machine(tmp_path: Path) -> None:
    places = Places(data=tmp_path, port=8000, bind="0.0.0.0", run=Path("/tmp"))
    ours = {name: program.argv[1:] for name, program in programs.all_of(places, []).items()}
    assert arguments("taiji-web") == ["python", *ours["web"]]
    assert arguments("taiji-worker") == ["python", *ours["worker"]]
    assert arguments("taiji-beat") == ["python", *ours["beat"]]
    config = next(thing for thing in written("platform") if thing["kind"] == "ConfigMap")["data"]
    assert config.items() >= programs.LEAN.items()


def test_the_settings_of_the_deployment_leave_nothing_to_warn_of() -> None:
    config = next(thing for thing in written("platform") if thing["kind"] == "ConfigMap")["data"]
    secret = {
        "DATABASE_URL": "postgres://taiji:word@taiji-postgres/taiji",
        "REDIS_URL": "redis://:word@taiji-redis:6379/0",
        "TAIJI_SECRET_KEY": "k3y" * 20 + "!Aab9%_q",
        "TAIJI_VAULT_KEYS": Fernet.generate_key().decode(),
        "TAIJI_JOIN_TOKEN": "x" * 43,
    }
    env = {name: value for name, value in os.environ.items() if not name.startswith("TAIJI_")}
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=ROOT,
        env=env | config | secret,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_probes_ask_by_a_name_that_the_server_answers_to_whatever_it_is_called(
    client: Any, db: None, settings: Any
) -> None:
    settings.ALLOWED_HOSTS = ["taiji.example.com", "127.0.0.1", "[::1]"]
    settings.SECURE_SSL_REDIRECT = True
    web = pods()["taiji-web"]["containers"][0]
    for probe in ("startupProbe", "readinessProbe"):
        asked = web[probe]["httpGet"]
        (header,) = asked["httpHeaders"]
        answer = client.get(asked["path"], headers={header["name"].lower(): header["value"]})
        assert answer.status_code == 200


def test_the_folder_that_the_documentation_shows_is_one_that_kustomize_builds(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "kubernetes.md").read_text()
    lines = text.partition("**2. What is yours.**")[2].partition("\nWith a PostgreSQL")[0].splitlines()
    shown = "\n".join(line.removeprefix("    ") for line in lines if line.startswith("    "))
    where = os.path.relpath(ROOT, tmp_path)
    (tmp_path / "kustomization.yaml").write_text(shown.replace("ROOT", where).replace("THE-CLASS", "nfs"))
    built = list(yaml.safe_load_all(build(str(tmp_path))))
    named = {(thing["kind"], thing["metadata"]["name"]): thing for thing in built}
    controller = named["Deployment", "taiji-controller"]["spec"]["template"]["spec"]["containers"][0]
    assert controller["image"] == "registry.yours/taiji:0.1.0"
    assert "--region=YOUR-REGION" in controller["args"]
    assert "--tools-image=registry.yours/taiji:0.1.0" in controller["args"]
    assert not any(argument == "--region=default" for argument in controller["args"])
    assert named["Ingress", "taiji"]["spec"]["rules"][0]["host"] == "taiji.yours"
    assert named["ConfigMap", "taiji"]["data"]["TAIJI_ALLOWED_HOSTS"].startswith("taiji.yours,")
    claims = [thing for thing in built if thing["kind"] == "PersistentVolumeClaim"]
    assert [claim["spec"]["storageClassName"] for claim in claims] == ["nfs", "nfs"]
    assert not [fault for thing in built for fault in client_models.faults(thing)]


def test_the_part_for_mpijobs_is_added_to_the_whole_and_asked_about_nothing_else(tmp_path: Path) -> None:
    where = os.path.relpath(FOLDER, tmp_path)
    text = f"resources: [{where}/whole]\ncomponents: [{where}/mpijobs]\n"
    (tmp_path / "kustomization.yaml").write_text(text)
    built = list(yaml.safe_load_all(build(str(tmp_path))))
    assert [fault for thing in built for fault in client_models.faults(thing)] == []
    named = {(thing["kind"], thing["metadata"]["name"]): thing for thing in built}
    controller = named["Deployment", "taiji-controller"]["spec"]["template"]["spec"]["containers"][0]
    assert controller["args"][-1] == "--mpijobs"
    (webhook,) = named["MutatingWebhookConfiguration", "taiji-mpijobs"]["webhooks"]
    assert webhook["objectSelector"] == {"matchExpressions": [{"key": BUSINESS, "operator": "Exists"}]}
    (spaces,) = webhook["namespaceSelector"]["matchExpressions"]
    assert (spaces["operator"], "kube-system" in spaces["values"]) == ("NotIn", True)
    assert [rule["resources"] for rule in webhook["rules"]] == [["mpijobs"]]
    assert resolve(urlsplit(webhook["clientConfig"]["url"]).path).func is mpijob_door.review
    account = "system:serviceaccount:taiji:taiji-controller"
    assert webhook["matchConditions"][0]["expression"] == f"request.userInfo.username != '{account}'"


def test_the_part_for_ceph_is_added_to_the_whole(tmp_path: Path) -> None:
    where = os.path.relpath(FOLDER, tmp_path)
    text = f"resources: [{where}/whole]\ncomponents: [{where}/mpijobs, {where}/ceph]\n"
    (tmp_path / "kustomization.yaml").write_text(text)
    built = list(yaml.safe_load_all(build(str(tmp_path))))
    assert [fault for thing in built for fault in client_models.faults(thing)] == []
    named = {(thing["kind"], thing["metadata"]["name"]): thing for thing in built}
    controller = named["Deployment", "taiji-controller"]["spec"]["template"]["spec"]["containers"][0]
    assert controller["args"][-2:] == ["--mpijobs", "--ceph"]
    for kind in ("Role", "ClusterRole"):
        (subject,) = named[f"{kind}Binding", "taiji-ceph"]["subjects"]
        assert (subject["namespace"], subject["name"]) == ("taiji", "taiji-controller")
