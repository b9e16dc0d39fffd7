"""What NVML says of this host's cards, told line by line by a process of its own: it may hang or die (see probe.py)."""

import contextlib
import ctypes
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml as nvml

MAPS = Path("/proc/self/maps")
EVENTS_AT_MOST = 256  # taken at one look
NO_INSTANCE = 0xFFFFFFFF  # what NVML says where an event is of the whole card
# Words of a card that is of no use, whatever was asked.
DEAD = {nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED}
PLAINLY = {
    nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "The NVIDIA driver was changed and its kernel module was not loaded "
    "anew: load it, or restart the host",
    nvml.NVML_ERROR_DRIVER_NOT_LOADED: "The NVIDIA driver's kernel module is not loaded",
}

Facts = dict[str, Any]


class Unusable(Exception):
    """NVML as a whole cannot be used; the message says why in one sentence."""


def unusable(error: Any) -> Unusable:
    """Return what an error of NVML as a whole means, in words that say what to do where that is known."""
    said = PLAINLY.get(error.value)
    return Unusable(f"{said} ({error})" if said else f"NVML cannot be used ({error})")


def known(call: Callable[..., Any], *arguments: Any) -> Any:
    """Return what NVML answers, None where nobody can know; raises NVMLError only for a card that is dead."""
    try:
        return call(*arguments)
    except nvml.NVMLError as error:
        if error.value in DEAD:
            raise
        return None


class Driver:
    """NVML, open for as long as this process lives: the numbers of the cards then stay theirs."""

    def __init__(self) -> None:
        """Open NVML; raises Unusable."""
        try:
            nvml.nvmlInit()
            count = nvml.nvmlDeviceGetCount()
        except nvml.NVMLError as error:
            raise unusable(error) from error
        self._identities: dict[int, Facts] = {}
        self._numbers: dict[int | None, int] = {}  # by the address of a handle: what events name a card by
        self._events = known(nvml.nvmlEventSetCreate)
        for number in range(count):
            with contextlib.suppress(nvml.NVMLError):  # a card that says nothing at all: the look tells why
                self._listen(number)

    def _listen(self, number: int) -> None:
        handle = nvml.nvmlDeviceGetHandleByIndex(number)
        self._numbers[_address(handle)] = number
        types = nvml.nvmlDeviceGetSupportedEventTypes(handle) & nvml.nvmlEventTypeXidCriticalError
        if types and self._events is not None:
            nvml.nvmlDeviceRegisterEvents(handle, types, self._events)

    def look(self) -> Facts:
        """Return all that is known of the cards now, and the Xid events since the last look; raises Unusable."""
        try:
            numbers = range(nvml.nvmlDeviceGetCount())
        except nvml.NVMLError as error:
            raise unusable(error) from error
        return {
            "gpus": [self._gpu(number) for number in numbers],
            "xids": self._xids(),
        }

    def _gpu(self, number: int) -> Facts:
        """Return one card; one that does not answer is what it was, with its fault."""
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(number)
            self._numbers.setdefault(_address(handle), number)
            identity = self._identities.setdefault(number, _identity(number, handle))
            memory = nvml.nvmlDeviceGetMemoryInfo(handle)
            return identity | _state(handle) | _memory(memory) | {"slices": _slices(handle)}
        except nvml.NVMLError as error:
            nameless = {"number": number, "uuid": "", "name": ""}
            return self._identities.get(number, nameless) | {"fault": f"NVML says: {error}"}

    def _xids(self) -> list[Facts]:
        """Return the events that came since, oldest first: card, slice of it or None, number of the Xid."""
        found: list[Facts] = []
        while self._events is not None and len(found) < EVENTS_AT_MOST:
            try:
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
            except nvml.NVMLError:  # as a rule the time-out: there are no more
                break
            part = None if event.gpuInstanceId == NO_INSTANCE else event.gpuInstanceId
            number = self._numbers.get(_address(event.device))
            found.append({"number": number, "part": part, "xid": event.eventData})
        return found


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value


def _identity(number: int, handle: Any) -> Facts:
    return {
        "number": number,
        "uuid": nvml.nvmlDeviceGetUUID(handle),
        "name": nvml.nvmlDeviceGetName(handle),
    }


def _memory(memory: Any) -> Facts:
    return {"memory_mib": memory.total // 2**20, "used_mib": memory.used // 2**20}


def _state(handle: Any) -> Facts:
    """Return what a whole card says of itself; None is what nobody can know."""
    rates = known(nvml.nvmlDeviceGetUtilizationRates, handle)
    power_mw = known(nvml.nvmlDeviceGetPowerUsage, handle)
    rows = known(nvml.nvmlDeviceGetRemappedRows, handle)
    return {
        "use": rates and rates.gpu,
        "temperature_c": known(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
        "power_w": None if power_mw is None else round(power_mw / 1000),
        "ecc_corrected": _ecc(handle, nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
        "ecc_uncorrected": _ecc(handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
        "remap_failed": bool(rows and rows[3]),
        "pids": _pids(handle),
    }


def _ecc(handle: Any, kind: int) -> Any:
    """Return how many errors there were since the driver was loaded or the card reset."""
    return known(nvml.nvmlDeviceGetTotalEccErrors, handle, kind, nvml.NVML_VOLATILE_ECC)


def _pids(handle: Any) -> list[int] | None:
    """Return the processes that compute on a card or slice, also by the words of older drivers."""
    for call in (nvml.nvmlDeviceGetComputeRunningProcesses_v3, nvml.nvmlDeviceGetComputeRunningProcesses_v2):
        found = known(call, handle)
        if found is not None:
            return [process.pid for process in found]
    return None


def _slices(handle: Any) -> list[Facts] | None:
    """Return the MIG slices of a card, None where it is not divided."""
    mode = known(nvml.nvmlDeviceGetMigMode, handle)
    if not mode or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
        return None
    most = known(nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0
    found = (known(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, place) for place in range(most))
    slices = [known(_slice, handle, one) for one in found if one is not None]
    return [one for one in slices if one is not None]  # one that was just removed has gaps


def _slice(parent: Any, handle: Any) -> Facts:
    return {
        "uuid": nvml.nvmlDeviceGetUUID(handle),
        "profile": _profile(parent, handle),
        "part": known(nvml.nvmlDeviceGetGpuInstanceId, handle),
        "pids": _pids(handle),
        **_memory(nvml.nvmlDeviceGetMemoryInfo(handle)),
    }


def _profile(parent: Any, handle: Any) -> str:
    """Return a slice's profile such as `1g.10gb`: from its name, else worked out as NVIDIA's own tools do.

    Those count the memory in eighths of the card's, rounded up, since a slice has a little less than its name says.
    """
    _, mig, profile = str(known(nvml.nvmlDeviceGetName, handle) or "").partition(" MIG ")
    if mig:
        return profile.strip()
    shape = nvml.nvmlDeviceGetAttributes(handle)
    total = nvml.nvmlDeviceGetMemoryInfo(parent).total
    eighths = -(-shape.memorySizeMB * 2**20 * 8 // total)
    gigabytes = round(eighths / 8 * -(-total // 2**30))
    computes, graphics = shape.computeInstanceSliceCount, shape.gpuInstanceSliceCount
    part = "" if computes == graphics else f"{computes}c."
    return f"{part}{graphics}g.{gigabytes}gb"


def replaced() -> bool:
    """Return whether the library that this process loaded is no longer the one on the disk."""
    lines = MAPS.read_text(errors="replace").splitlines()
    return any("libnvidia-ml.so" in line and line.endswith("(deleted)") for line in lines)


def main() -> None:
    """Answer each line with a look, until the agent hangs up; end where a new process would know more."""
    driver: Driver | None = None
    for _ in sys.stdin:
        if driver is not None and replaced():
            return
        try:
            driver = driver or Driver()
            answer = driver.look()
        except Unusable as fault:
            print(json.dumps({"unusable": str(fault)}), flush=True)
            return
        print(json.dumps(answer), flush=True)
