"""The classes of a step's time, and what limits a kernel, in words."""

from __future__ import annotations

from collections.abc import Mapping

from gpuscope.analysis.breakdown import IDLE_PREFIX, MOVING, WAITING
from gpuscope.document.text import Text, verbatim

_CLASSES: Mapping[str, Text] = {
    "compute-bound": Text("compute-bound"),
    "bandwidth-bound": Text("bandwidth-bound"),
    "instruction-bound": Text("instruction-bound"),
    "launch-bound": Text("launch-bound"),
    "transfers": Text("transfers"),
    "communication": Text("communication"),
    "not classified": Text("not classified"),
    "computation": Text("computation"),
    "copies": Text("copies"),
    "idle": Text("idle"),
    WAITING: Text("communication: waiting for another rank"),
    MOVING: Text("communication: transfer"),
}

_IDLE_CAUSES: Mapping[str, Text] = {
    "host dispatching": Text("host dispatching"),
    "host synchronising": Text("host synchronising"),
    "launch gap": Text("launch gap"),
    "waiting for data": Text("waiting for data"),
    "waiting for another stream": Text("waiting for another stream"),
    "waiting for another rank": Text("waiting for another rank"),
    "waiting by chance": Text("waiting by chance"),
    "unknown": Text("unknown"),
}

LIMITERS: Mapping[str, Text] = {
    "compute": Text("compute"),
    "tensor_core": Text("tensor core"),
    "memory": Text("memory"),
    "l2": Text("l2"),
    "issue": Text("issue"),
    "latency": Text("latency"),
    "launch": Text("launch"),
    "link": Text("link"),
    "host": Text("host"),
    "unknown": Text("unknown"),
}
"""By `gpuscope.cost.types.Limiter`."""


def cause_words(cause: str) -> Text:
    """Return a cause of idle time in words; other ones are names."""
    return _IDLE_CAUSES.get(cause) or verbatim(cause)


def class_words(label: str) -> Text:
    """Return a class of the step's time ("idle: launch gap") in words; other labels are names."""
    if label.startswith(IDLE_PREFIX):
        return Text("idle: {cause}", cause=cause_words(label.removeprefix(IDLE_PREFIX)))
    return _CLASSES.get(label) or verbatim(label)
