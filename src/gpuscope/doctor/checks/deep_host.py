"""The host itself: exact products, memory patterns, memory bandwidth. The only active test that a
machine without an accelerator has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpuscope.doctor.checks.deep_products import is_rounding
from gpuscope.doctor.deep import Answer, ask, bits
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.quantities import Bytes, Count, Rate
from gpuscope.document.text import Text, joined

NAME = "deep_host"
TIMEOUT_S = 120.0
_WHY = Text("Nothing that this machine computes can be trusted.")
_FIX = Text(
    "Undo overclocking of processor and memory, run a memory test (memtest86+), look for machine "
    "check messages in the kernel log."
)
_COMMANDS = ("sudo dmesg -T | grep -i -E 'mce|machine check|edac'",)


@check(NAME, "deep", Text("The host: exact products, memory patterns, memory bandwidth"))
def deep_host(machine: Machine) -> Iterable[Finding]:
    """Judge the host."""
    answer, found = ask(machine, NAME, "deep_host", TIMEOUT_S, least_devices=0)
    yield from found
    if answer is None:
        return
    bad = [*_products(answer), *_memory(answer)]
    yield from bad
    if not bad:
        yield _right(answer)


def _products(answer: Answer) -> Iterator[Finding]:
    rows: Mapping[str, Mapping[str, Any]] = answer.data.get("products") or {}
    wrong = {name: row for name, row in rows.items() if row["wrong"] and not is_rounding({0: row})}
    trusted = answer.data.get("trusted", True)
    if trusted and not wrong:
        return
    evidence = joined(
        Text(
            "{precision}: {wrong} of {elements}",
            precision=name,
            wrong=Count(row["wrong"]),
            elements=Count(row["elements"]),
        )
        for name, row in wrong.items()
    )
    yield Finding(
        NAME,
        "error",
        Text("The processor computes wrong results"),
        (
            Text("Wrong elements of products of whole numbers: {told}.", told=evidence)
            if wrong
            else Text("A product of whole numbers fails an independent check.")
        ),
        _WHY,
        _FIX,
        _COMMANDS,
        answer.known_by,
        values={f"{n}_wrong_elements": int(r["wrong"]) for n, r in wrong.items()},
    )


def _memory(answer: Answer) -> Iterator[Finding]:
    memory: Mapping[str, Any] = answer.data.get("memory") or {}
    wrong = int(memory.get("wrong_words") or 0)
    if not wrong:
        return
    first = memory.get("first") or {}
    differ = bits(first.get("flipped_bits"))
    yield Finding(
        NAME,
        "error",
        Text("The host's memory loses bits"),
        Text(
            "{wrong} words of 8 bytes were read differently than written; pattern '{pattern}', "
            "{differ}.",
            wrong=Count(wrong),
            pattern=first.get("pattern"),
            differ=differ,
        ),
        _WHY,
        _FIX,
        _COMMANDS,
        answer.known_by,
        values={"wrong_words": wrong},
    )


def _right(answer: Answer) -> Finding:
    memory: Mapping[str, Any] = answer.data["memory"]
    bandwidth: Mapping[str, Any] = answer.data["bandwidth"]
    names = ", ".join(answer.data["products"])
    copied, threads = Rate(float(bandwidth["bytes_per_s"]), "B/s"), int(bandwidth["threads"])
    tested = Bytes(float(memory["bytes_tested"]))
    return Finding(
        NAME,
        "ok",
        Text("The host's arithmetic and memory are right"),
        Text(
            "Products in {names}; {tested} of memory, its bandwidth {copied} read and written, "
            "{threads} threads.",
            names=names,
            tested=tested,
            copied=copied,
            threads=threads,
        ),
        known_by=answer.known_by,
        values={"host_memory_bytes_per_s": float(bandwidth["bytes_per_s"]), "threads": threads},
    )
