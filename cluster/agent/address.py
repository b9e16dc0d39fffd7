"""Find the address by which other hosts reach this one."""

import socket
from urllib.parse import urlsplit


def own_address(url: str) -> str:
    """Return the address of this host that faces the platform at `url`; blank where none does now."""
    parts = urlsplit(url)
    try:
        # A datagram socket is connected without a packet being sent.
        family, kind, _, _, target = socket.getaddrinfo(
            parts.hostname, parts.port or 443, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except OSError:
        return ""
