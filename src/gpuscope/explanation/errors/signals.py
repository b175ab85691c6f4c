"""Processes that a signal ended, as a launcher, a data loader or a shell tells it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gpuscope.document.blocks import Fact
from gpuscope.document.text import Text, extracted
from gpuscope.explanation.errors.known import advice, read_table
from gpuscope.explanation.errors.log import Log
from gpuscope.explanation.errors.types import Diagnosis

_FILE = read_table("signals")
_SIGNALS: Mapping[int, Mapping[str, Any]] = {int(n): each for n, each in _FILE["signal"].items()}
_NAMED = {each["named"]: number for number, each in _SIGNALS.items() if "named" in each}


def read_signal(log: Log) -> Diagnosis | None:
    """Read a process that a signal ended."""
    found, number = _signal(log)
    if found is None or number is None:
        return None
    known = _SIGNALS.get(number, {})
    meaning = extracted(known["what"]) if known else Text("signal {number}", number=number)
    return Diagnosis(
        "signal",
        Text("A process was ended by signal {number}", number=number),
        Text("{meaning}.", meaning=meaning),
        known.get("certainty", "possible"),
        advice([*known.get("fix", ()), "@first_error"], _FILE),
        log.line_of(found),
        70,
        _process(log),
        sources=("signal(7), Linux manual pages.",),
    )


def _signal(log: Log) -> tuple[re.Match[str] | None, int | None]:
    """Where a signal stands, and its number."""
    found = re.search(
        r"worker \(pid\(?s?\)? \d+\) is killed by signal: ([A-Z]\w+(?: \w+)?)", log.text
    )
    if found and found[1] in _NAMED:
        return found, _NAMED[found[1]]
    found = re.search(
        r"exit ?code\s*:?\s*-(\d{1,2})\b|Signal (\d{1,2}) \(SIG\w+\) received", log.text
    )
    if found:
        return found, int(found[1] or found[2])
    found = re.search(r"Segmentation fault|Received (\d+) death signal", log.text)
    return (found, int(found[1] or 11)) if found else (None, None)


def _process(log: Log) -> tuple[Fact, ...]:
    found = re.search(r"local_rank: (\d+) \(pid: (\d+)\)", log.text)
    if found is None:
        return ()
    return (Fact(Text("local rank"), int(found[1])), Fact(Text("process"), found[2]))
