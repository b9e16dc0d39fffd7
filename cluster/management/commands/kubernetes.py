"""manage.py kubernetes: run tasks on a Kubernetes cluster, one long-running process for each."""

import re
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from cluster.characters import bad_character
from cluster.kubernetes import names, nodes
from cluster.kubernetes.options import SSH_FOLDER, STORAGE_FOLDER, Options

INSTALL = (
    "The Kubernetes client is not installed: .venv/bin/python -m pip install -r requirements-kubernetes.txt"
)
AS_GIVEN = (
    *("region", "namespace", "storage_claim", "storage_path", "default_image", "tools_image", "platform_url"),
    *(
        "node_selector",
        "priority_class",
        "service_account",
        "runtime_class",
        "user",
        "unschedulable_s",
        "mpijobs",
        "ceph",
        "ssh_folder",
    ),
)


def _like(pattern: str, most: int) -> Callable[[str], bool]:
    return lambda value: len(value) <= most and re.fullmatch(pattern, value) is not None


def _names_region(value: str) -> bool:
    return 0 < len(value) <= 64 and value == value.strip() and not bad_character(value, lines=False)


OBJECT = (
    _like(names.SUBDOMAIN, 253),
    "the name of an object is needed: lower-case letters, digits, dashes and dots.",
)
FOLDER = (_like(r"/[^\s:]*", 4096), "a path from the root is needed, such as /taiji/storage.")
IMAGE = (_like(r"[^\s]+", 512), "the name of an image is needed, such as python:3.11.")
# What the value of an option has to be, and how that is said; blank ones that mean "none" are not asked.
SHAPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "region": (_names_region, "the name of a region is needed: 1 to 64 printable characters."),
    "namespace": (
        _like(names.NAMESPACE, 63),
        "a namespace is needed: lower-case letters, digits and dashes.",
    ),
    **dict.fromkeys(
        ("storage_claim", "priority_class", "service_account", "runtime_class", "pull_secret"), OBJECT
    ),
    **dict.fromkeys(("storage_path", "ssh_folder"), FOLDER),
    **dict.fromkeys(("default_image", "tools_image"), IMAGE),
    "platform_url": (
        _like(r"https?://[^\s/]\S*", 2048),
        "an address is needed, such as https://taiji.example.com.",
    ),
    "toleration": (_like(names.QUALIFIED, 317), "the key of a taint is needed, such as nvidia.com/gpu."),
    "user": (_like(r"\d{1,10}(:\d{1,10})?", 21), "UID or UID:GID is needed, such as 1000:1000."),
    "unschedulable_s": (lambda value: 0 < value <= 604_800, "seconds are needed, above 0 and up to 604800."),
}
NONE = (
    "priority_class",
    "service_account",
    "runtime_class",
    "default_image",
    "tools_image",
    "platform_url",
    "user",
)
DEFAULTS = dict.fromkeys(NONE, "")


class Command(BaseCommand):
    """Speak for the nodes of one cluster until TERM."""

    help = "Run tasks on a Kubernetes cluster: its nodes are hosts of REGION, instances are pods."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take what `Options` holds."""
        parser.add_argument("--region", required=True, help="The region that the cluster is.")
        parser.add_argument("--namespace", default="taiji-tasks", help="Where pods of tasks are made.")
        parser.add_argument(
            "--storage-claim", required=True, help="The PersistentVolumeClaim of the platform's storage."
        )
        parser.add_argument("--storage-path", default=STORAGE_FOLDER, help="Where tasks see that storage.")
        parser.add_argument("--default-image", default="", help="Image of tasks that name none.")
        parser.add_argument(
            "--tools-image", default="", help="Image of this product, which brings code to pods."
        )
        parser.add_argument(
            "--platform-url", default="", help="How pods reach this platform, for uploaded code."
        )
        parser.add_argument(
            "--gpu-type",
            action="append",
            default=[],
            metavar="LABEL=TYPE",
            help="What cards are called whose node has this nvidia.com/gpu.product, or this MIG resource.",
        )
        parser.add_argument("--node-selector", default="", help="Labels of the nodes that are used.")
        parser.add_argument(
            "--toleration",
            action="append",
            default=[nodes.GPU],
            help="Key of a taint that keeps no task away.",
        )
        parser.add_argument("--priority-class", default="", help="PriorityClass of tasks' pods.")
        parser.add_argument("--service-account", default="", help="ServiceAccount of tasks' pods.")
        parser.add_argument("--runtime-class", default="", help="RuntimeClass of tasks' pods.")
        parser.add_argument("--pull-secret", action="append", default=[], help="Secret to pull images with.")
        parser.add_argument("--user", default="", help="UID or UID:GID of tasks; default: the image's.")
        parser.add_argument("--unschedulable-s", type=float, default=120.0, help="Until a pod is given up.")
        parser.add_argument(
            "--mpijobs",
            action="store_true",
            help="MPIJobs that name a business become tasks: kept suspended until they may run.",
        )
        parser.add_argument(
            "--ceph",
            action="store_true",
            help="Private ceph of tasks is mounted by ceph-csi, where its driver is installed.",
        )
        parser.add_argument(
            "--ceph-cluster",
            action="append",
            default=[],
            metavar="MONITOR=CLUSTER[/FILESYSTEM]",
            help="What the driver's own configuration calls the ceph cluster with this monitor (ADDRESS:PORT).",
        )
        parser.add_argument(
            "--plain-gangs",
            action="store_true",
            help="Tasks on several hosts are pods of their own, even where the MPI operator is.",
        )
        parser.add_argument(
            "--ssh-folder",
            default=SSH_FOLDER,
            help="Where the MPI operator puts its keys: below the home of who tasks run as.",
        )
        parser.add_argument(
            "--kubeconfig", type=Path, help="Default: the pod that this runs in, else ~/.kube."
        )
        parser.add_argument("--context", help="Of the kubeconfig.")
        parser.add_argument("--alive-file", type=Path, help="Touched after each round.")

    def handle(self, **options: Any) -> None:
        """Run until TERM."""
        if find_spec("kubernetes") is None:
            raise CommandError(INSTALL)
        from cluster.kubernetes import calls  # the client takes a second to import, and may not be there
        from cluster.kubernetes.controller import Controller
        from cluster.kubernetes.loop import Loop

        told = read(options)
        try:
            api = calls.connect(options["kubeconfig"], options["context"])
        except ValueError as error:
            raise CommandError(str(error)) from error
        controller = Controller(api, told)
        Loop(controller, options["alive_file"]).until_signal()


def read(given: dict[str, Any]) -> Options:
    """Return the options as the controller takes them; raises CommandError with what is wrong."""
    for name, (may_be, needed) in SHAPES.items():
        for value in given[name] if isinstance(given[name], list) else [given[name]]:
            if value != DEFAULTS.get(name) and not may_be(value):
                raise CommandError(f"--{name.replace('_', '-')} {value!r}: {needed}")
    types = {}
    for pair in given["gpu_type"]:
        label, equals, name = pair.partition("=")
        if not (label and equals and name) or len(name) > 64:
            raise CommandError(
                f"--gpu-type {pair}: LABEL=TYPE is needed, such as NVIDIA-A100-SXM4-80GB=A100."
            )
        types[label] = name
    if bool(given["tools_image"]) != bool(given["platform_url"]):
        raise CommandError("--tools-image and --platform-url go together: both bring code to pods.")
    return Options(
        gpu_types=types,
        ceph_clusters=_clusters(given["ceph_cluster"]),
        gang_jobs=not given["plain_gangs"],
        tolerations=tuple(given["toleration"]),
        pull_secrets=tuple(given["pull_secret"]),
        **{name: given[name] for name in AS_GIVEN},
    )


def _clusters(pairs: Iterable[str]) -> dict[str, str]:
    """Return clusters of ceph by their monitors; raises CommandError."""
    found = {}
    for pair in pairs:
        monitor, _, cluster = pair.partition("=")
        if not re.fullmatch(r"\S+:\d+", monitor) or not re.fullmatch(r"[^\s/]+(/[^\s/]+)?", cluster):
            raise CommandError(
                f"--ceph-cluster {pair}: MONITOR=CLUSTER is needed, such as 10.0.0.1:6789=CLUSTER-ID, or "
                "10.0.0.1:6789=CLUSTER-ID/FILESYSTEM."
            )
        found[monitor] = cluster
    return found
