"""A TCP proxy before PostgreSQL that breaks the connection when a transaction that wrote commits."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from urllib.parse import urlsplit

_WROTE = re.compile(rb"INSERT INTO|DELETE FROM|UPDATE ")
_COMMIT = b"COMMIT\0"


class Cut(Enum):
    """When the client is cut off."""

    BEFORE = auto()
    """The server never sees the COMMIT."""
    AFTER = auto()
    """The server has committed and answered; the answer is dropped."""
    DURING = auto()
    """The server gets the COMMIT a while after the client was cut off."""


@dataclass(eq=False)
class _Link:
    """A client's connection and the server's, and a thread for each direction."""

    client: socket.socket
    server: socket.socket
    sent: bytes = b""
    """What the client sent since its last COMMIT."""
    silent: bool = False
    """The client hears no more, not even that the server hung up."""

    def end(self) -> None:
        _end(self.client)
        _end(self.server)


class Proxy:
    """Passes everything on until ``cut`` is set; then the next writing COMMIT meets it, once."""

    cut: Cut | None = None
    reachable_after = True
    """Whether the server can be reached through the proxy after the cut."""
    at_cut: Callable[[], object] = staticmethod(lambda: None)
    """Done when the server is through with the connection and the client knows nothing yet."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.port is not None
        self._server = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._links: list[_Link] = []
        self._closing = False
        self.cuts = 0
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()
        port = self._listener.getsockname()[1]
        self.url = parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}").geturl()

    def break_all(self) -> None:
        """Break every connection that is open now."""
        for link in self._links:
            link.end()

    def close(self) -> None:
        self._closing = True
        socket.create_connection(self._listener.getsockname()).close()  # wakes the listener
        self._threads[0].join()
        self.break_all()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            client = self._listener.accept()[0]
            if self._closing:
                return client.close()
            if self.cuts and not self.reachable_after:
                client.close()
                continue
            link = _Link(client, socket.create_connection(self._server))
            self._links.append(link)
            for way in (self._up, self._down):
                self._threads.append(threading.Thread(target=way, args=(link,)))
                self._threads[-1].start()

    def _up(self, link: _Link) -> None:
        while data := _received(link.client):
            link.sent += data
            if _COMMIT in link.sent:
                if self.cut is not None and _WROTE.search(link.sent):
                    return self._cut(link, data)
                link.sent = b""
            _send(link.server, data)
        return _end(link.server)

    def _down(self, link: _Link) -> None:
        while data := _received(link.server):
            if not link.silent:
                _send(link.client, data)
        if not link.silent:
            _end(link.client)

    def _cut(self, link: _Link, commit: bytes) -> None:
        cut, self.cut, link.silent = self.cut, None, True
        self.cuts += 1
        match cut:
            case Cut.BEFORE:
                _end(link.server)
                self.at_cut()
            case Cut.AFTER:
                _send(link.server, commit)
                time.sleep(0.3)
                self.at_cut()
            case Cut.DURING:
                _end(link.client)
                time.sleep(0.7)
                _send(link.server, commit)
                time.sleep(0.3)
        link.end()


def _received(link: socket.socket) -> bytes:
    try:
        return link.recv(1 << 16)
    except OSError:
        return b""


def _send(link: socket.socket, data: bytes) -> None:
    with suppress(OSError):
        link.sendall(data)


def _end(link: socket.socket) -> None:
    with suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)
    link.close()


@contextmanager
def before(url: str) -> Iterator[Proxy]:
    """A proxy before the server of a URL; ``proxy.url`` is the same database through it."""
    proxy = Proxy(url)
    try:
        yield proxy
    finally:
        proxy.close()
