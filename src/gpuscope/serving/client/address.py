"""Where a server is: the parts of the address that was typed."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError

_LOCAL = ("localhost", "127.0.0.1", "::1")

_ENDINGS = ("/chat/completions", "/completions", "/v1")


@dataclass(frozen=True, slots=True)
class Address:
    """Of an OpenAI-compatible server.

    Attributes:
        host, port: to connect to.
        tls: https.
        path: in front of "/v1/..."; mostly "".
    """

    host: str
    port: int
    tls: bool = False
    path: str = ""

    @property
    def local(self) -> bool:
        """It is this machine, whose sensors tell the server's energy."""
        return self.host in _LOCAL

    @property
    def named(self) -> str:
        """As the `Host` header has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.named}{self.path}"

    def context(self) -> ssl.SSLContext | None:
        """For asyncio; certificates are checked."""
        return ssl.create_default_context() if self.tls else None


def parse_address(url: str) -> Address:
    """Read "http://host:8000", "host:8000", or the address of one of its endpoints.

    Raises:
        InvalidValueError: it is none, or holds a name and password.
    """
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError as error:
        raise _no_address(url, str(error)) from error
    plain = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in ("http", "https") or not parts.hostname or not plain:
        raise _no_address(url, Text("It begins with http:// or https://, and names a host."))
    if parts.username is not None:
        raise _no_address(parts.hostname, Text("A key goes into the variable OPENAI_API_KEY."))
    path = parts.path.rstrip("/")
    for ending in _ENDINGS:
        path = path.removesuffix(ending)
    tls = parts.scheme == "https"
    return Address(parts.hostname, port or (443 if tls else 80), tls, path)


def _no_address(url: str, why: str) -> InvalidValueError:
    return InvalidValueError(
        Text("'{url}' is no address of a server.", url=url),
        why,
        Text("Type: gpuscope load http://localhost:8000 --rate 2 --for 30s"),
    )
