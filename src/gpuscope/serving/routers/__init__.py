"""Which replica a request goes to: one file a router, data in, data out.

A router is a class with `choose(each, replicas) -> int`, the `Router` of a file here. A request is
sent when it comes, and stays where it is.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Protocol

from gpuscope.document.text import Text
from gpuscope.errors import UnknownNameError
from gpuscope.serving.work import Work


class Queue(Protocol):
    """What a router sees of a replica: who waits, is on the way there, and is at work."""

    @property
    def work(self) -> Work:
        """The requests themselves."""

    @property
    def waiting(self) -> Sized:
        """In its queue."""

    @property
    def late(self) -> Sized:
        """On the way there."""

    @property
    def partial(self) -> Sized:
        """At work, the prompt not through."""

    @property
    def decoding(self) -> Sized:
        """At work, the answer begun."""


class Router(Protocol):
    """A way to choose."""

    def choose(self, each: int, replicas: Sequence[Queue]) -> int:
        """Where a request goes."""


@cache
def routers() -> tuple[str, ...]:
    """Names of all."""
    found = (each.name for each in files(__name__).iterdir())
    return tuple(sorted(n[:-3].replace("_", "-") for n in found if n[-3:] == ".py" and n[0] != "_"))


def router_named(name: str) -> str:
    """The name of a router, as the files have it.

    Raises:
        UnknownNameError: no such router.
    """
    wanted = name.strip().lower().replace("_", "-")
    if wanted not in routers():
        raise UnknownNameError(Text("router"), name, routers())
    return wanted


def router(name: str) -> Router:
    """A new router of that name.

    Raises:
        UnknownNameError: no such router.
    """
    module = import_module(f"{__name__}.{router_named(name).replace('-', '_')}")
    made: Router = module.Router()
    return made


def requests_of(replica: Queue) -> int:
    """In its queue and at work."""
    coming = len(replica.waiting) + len(replica.late)
    return coming + len(replica.partial) + len(replica.decoding)
