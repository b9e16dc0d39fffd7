"""What is done to pods: each order may be given again after any crash, and then changes nothing more."""

import logging
import uuid
from collections.abc import Mapping
from typing import Any

from cluster.kubernetes import ceph, names, pods
from cluster.kubernetes.calls import Away, Calls, Conflict, Missing, Refused
from cluster.kubernetes.options import Options
from cluster.kubernetes.outcomes import Made, NotTaken, NotThere, Outcome
from cluster.kubernetes.pods import Member

log = logging.getLogger(__name__)
JSON = dict[str, Any]
DETAIL_AT_MOST = 500


class NotYet(Exception):
    """Something that goes by itself is in the way, such as an older pod with the name: it is tried again."""


class Orders:
    """The orders of one cluster's controller."""

    def __init__(self, calls: Calls, options: Options) -> None:
        """Give them through `calls`."""
        self._calls, self._options = calls, options
        folder = f"/api/v1/namespaces/{options.namespace}"
        self._pods, self._services, self.secrets, self._claims = (
            f"{folder}/{kind}" for kind in ("pods", "services", "secrets", "persistentvolumeclaims")
        )

    def launch(self, member: Member) -> Outcome:
        """Have the pod of a member; raises NotYet, calls.Away."""
        if why := ceph.clash(member.spec, pods.storage_of(member.spec, self._options)):
            return NotTaken(hosts={member.id: member.host_id}, sentence=why)
        try:
            pod = self._start(member)
        except Refused as refused:
            said = f"The cluster does not take the pod: {refused}"
            return NotTaken(hosts={member.id: member.host_id}, sentence=said[:DETAIL_AT_MOST])
        return Made(host=member.host_id, pod=pod)

    def look_up(self, pod: Mapping[str, Any]) -> Outcome:
        """Say whether a pod that the watch does not show is there."""
        try:
            found = self._calls.get(f"{self._pods}/{pod['metadata']['name']}")
        except Missing:
            return NotThere()
        return None if found["metadata"]["uid"] == pod["metadata"]["uid"] else NotThere()

    def _start(self, member: Member) -> JSON:
        """Make what the pod needs, the pod, and have the former go with it."""
        secrets = pods.secrets(member, self._options)
        for secret in secrets:
            self.once(self.secrets, secret)
        if member.members > 1:
            self.once(self._services, pods.service(member.gang, self._options))
        self.bring_data(member)
        pod = self._pod(member)
        for secret in secrets:
            self.own(self.secrets, secret["metadata"]["name"], pods.owner(pod))
        if member.members > 1 and member.rank == 0:
            self.own(self._services, names.service_name(member.gang), pods.owner(pod))
        if member.rank == 0:
            self.own_data(member, pods.owner(pod))
        return pod

    def bring_data(self, member: Member) -> None:
        """Make the volumes of private ceph that all pods of its attempt share."""
        for folder, body in ceph.objects(member.spec, member.gang, member.data_keys, self._options):
            self.once(folder, body)

    def own_data(self, member: Member, owner: Mapping[str, Any]) -> None:
        """Have claims and Secrets of private ceph go with their owner; volumes are swept, as they can have none."""
        for number, _ in enumerate(ceph.mounts(member.spec)):
            for folder in (self.secrets, self._claims):
                self.own(folder, ceph.name(member.gang, number), owner)

    def stop(self, pod: Mapping[str, Any]) -> None:
        """Have a pod end within its grace; only this one, whoever has its name by then."""
        metadata = pod["metadata"]
        try:
            self._calls.delete(f"{self._pods}/{metadata['name']}", uid=metadata["uid"])
        except Conflict:
            log.info("%s is another pod by now", metadata["name"])

    def hold(self, pod: Mapping[str, Any]) -> None:
        """Keep a pod that somebody else made until its end was received."""
        metadata = pod["metadata"]
        # As it was seen: a finalizer that another added since is not lost.
        body = {
            "finalizers": [*(metadata.get("finalizers") or ()), names.FINALIZER],
            "resourceVersion": metadata["resourceVersion"],
            "uid": metadata["uid"],
        }
        try:
            self._calls.patch(f"{self._pods}/{metadata['name']}", {"metadata": body})
        except (Missing, Conflict):
            log.info("%s changed meanwhile, or is no more", metadata["name"])

    def own(self, folder: str, name: str, owner: Mapping[str, Any]) -> None:
        """Have an object go with its owner; where that fails it is left over, and swept."""
        try:
            self._calls.patch(f"{folder}/{name}", {"metadata": {"ownerReferences": [owner]}})
        except (Refused, Away) as error:
            log.warning("%s/%s has no owner: %s", folder, name, error)

    def give_up(self, pod: Mapping[str, Any], cause: str, sentence: str) -> None:
        """Have a pod end that cannot start, with the reason kept on it."""
        self.annotate(pod, {names.VERDICT: f"{cause}\n{sentence}"})
        self.stop(pod)

    def annotate(self, pod: Mapping[str, Any], annotations: Mapping[str, str]) -> None:
        """Tell a pod something, or keep it on it; nothing where it is no more."""
        metadata = pod["metadata"]
        # With its uid: the API server refuses it where another pod has the name.
        body = {"metadata": {"uid": metadata["uid"], "annotations": dict(annotations)}}
        try:
            self._calls.patch(f"{self._pods}/{metadata['name']}", body)
        except (Missing, Conflict):
            log.info("%s is no more, or another pod by now", metadata["name"])

    def forget(self, pod: Mapping[str, Any]) -> None:
        """Let a pod go whose end was received."""
        metadata = pod["metadata"]
        if names.FINALIZER in (metadata.get("finalizers") or ()):
            rest = [name for name in metadata["finalizers"] if name != names.FINALIZER]
            # As it was seen: a finalizer that another added since is not lost.
            version = metadata["resourceVersion"]
            try:
                body = {"metadata": {"finalizers": rest, "resourceVersion": version}}
                self._calls.patch(f"{self._pods}/{metadata['name']}", body)
            except Missing:
                return
        try:
            self._calls.delete(f"{self._pods}/{metadata['name']}", uid=metadata["uid"])
        except Conflict:
            return

    def sweep(self, live: set[str]) -> None:
        """Remove what was made for pods that never came.

        `live` names instances that may still get theirs; what has an owner goes with it.
        """
        mine = f"{names.REGION}={names.region_label(self._options.region)}"
        of_ceph = (self._claims, "/api/v1/persistentvolumes") if self._options.ceph else ()
        for folder in (self.secrets, self._services, *of_ceph):
            things, _ = self._calls.list(folder, labelSelector=mine)
            for thing in things:
                labels, metadata = names.labels_of(thing), thing["metadata"]
                key = labels.get(names.INSTANCE) or f"gang {labels.get(names.GANG)}"
                if not metadata.get("ownerReferences") and key not in live:
                    self._calls.delete(f"{folder}/{metadata['name']}", uid=metadata["uid"])

    def _pod(self, member: Member) -> JSON:
        try:
            return self._calls.create(self._pods, pods.pod(member, self._options))
        except Conflict as conflict:
            found = self._there(f"{self._pods}/{member.name}", conflict)
            if names.labels_of(found).get(names.INSTANCE) != str(member.id):
                raise NotYet(f"{member.name} is the name of another pod that is not gone yet") from None
            return found

    def _there(self, path: str, conflict: Conflict) -> JSON:
        """Return what a creation came into conflict with; where it is not there it is made again.

        It left meanwhile, or the conflict was about something else, such as a quota that others changed meanwhile.
        """
        try:
            return self._calls.get(path)
        except Missing:
            raise NotYet(f"{path} could not be made: {conflict}") from None

    def once(self, folder: str, body: JSON) -> None:
        """Create an object; one of that name that was left by a start that broke off is the same."""
        try:
            self._calls.create(folder, body)
        except Conflict as conflict:
            name = body["metadata"]["name"]
            found = names.labels_of(self._there(f"{folder}/{name}", conflict))
            if found.get(names.INSTANCE) != body["metadata"]["labels"].get(names.INSTANCE):
                self._calls.delete(f"{folder}/{name}")
                raise NotYet(f"{name} belonged to another instance") from None


def instance_of(pod: Mapping[str, Any]) -> uuid.UUID | None:
    """Return the instance that a pod of ours is; None where its label says none."""
    try:
        return uuid.UUID(names.labels_of(pod).get(names.INSTANCE, ""))
    except ValueError:
        return None
