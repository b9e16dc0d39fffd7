"""What deeds of the audit are called, for people; programs go by their codes."""

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

WORDS: dict[str, Promise] = {
    "login": _("logged in"),
    "login.failed": _("failed to log in"),
    "login.refused": _("was refused after too many tries to log in"),
    "logout": _("logged out"),
    "logout.everywhere": _("logged out everywhere else"),
    "password.changed": _("changed the own password"),
    "token.made": _("made a token"),
    "token.revoked": _("revoked a token"),
    "audit.exported": _("exported the audit"),
    "secrets.rotated": _("encrypted secrets with the newest key"),
    "member.joined": _("joined a business by the identity provider"),
    "member.left": _("left a business by the identity provider"),
    "role.given": _("got a role by the identity provider"),
    "role.taken": _("lost a role by the identity provider"),
    "task.submitted": _("submitted a task"),
    "task.stop": _("stopped a task"),
    "task.hold": _("held a task"),
    "task.release": _("released a task"),
    "task.priority_low": _("set the priority of a task to low"),
    "task.priority_medium": _("set the priority of a task to medium"),
    "task.priority_high": _("set the priority of a task to high"),
    "task.free": _("ended a kept place"),
    "view.saved": _("saved a view of the list of tasks"),
    "view.removed": _("removed a view of the list of tasks"),
    "upload.sent": _("uploaded code"),
    "whatif.asked": _("asked what would have been"),
    "whatif.called_off": _("called off a question what would have been"),
    "whatif.applied": _("made a change that was tried as a what-if"),
    "template.saved": _("saved a template"),
    "template.removed": _("removed a template"),
    "host.cordon": _("cordoned a host"),
    "host.uncordon": _("gave a host back"),
    "host.drain": _("drained a host"),
    "host.remove": _("took a host away for good"),
    "host.restore": _("took a removed host back"),
}
ENDINGS: dict[str, Promise] = {
    "added": _("added"),
    "changed": _("changed"),
    "removed": _("removed"),
}  # of what the admin does, whatever it does it to


def said(deed: str) -> str | Promise:
    """Return what a deed is called; its code where it has no name."""
    return WORDS.get(deed) or ENDINGS.get(deed.rpartition(".")[2]) or deed
