"""A stand-in for NVML: a real `libnvidia-ml.so.1`, compiled from nvml.c, whose answers a test changes as it likes."""

import atexit
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("nvml.c")


@functools.cache
def library(old: bool) -> Path:
    """Return the folder with the library, of a driver of some years ago or of today; compiled once."""
    folder = Path(tempfile.mkdtemp(prefix="taiji-nvml-"))
    atexit.register(shutil.rmtree, folder)
    command = ["gcc", "-shared", "-fPIC", "-w", *(["-DOLD"] if old else [])]
    subprocess.run([*command, "-o", str(folder / "libnvidia-ml.so.1"), str(SOURCE)], check=True)
    return folder


class Nvml:
    """What NVML says on one host."""

    def __init__(self, folder: Path, *, old: bool = False) -> None:
        """Say what is written in `folder`; there are no cards yet."""
        self.folder = folder
        self._library = library(old)
        self._facts: dict[str, object] = {}
        folder.mkdir()
        (folder / "events").touch()
        self.set(count=0, driver="550.54.15")

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to find it."""
        return {"LD_LIBRARY_PATH": str(self._library), "TAIJI_TEST_NVML": str(self.folder)}

    def set(self, prefix: str = "", /, **facts: object) -> None:
        """Say something else from now on, of the whole (blank) or of a card or slice; None: not supported."""
        self._facts |= {f"{prefix}.{name}" if prefix else name: value for name, value in facts.items()}
        lines = [f"{key} {value}\n" for key, value in self._facts.items() if value is not None]
        draft = self.folder / "state.new"
        draft.write_text("".join(lines))
        draft.replace(self.folder / "state")

    def gpus(self, *names: str) -> None:
        """Have these cards, all well and idle."""
        self.set(count=len(names))
        for number, name in enumerate(names):
            self.set(str(number), uuid=f"GPU-{number}", name=name, memory_mib=24576, used_mib=0, pids="")
            self.set(str(number), use=0, temperature_c=30, power_mw=25000, ecc_corrected=0, ecc_uncorrected=0)
            self.set(str(number), mig=0, remap_failed=0)

    def slices(self, number: int, *profiles: str) -> None:
        """Divide a card into slices of these profiles; none: it is whole again."""
        self.set(str(number), mig=1 if profiles else 0)
        for place in range(7):
            gone: dict[str, object] = dict.fromkeys(
                ("uuid", "name", "memory_mib", "used_mib", "pids", "part")
            )
            self.set(f"{number}/{place}", **gone)
        for place, profile in enumerate(profiles):
            name = f"{self._facts[f'{number}.name']} MIG {profile}"
            slice_facts = {"uuid": f"MIG-{number}-{place}", "name": name, "part": place + 7, "pids": ""}
            self.set(f"{number}/{place}", memory_mib=4864, used_mib=0, **slice_facts)

    def xid(self, number: int, xid: int, part: int = -1) -> None:
        """Have an Xid happen on a card, or on a slice of it."""
        with (self.folder / "events").open("a") as events:
            events.write(f"{number} {part} {xid}\n")
