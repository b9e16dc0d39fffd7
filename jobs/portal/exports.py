"""The document of the form as text for elsewhere: JSON, taiji, curl, Python; without secrets and without a token."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pprint import pformat
from typing import Any

from django.utils.translation import gettext as _

from jobs.portal.entries import dumped
from jobs.portal.masks import masked

CURL = """\
curl -X POST {address} \\
  -H "Authorization: Token $TAIJI_TOKEN" \\
  -H "Content-Type: application/json" \\
  --data-binary @- <<'CONFIG'
{document}
CONFIG"""
TAIJI = """\
TAIJI_URL={root} taiji submit - <<'CONFIG'
{document}
CONFIG"""
PYTHON = """\
import json
import os
import urllib.request

config = {document}

request = urllib.request.Request(
    {address!r},
    data=json.dumps(config).encode(),
    headers={{
        "Authorization": "Token " + os.environ["TAIJI_TOKEN"],
        "Content-Type": "application/json",
    }},
)
with urllib.request.urlopen(request) as answer:
    print(json.load(answer)["url"])"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exports:
    """One document, several times; `hidden`: secrets were left out of it."""

    json: str
    taiji: str
    curl: str
    python: str
    hidden: bool

    @property
    def kinds(self) -> list[tuple[str, str, str]]:
        """Return (name, text, title) of what runs in a terminal."""
        return [
            ("taiji", self.taiji, _("As taiji command")),
            ("curl", self.curl, _("As curl")),
            ("python", self.python, _("As Python")),
        ]


def exports(document: Mapping[str, Any], root: str, tasks: str) -> Exports:
    """Return the texts for a document that is to be sent to `tasks`, an address of the platform at `root`."""
    shown = masked(document)
    text = dumped(shown)
    python = pformat(shown, width=88, sort_dicts=False)
    return Exports(
        json=text,
        taiji=TAIJI.format(root=shlex.quote(root.rstrip("/")), document=text),
        curl=CURL.format(address=shlex.quote(tasks), document=text),
        python=PYTHON.format(address=tasks, document=python),
        hidden='"secret": true' in json.dumps(shown),
    )
