"""Which machine this is, so that a copied disk or folder does not pass for the host that it was copied from."""

import hashlib
from pathlib import Path

MACHINE_ID = Path("/etc/machine-id")
BOARD_ID = Path("/sys/class/dmi/id/product_uuid")  # of a virtual machine too; only root may read it
KERNEL_BOOT = Path("/proc/sys/kernel/random/boot_id")


def machine() -> str:
    """Return the marks of this machine behind dots, each blank where it cannot be read; never the ids themselves."""
    return ".".join(_mark(_text(path)) for path in (MACHINE_ID, BOARD_ID))


def seat(folder: Path) -> str:
    """Return the mark of this start of the kernel and this very folder: two copies of it differ."""
    facts = folder.stat()
    return _mark(f"{_text(KERNEL_BOOT)} {facts.st_dev}:{facts.st_ino}")


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _mark(text: str) -> str:
    return hashlib.sha256(f"taiji {text}".encode()).hexdigest()[:24] if text else ""
