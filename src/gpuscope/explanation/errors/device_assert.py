"""A check on the device that failed: an index, a label or a probability out of its range.

What each check means is in `device_assert.toml`.
"""

from __future__ import annotations

import re

from gpuscope.document.blocks import Fact
from gpuscope.document.text import Text, extracted
from gpuscope.explanation.errors.known import read_table
from gpuscope.explanation.errors.log import Log
from gpuscope.explanation.errors.types import Certainty, Diagnosis

_ASSERTION = re.compile(
    r"(?<![^\s:])(?P<file>[^\s:]+\.(?:cu|cuh|hip|h))[:](?P<line>\d+):\s*(?P<function>.{0,300}?):?\s*"
    r"block: \[(?P<block>[\d,]+)\], thread: \[(?P<thread>[\d,]+)\]\s*"
    r"Assertion `(?P<text>[^`']+)[`'] failed"
)

_MEANINGS = tuple(
    (re.compile(each["match"]), extracted(each["cause"]), extracted(each["fix"]))
    for each in read_table("device_assert")["assertion"]
)
_UNKNOWN = (
    Text("A check inside a kernel failed; most often an index or a label is out of its range."),
    Text("Run the step once on the CPU: there the same mistake raises an error with its place."),
)
_LATER = Text(
    "The traceback may point to a later line, since kernels run asynchronously: run again with "
    "CUDA_LAUNCH_BLOCKING=1, or once on the CPU."
)
_RESTART = Text(
    "Start the process again: after an assertion its CUDA context cannot be used any more."
)


def read_device_assert(log: Log) -> Diagnosis | None:
    """Read an assertion of a kernel, or only the error that follows from one."""
    assertion = _ASSERTION.search(log.text)
    # Only the line that states the assertion as an error is one without its text.
    found = assertion or log.search(r"device-side assert(ion)? triggered|Assertion `[^`]+` failed")
    if found is None:
        return None
    text = assertion["text"] if assertion else found[0]
    meaning, remedy = _UNKNOWN
    certainty: Certainty = "possible"
    for pattern, cause, fix in _MEANINGS:
        if pattern.search(text):
            meaning, remedy, certainty = cause, fix, "certain"
            break
    return Diagnosis(
        "device_assert",
        Text("A check on the device failed"),
        meaning,
        certainty,
        (remedy, _LATER, _RESTART),
        log.line_of(found),
        20,
        _facts(log, assertion),
        sources=("pytorch/pytorch, aten/src/ATen/native/cuda (the assertion's file and line).",),
    )


def _facts(log: Log, found: re.Match[str] | None) -> tuple[Fact, ...]:
    if found is None:
        return ()
    times = sum(1 for _ in _ASSERTION.finditer(log.text))
    return (
        Fact(Text("the check"), found["text"]),
        Fact(Text("in the file"), f"{found['file'].rpartition('/')[2]}:{found['line']}"),
        Fact(Text("first block and thread"), f"[{found['block']}], [{found['thread']}]"),
        Fact(Text("threads that failed it, in this text"), times, "count"),
    )
