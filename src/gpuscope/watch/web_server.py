"""The exporter's HTTP server: few connections, none for long; a password and TLS where wanted.

What is served is the client library's own WSGI application. Its own server has neither a time-out
nor a limit: 400 connections that send nothing hold 400 threads for ever. With TLS it also shakes
hands in the thread that accepts, so that a single silent client keeps all others out. Here:

- at most `MOST_CONNECTIONS` threads; when one more comes, the connection that has waited longest
  goes (a scrape takes milliseconds: the oldest is the one that does not talk);
- a connection that says nothing for `SILENCE_S`, or lives for `LIFE_S`, is closed;
- hands are shaken in the connection's own thread, under the same time-out.
"""

from __future__ import annotations

import base64
import hmac
import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError, InvalidValueError

MOST_CONNECTIONS = 32
"""At once; a scraper holds one for some milliseconds."""

SILENCE_S = 5.0
"""A client that sends (or takes) nothing for so long is let go."""

LIFE_S = 30.0
"""Longest that a connection lives: one that sends a byte now and then is let go, too."""

_REALM = 'Basic realm="gpuscope", charset="UTF-8"'

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class Protection:
    """Who may read, and how it is carried.

    Attributes:
        certificate: a PEM file with the server's certificate and those up to its authority; None
            for plain HTTP.
        key: its private key, PEM; None: in the same file.
        login: a file with one line, "user:password"; None: everybody may read.
    """

    certificate: Path | None = None
    key: Path | None = None
    login: Path | None = None


class WebServer(socketserver.ThreadingMixIn, WSGIServer):
    """Serves an application; threads, time and connections are bounded."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(
        self, host: str, port: int, application: Application, protection: Protection
    ) -> None:
        """Listen.

        Args:
            host, port: where; port 0 lets the system choose.
            application: WSGI.
            protection: its files are read here, once.

        Raises:
            OSError, OverflowError: the address is taken, or not this machine's.
            InputFileError, InvalidValueError: as `tls_of` and `login_of`.
        """
        self._tls = tls_of(protection)
        if protection.login is not None:
            application = with_login(application, login_of(protection.login))
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family = found[0][0]
        self._lock = threading.Lock()
        self._open: dict[socket.socket, float] = {}
        self._room = threading.Semaphore(MOST_CONNECTIONS)
        super().__init__((found[0][4][0], port), _Handler)  # type: ignore[arg-type]
        self.set_app(application)

    def server_bind(self) -> None:
        """Take the address; its name is not looked up, which may take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give a connection a thread; where there is none, the oldest connection goes."""
        if not self._room.acquire(blocking=False):
            self._drop_oldest()
            if not self._room.acquire(timeout=0.1):
                self.shutdown_request(request)
                return
        request.settimeout(SILENCE_S)
        with self._lock:
            self._open[request] = time.monotonic()
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # the system gives no more threads
            self._forget(request)
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Shake hands, if that is wanted, and answer."""
        spoken = request
        try:
            if self._tls is not None:
                spoken = self._tls.wrap_socket(
                    request.dup(), server_side=True, do_handshake_on_connect=False
                )
                spoken.settimeout(SILENCE_S)
                spoken.do_handshake()
            self.finish_request(spoken, client_address)
        except (OSError, ValueError):  # gone, silent, or no TLS: nobody is there to be told
            pass
        finally:
            self.shutdown_request(spoken)
            if spoken is not request:
                self.shutdown_request(request)
            self._forget(request)

    def service_actions(self) -> None:
        """Let those go that live too long; called twice a second."""
        oldest = time.monotonic() - LIFE_S
        with self._lock:
            old = [each for each, since in self._open.items() if since < oldest]
        for each in old:
            _hang_up(each)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: whoever connects must not fill the exporter's log."""

    def _drop_oldest(self) -> None:
        with self._lock:
            oldest = min(self._open, key=self._open.__getitem__, default=None)
        if oldest is not None:
            _hang_up(oldest)

    def _forget(self, request: Any) -> None:
        with self._lock:
            known = self._open.pop(request, None) is not None
        if known:
            self._room.release()


class _Handler(WSGIRequestHandler):
    """Logs nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)  # its thread wakes, and closes it


def tls_of(protection: Protection) -> ssl.SSLContext | None:
    """Return what speaks TLS (1.2 and later); None for plain HTTP.

    Raises:
        InputFileError: a file cannot be read, or is no certificate or key that go together.
        InvalidValueError: a key without a certificate.
    """
    certificate, key = protection.certificate, protection.key
    if certificate is None:
        if key is not None:
            raise InvalidValueError(
                Text("A key needs a certificate."),
                "",
                Text("Type: --tls-cert CERT.pem --tls-key KEY.pem"),
            )
        return None
    for path in (certificate, key):
        if path is not None:
            _read(path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # Without a password OpenSSL would ask for one on the terminal.
        context.load_cert_chain(certificate, key, password=lambda: "")
    except (ssl.SSLError, ValueError) as error:
        raise InputFileError(
            Text("{path} is no certificate that TLS can use.", path=certificate),
            Text(
                "The certificate and its key must be PEM, belong together, and the key must have "
                "no password: {error}.",
                error=str(getattr(error, "reason", None) or error).lower().replace("_", " "),
            ),
            Text("Type: --tls-cert CERT.pem --tls-key KEY.pem"),
        ) from error
    return context


def login_of(path: Path) -> bytes:
    """Return the "user:password" of a file, as a client sends it.

    Raises:
        InputFileError: it cannot be read, or holds no such line.
    """
    line = _read(path).strip()
    user, colon, password = line.partition(b":")
    if not colon or not user or not password or b"\n" in line:
        raise InputFileError(
            Text("{path} holds no login.", path=path),
            Text("It must be one line: a name, a colon, a password."),
            Text("Type: (umask 077; echo prometheus:PASSWORD > login)"),
        )
    return line


def with_login(application: Application, login: bytes) -> Application:
    """Return an application that answers only who sends this login (RFC 7617)."""
    wanted = base64.b64encode(login)

    def guarded(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        kind, _, sent = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
        given = sent.strip().encode("latin-1", "replace")
        # Compared in a time that tells nothing of how much of it is right.
        if hmac.compare_digest(given, wanted) and kind.lower() == "basic":
            return application(environ, start)
        start(
            "401 Unauthorized",
            [("WWW-Authenticate", _REALM), ("Content-Type", "text/plain; charset=utf-8")],
        )
        return [b"A login is needed.\n"]

    return guarded


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputFileError(
            Text("Cannot read {path}.", path=path),
            str(error.strerror or error),
            Text("Check the path, and who may read it."),
        ) from error
