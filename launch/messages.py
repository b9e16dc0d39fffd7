"""The translations, compiled from `locale/` for the programs that show them."""

from pathlib import Path

from launch.places import ROOT
from launch.steps import PYTHON, run
from launch.words import Progress


def are_compiled() -> bool:
    """Say whether every catalogue is as new as its source."""
    return not _stale()


def ensure(say: Progress) -> None:
    """Compile the catalogues whose source is newer."""
    stale = _stale()
    if stale:
        say("Compiling the translations")
    for source in stale:
        target = source.with_suffix(".mo")
        command = [
            str(PYTHON),
            "-m",
            "babel.messages.frontend",
            "compile",
            "-i",
            str(source),
            "-o",
            str(target),
        ]
        run(command, what=f"The compilation of {source.name}")


def _stale() -> list[Path]:
    sources = sorted((ROOT / "locale").glob("*/LC_MESSAGES/*.po"))
    return [source for source in sources if _age(source.with_suffix(".mo")) < _age(source)]


def _age(path: Path) -> float:
    return path.stat().st_mtime if path.exists() else 0.0
