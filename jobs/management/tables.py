"""Reads the files that a simulation works on, and says in a sentence why one cannot be read."""

import csv
import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import yaml

HOSTS = ("host", "gpu_num")
JOBS = ("job_id", "submit_s", "duration_s", "host_num", "host_gpu_num")
QUOTAS = ("business", "cards")


def rows(option: str, path: Path, needs: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """Give the rows of a CSV file, packed with gzip where its name ends in .gz; ValueError says what is wrong.

    `option` names the file in messages; `needs` are the columns that it cannot do without.
    """
    with _reading(option, path), _open(path) as file:
        reader = csv.DictReader(file)
        there = reader.fieldnames or ()
        missing = [name for name in needs if name not in there]
        if not missing:
            yield from reader
    if missing:
        found = f"its first line names {', '.join(there)}" if there else "it is empty"
        raise ValueError(f"{option}: {path} has no column {', '.join(missing)}; {found}")


def scenario(path: Path) -> dict[str, Any]:
    """Return a scenario's document; ValueError says what is wrong."""
    with _reading("--scenario", path):
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(document, dict):
        raise ValueError(f"--scenario: {path} is no scenario: it starts with keys such as hosts: and events:")
    return document


def _open(path: Path) -> IO[str]:
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


@contextmanager
def _reading(option: str, path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise ValueError(f"{option}: there is no file {path}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{option}: {path} is no text in UTF-8: {error}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"{option}: {path} is no YAML: {error}") from error
    except (OSError, EOFError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"{option}: {path} cannot be read: {reason}") from error
    except (
        ValueError
    ) as error:  # a name with a NUL, a date or a number that YAML takes for one and cannot read
        raise ValueError(f"{option}: {str(path)!r} cannot be read: {error}") from error
