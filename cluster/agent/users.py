"""The user that tasks run as on this host, when the agent is root."""

import os
import pwd
import shutil


class NoSuchUser(Exception):
    """Tasks cannot run as that user; the message says why in one sentence."""


def resolve(user: str | None) -> str:
    """Return `UID:GID` of the user that tasks run as, blank for the agent's own; raises NoSuchUser.

    `user` is a name, `UID` or `UID:GID`. An agent that is root has to be told one, and told if that is root.
    """
    if os.geteuid() != 0:
        if user and _numbers(user) != (os.geteuid(), os.getegid()):
            raise NoSuchUser(f"Only an agent that is root can run tasks as {user}.")
        return ""
    if not user:
        raise NoSuchUser(
            "Tasks would run as root: name the user that they are to run as with --task-user NAME, or allow it "
            "with --task-user root."
        )
    uid, gid = _numbers(user)
    if uid and not shutil.which("setpriv"):
        raise NoSuchUser(
            "Running tasks as another user takes the program setpriv of util-linux, which is missing."
        )
    return f"{uid}:{gid}" if uid else ""


def _numbers(user: str) -> tuple[int, int]:
    uid, _, gid = user.partition(":")
    if uid.isdecimal() and (not gid or gid.isdecimal()):
        return int(uid), int(gid or uid)
    try:
        found = pwd.getpwnam(user)
    except KeyError as error:
        raise NoSuchUser(f"There is no user {user} on this host.") from error
    return found.pw_uid, found.pw_gid
