"""Bring the code of a pod of Kubernetes, as its first container: RUN_FOLDER NOTES_FOLDER; see cluster/kubernetes.

What a keeper asks its agent for is looked for here: packed code at the platform, and the commit of the gang in a
file that the pod is told it by. The last words are a commit that was fetched, or a cause and a sentence.
"""

import hashlib
import json
import os
import shutil
import sys
import time
import urllib.error
import urllib.request
from typing import Any

from cluster.agent import records
from cluster.agent.prepare import PREPARE_S, Preparation
from cluster.agent.workload import CannotStart, reason

RETRY_S = 2.0
CALL_S = 60.0
CHUNK = 2**20
LAST_WORDS = "/dev/termination-log"


class InPod(Preparation):
    """The preparation of one pod, in the present folder."""

    def __init__(self, folder: str, notes: str, spec: dict[str, Any]) -> None:
        """Keep in `folder` what is only needed meanwhile; look into `notes` for what the pod is told."""
        super().__init__(folder, spec, self._look, self._answer_facts)
        self._own, self._notes = folder, notes
        self._until = time.monotonic() + float(spec.get("prepare_s") or PREPARE_S)

    def _say(self, line: str) -> None:
        print(f"[taiji] {line}", flush=True)

    def _look(self) -> bool:
        """Take over what the pod was told; it is ended with the pod, never by an order."""
        try:
            with open(os.path.join(self._notes, "commit")) as file:
                commit = file.read().strip()
        except OSError:
            return False
        if commit and not records.read(self._own, records.TOLD):
            records.write(self._own, records.TOLD, {"commit": commit})
        return False

    def _answer_facts(self) -> bool:
        if "wants" in self.facts and not records.read(self._own, records.TOLD):
            records.write(self._own, records.TOLD, self._packed(str(self.facts["wants"])))
        return True

    def _packed(self, digest: str) -> dict[str, Any]:
        """Return what an agent would tell: where the packed code lies, or why it does not."""
        path = os.path.join(self._own, f"{digest}.tar.gz")
        while True:
            try:
                _download(digest, path)
                return {"bundle": path}
            except urllib.error.HTTPError as error:
                said = _said(error)
                if error.code not in {401, 429} and error.code < 500:
                    return {"fault": f"The platform does not hand out the code: {said}", "cause": "code"}
            except ValueError as fault:
                said = str(fault)
            except OSError as error:
                said = reason(error)
            if time.monotonic() >= self._until:
                return {"fault": f"The code could not be brought: {said.rstrip('.')}.", "cause": "code_away"}
            time.sleep(RETRY_S)


def _download(digest: str, path: str) -> None:
    url = f"{os.environ['TAIJI_PLATFORM_URL'].rstrip('/')}/api/agent/code/{digest}/"
    request = urllib.request.Request(
        url, headers={"Authorization": f"Bearer {os.environ['TAIJI_POD_TOKEN']}"}
    )
    found = hashlib.sha256()
    with urllib.request.urlopen(request, timeout=CALL_S) as answer, open(path, "wb") as file:
        while part := answer.read(CHUNK):
            found.update(part)
            file.write(part)
    if found.hexdigest() != digest:
        raise ValueError("The code arrived damaged: it is not what its digest says.")


def _said(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read(2**16))["errors"][0]["message"])
    except (ValueError, LookupError, TypeError, OSError):
        return f"HTTP {error.code}"


def main(arguments: list[str]) -> int:
    """Bring the code that TAIJI_CODE describes into the present folder; return the exit status."""
    run, notes = arguments
    told = json.loads(os.environ["TAIJI_CODE"])
    code = told["code"]
    if token := os.environ.get("TAIJI_CODE_TOKEN"):
        code = {**code, "token": token}
    folder = os.path.join(run, "bringing")
    os.makedirs(folder, 0o700, exist_ok=True)
    before = told["command"]
    spec = {**told, "code": code}
    preparation = InPod(folder, notes, spec)
    try:
        preparation.bring()
    except CannotStart as fault:
        preparation._say(str(fault))
        _end(f"{fault.cause or 'code_away'}\n{fault}")
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if before == "":
        with open(os.path.join(run, "command"), "w") as file:
            file.write(spec["command"] + "\n")
    if commit := preparation.facts.get("commit"):
        _end(f"commit {commit}")
    return 0


def _end(words: str) -> None:
    """Leave the last words where the kubelet takes them from."""
    with open(os.environ.get("TERMINATION_MESSAGE", LAST_WORDS), "w") as file:
        file.write(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
