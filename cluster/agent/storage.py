"""Whether this host can use the platform's storage: where it cannot, nothing may start here."""

import logging
import os
import threading
from pathlib import Path

log = logging.getLogger(__name__)

ANSWER_S = 20.0  # a server of files that is away holds whoever asks for as long as it likes


class Storage:
    """The platform's storage on this host, looked at again from time to time: a mount comes and goes."""

    def __init__(self, folder: Path, answer_s: float = ANSWER_S) -> None:
        """Look at `folder`; a look that takes longer than `answer_s` says that it does not answer."""
        self.folder = folder
        self.trouble = ""  # in a sentence, blank: none, as far as is known
        self.looked = False
        self._answer_s = answer_s
        self._look: _Look | None = None  # one that has not come back

    @property
    def usable(self) -> bool:
        """Whether tasks can have their folders there; not before that is known."""
        return self.looked and not self.trouble

    def refresh(self) -> bool:
        """Look at it, for `answer_s` at most; return whether it can be used now, or no longer."""
        before, said = self.usable, self.trouble
        look = self._look if self._look is not None and self._look.is_alive() else None
        if look is None:
            look = _Look(self.folder)
            look.start()
        look.join(self._answer_s)
        self._look = look
        if look.is_alive():  # nothing can end it: the next look waits for it again
            self.trouble = f"The storage {self.folder} does not answer: nothing can start here."
        else:
            self.trouble = look.trouble
        self.looked = True
        if said != self.trouble:
            log.warning("%s", self.trouble or f"The storage {self.folder} can be used again.")
        return before != self.usable


class _Look(threading.Thread):
    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)  # the agent ends without it
        self._folder = folder
        self.trouble = ""

    def run(self) -> None:
        if not os.path.isdir(self._folder):
            self.trouble = f"The storage {self._folder} is not there: nothing can start here."
        elif not _takes_work(self._folder):
            self.trouble = f"The storage {self._folder} cannot be written: nothing can start here."


def _takes_work(folder: Path) -> bool:
    """Return whether the folder of a business can be made there, or one that an operator made can be written.

    The server of the files is asked, which may refuse root what it gives another user.
    """
    if _writable(folder):
        return True
    try:
        with os.scandir(folder) as entries:
            return any(entry.is_dir() and _writable(entry.path) for entry in entries)
    except OSError:
        return False


def _writable(folder: Path | str) -> bool:
    return os.access(folder, os.W_OK | os.X_OK)
