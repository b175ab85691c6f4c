"""The network is closed while the user's code is captured: nothing there is worth a download."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Any

from gpuscope.program.capture.patches import Patches

_LOCAL = ("localhost", "127.0.0.1", "::1", "", None)


@dataclass
class Refused:
    """The first host that was asked for during the capture that runs, "" if none."""

    host: str = ""


refused = Refused()


class NetworkClosedError(ConnectionRefusedError):
    """What code that connects during a capture gets to see."""


def install(patch: Patches) -> None:
    """Refuse name look-ups and connections to other machines."""
    refused.host = ""
    look_up, connect = socket.getaddrinfo, socket.socket.connect

    def refuse(host: Any) -> None:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in _LOCAL:
            refused.host = refused.host or str(name)
            raise NetworkClosedError(f"the network is closed during capture ({name})")

    def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        refuse(host)
        return look_up(host, *args, **kwargs)

    def connect_(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            refuse(address[0])
        connect(self, address)

    patch.set(socket, "getaddrinfo", getaddrinfo)
    patch.set(socket.socket, "connect", connect_)
