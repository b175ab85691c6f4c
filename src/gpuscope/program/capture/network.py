"""The network is closed while the user's code is captured: nothing there is worth a download."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass
from typing import Any

from gpuscope.program.capture.patches import Patches, here
from gpuscope.program.script.runner import when_imported

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

    _hub_offline(patch)
    patch.set(socket, "getaddrinfo", getaddrinfo)
    patch.set(socket.socket, "connect", connect_)


class _OfflineHere:
    """A switch that is on for the capture's threads, and as it was for others."""

    def __init__(self, before: bool) -> None:
        self._before = before

    def __bool__(self) -> bool:
        return here() or self._before


def _hub_offline(patch: Patches) -> None:
    """Hugging Face's libraries look into their cache at once, instead of trying again for long."""
    variable, module = "HF_HUB_OFFLINE", "huggingface_hub.constants"
    known = sys.modules.get(module)
    asked = os.environ.get(variable) or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    offline = bool(getattr(known, variable, asked.upper() in ("1", "ON", "YES", "TRUE")))

    def switch() -> None:
        constants = sys.modules[module]
        setattr(constants, variable, offline)  # it may have read the variable that is set here
        patch.everywhere(constants, variable, _OfflineHere(offline))

    patch.environment({variable: "1"})
    patch.on_undo(when_imported(module, switch))
