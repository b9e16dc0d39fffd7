"""A small proxy between browser and server whose connections can be cut and whose sockets can be refused."""

import contextlib
import socket
import threading
from urllib.parse import urlsplit

REFUSAL = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Proxy:
    """Passes bytes on to a server."""

    def __init__(self, url: str) -> None:
        """Listen on a port of its own."""
        self._server = self._server_of_sockets = _place(url)
        self._door = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._door.getsockname()[1]}"
        self.refuses_sockets = False
        self.is_down = False
        self._sockets: set[socket.socket] = (
            set()
        )  # of the browser's web sockets and of the server's ends of them
        self._all: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def send_sockets_to(self, url: str) -> None:
        """Pass web sockets on to another server, as one does that spreads what comes over several."""
        self._server_of_sockets = _place(url)

    def cut_sockets(self) -> None:
        """Break off every web socket that is open, as a proxy does with one that it takes for idle."""
        for one in list(self._sockets):
            _close(one)

    def go_down(self) -> None:
        """Break off everything and take nothing until it comes up again."""
        self.is_down = True
        for one in list(self._all):
            _close(one)

    def close(self) -> None:
        """Stop for good."""
        self.go_down()
        self._door.close()

    def _accept(self) -> None:
        while True:
            try:
                browser, _address = self._door.accept()
            except OSError:
                return  # closed
            if self.is_down:
                _close(browser)
            else:
                threading.Thread(target=self._serve, args=(browser,), daemon=True).start()

    def _serve(self, browser: socket.socket) -> None:
        head = browser.recv(65536)
        is_socket = b"upgrade: websocket" in head.lower()
        if is_socket and self.refuses_sockets:
            browser.sendall(REFUSAL)
            _close(browser)
            return
        server = socket.create_connection(self._server_of_sockets if is_socket else self._server)
        ends = {browser, server}
        self._all |= ends
        if is_socket:
            self._sockets |= ends
        threading.Thread(target=_pass_on, args=(server, browser), daemon=True).start()
        with contextlib.suppress(OSError):
            server.sendall(head)
        _pass_on(browser, server)
        self._all -= ends
        self._sockets -= ends


def _place(url: str) -> tuple[str, int]:
    where = urlsplit(url)
    return where.hostname or "", where.port or 80


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    _close(source)
    _close(target)


def _close(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
