"""The door of a kubelet, where the API server fetches logs: HTTPS, with a certificate that the kubelet made itself."""

import asyncio
import ssl
import tempfile
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Key = tuple[str, str, str]  # namespace, pod, container


class Door:
    """One door for the kubelets of all nodes."""

    def __init__(self) -> None:
        """Listen on a free port of every address."""
        self.lines: dict[Key, list[tuple[str, bytes]]] = {}  # time and text
        self.port = 0
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(60)

    def close(self) -> None:
        """Go away."""
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _open(self) -> None:
        app = web.Application()
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._log)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "0.0.0.0", 0, ssl_context=_certified()).start()
        self.port = self._runner.addresses[0][1]

    async def _log(self, request: web.Request) -> web.Response:
        key = (request.match_info["namespace"], request.match_info["pod"], request.match_info["container"])
        if key not in self.lines:
            raise web.HTTPNotFound
        since = request.query.get("sinceTime", "")
        after = datetime.fromisoformat(since).timestamp() if since else 0.0
        found = b"".join(
            at.encode() + b" " + text
            for at, text in self.lines[key]
            if datetime.fromisoformat(at[:26] + "+00:00").timestamp() >= after
        )
        return web.Response(body=found[: int(request.query.get("limitBytes", len(found)))])


def _certified() -> ssl.SSLContext:
    """Return a context with a certificate of its own."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubelet")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kubelet.pem"
        path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + pem)
        context.load_cert_chain(path)
    return context
