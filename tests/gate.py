"""A gate before a server of this machine: it passes bytes on, later, or answers in the server's place, or refuses."""

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Gate:
    """Listens at `address` and passes on to a server."""

    def __init__(self, server: str) -> None:
        host, _, port = server.rpartition(":")
        self._server = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.is_refusing = False
        self.answer = ""
        """Answer to every request in place of the server's, such as `503 SlowDown`; `stall` for none at all."""
        self.answered = b"[A-Z]+"
        """Expression of the methods of the requests that get this answer."""
        self.delay = 0.0
        """Seconds before each piece of bytes is passed on."""

    @property
    def address(self) -> str:
        """`host:port`."""
        host, port = self._listener.getsockname()[:2]
        return f"{host}:{port}"

    def refuse(self) -> None:
        """Ends all connections and refuses new ones until `accept`."""
        self.is_refusing = True
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._open = []

    def accept(self) -> None:
        """Passes connections on again."""
        self.is_refusing = False

    def serve(self) -> None:
        """Passes connections on until it is closed."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.is_refusing:
                client.close()
                continue
            server = socket.create_connection(self._server)
            self._open += [client, server]
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    def close(self) -> None:
        """Ends it."""
        self.refuse()
        self._listener.close()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(1 << 16):
                if self.answer and re.match(self.answered + b" /", content):
                    if self.answer != "stall":
                        source.sendall(error_response(self.answer))
                        source.shutdown(socket.SHUT_WR)
                    while source.recv(1 << 16):  # the rest of the request, until the client closes
                        pass
                    break
                time.sleep(self.delay)
                target.sendall(content)
        for one in (source, target):
            with suppress(OSError):
                one.close()


def error_response(answer: str) -> bytes:
    """An error of S3 as HTTP, from its status and code."""
    status, _, code = answer.partition(" ")
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>About {code}.</Message></Error>"
    return f"HTTP/1.1 {status} {code}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


@contextmanager
def open_gate(server: str) -> Iterator[Gate]:
    """A gate before a server, `host:port`."""
    gate = Gate(server)
    threading.Thread(target=gate.serve, daemon=True).start()
    try:
        yield gate
    finally:
        gate.close()
