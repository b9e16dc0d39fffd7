"""This host's place on the platform: its name and its token, registered once and kept on the disk."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from cluster.agent.link import Away, Link, Refused


class NotAdmitted(Exception):
    """The host has no token; the message says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """What a host is called, and how it may register."""

    name: str
    region: str
    folder: Path
    join_token_file: Path | None
    join_token: str = ""  # goes before the file

    @property
    def path(self) -> Path:
        """Where the host's token lies."""
        return self.folder / "host.json"

    def token(self) -> str | None:
        """Return the host's token, or None where it has not registered yet."""
        try:
            return str(json.loads(self.path.read_text())["token"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def registered_as(self) -> tuple[str, str] | None:
        """Return the name and the platform that the host registered with, or None where it has not."""
        if self.token() is None:
            return None
        record = json.loads(self.path.read_text())
        return str(record.get("name", "")), str(record.get("url", ""))

    async def register(self, link: Link, address: str) -> str:
        """Register the host and keep its token; raises NotAdmitted, or Away when the platform is."""
        join_token = self._join_token()
        if not (join_token.isascii() and join_token.isprintable()):
            raise NotAdmitted("This is no join token: it holds characters that none has.")
        try:
            answer = await link.register(join_token, name=self.name, region=self.region, address=address)
            record = {"host": answer["host"], "token": answer["token"], "name": self.name, "url": link.url}
        except Refused as fault:
            raise NotAdmitted(f"The platform does not register {self.name}: {fault}") from fault
        except KeyError as fault:
            raise Away("The platform registered this host without a token.") from fault
        self._write(record)
        return str(record["token"])

    def _join_token(self) -> str:
        if self.join_token:
            return self.join_token
        if self.join_token_file is None:
            raise NotAdmitted(
                "This host is not registered: join the platform (taiji-agent join), or give --join-token-file."
            )
        try:
            token = self.join_token_file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise NotAdmitted(f"The join token cannot be read: {error}.") from error
        if not token:
            raise NotAdmitted(f"The join token file {self.join_token_file} is empty.")
        return token

    def _write(self, record: dict[str, object]) -> None:
        draft = self.path.with_suffix(".new")
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(record, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)
