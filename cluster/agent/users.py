"""The user that tasks run as on this host, when the agent is root."""

import os
import pwd
from collections.abc import Mapping


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
    return f"{uid}:{gid}" if uid else ""


def environment(user: str, own: Mapping[str, str]) -> dict[str, str]:
    """Return the agent's `own` variables as they are for `user`, a UID:GID: with his home and name, not root's."""
    if not user:
        return dict(own)
    others = {name: value for name, value in own.items() if name not in {"HOME", "LOGNAME", "USER"}}
    try:
        found = pwd.getpwuid(int(user.partition(":")[0]))
    except KeyError:  # a number that is nobody's
        return others
    return {**others, "HOME": found.pw_dir, "LOGNAME": found.pw_name, "USER": found.pw_name}


def _numbers(user: str) -> tuple[int, int]:
    uid, _, gid = user.partition(":")
    if uid.isdecimal() and (not gid or gid.isdecimal()):
        return int(uid), int(gid or uid)
    try:
        found = pwd.getpwnam(user)
    except KeyError as error:
        raise NoSuchUser(
            f"There is no user {user} on this host: create it, or name another with --task-user."
        ) from error
    return found.pw_uid, found.pw_gid
