"""What the controller of one cluster is told: where things are, and how pods of tasks look there."""

from collections.abc import Mapping
from dataclasses import dataclass, field

RUN_FOLDER = "/taiji/run"  # hosts of the gang and the code's own command
WORK_FOLDER = "/taiji/work"
POD_FOLDER = "/taiji/pod"  # what the controller tells a pod while it runs
STORAGE_FOLDER = "/taiji/storage"
SSH_FOLDER = "/root/.ssh"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of `manage.py kubernetes`; blank: none."""

    region: str
    namespace: str
    storage_claim: str
    storage_path: str = STORAGE_FOLDER
    default_image: str = ""  # of tasks that name none
    tools_image: str = ""  # brings code: has the agent's package, Python and git
    platform_url: str = ""  # how pods reach the platform, for uploaded code
    gpu_types: Mapping[str, str] = field(default_factory=dict)  # what a node's label says → type
    node_selector: str = ""  # of the nodes that are ours to use
    tolerations: tuple[str, ...] = ()  # keys of taints that do not keep tasks away
    priority_class: str = ""
    service_account: str = ""
    runtime_class: str = ""
    pull_secrets: tuple[str, ...] = ()
    user: str = ""  # UID or UID:GID of tasks; blank: the image's
    unschedulable_s: float = 120.0  # a pod that finds no place for so long is given up
    mpijobs: bool = False  # MPIJobs that people bring become tasks
    ceph: bool = False  # private ceph by ceph-csi, where its driver is
    # Monitor of ceph → what the driver's own configuration calls its cluster, with /NAME of the file system.
    ceph_clusters: Mapping[str, str] = field(default_factory=dict)
    # Gangs are MPIJobs where the MPI operator is, and only their first member runs the command.
    gang_jobs: bool = True
    ssh_folder: str = SSH_FOLDER  # in the home of who tasks run as: where these find the operator's keys

    @property
    def offers(self) -> tuple[str, ...]:
        """Return the kinds of instance that its nodes run."""
        kinds = ("container", "limits", "process") if self.default_image else ("container",)
        return (*kinds, "mpijob") if self.mpijobs else kinds

    @property
    def ceph_offers(self) -> tuple[str, ...]:
        """Return the kinds that they run besides where they can mount private ceph."""
        return ("ceph", *(f"{kind}_ceph" for kind in self.offers if kind in {"container", "process"}))
