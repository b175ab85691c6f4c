"""Distributed wrappers of a case: which there are, what they were told, where they are called."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from gpuscope.advice.source.edits import call_keyword
from gpuscope.advice.types import ChangeCase, Edit, Fit, Seen, WrapSeen
from gpuscope.document.text import Text

__all__ = [
    "FUNCTIONS",
    "collective_bytes",
    "keyword_edits",
    "needs_bf16",
    "needs_ranks",
    "tensor_parallel",
    "wraps",
]

FUNCTIONS = {
    "ddp": "DistributedDataParallel",
    "fsdp1": "FullyShardedDataParallel",
    "fully_shard": "fully_shard",
}
"""What each kind of wrapper is called in torch."""


def wraps(case: ChangeCase, kind: str) -> tuple[WrapSeen, ...]:
    """The calls of a kind of wrapper."""
    seen = case.seen.wraps if case.seen is not None else ()
    return tuple(wrap for wrap in seen if wrap.kind == kind)


def needs_ranks(case: ChangeCase, kind: str) -> Fit | None:
    """Why a change of this wrapper cannot be made; None where it can."""
    name = FUNCTIONS[kind]
    if not wraps(case, kind):
        return Fit(False, Text("There is no {name}.", name=name), relevant=False)
    if case.cluster.n_devices < 2:
        why = Text("On one device nothing is communicated; name more: --on 8xh200.")
        return Fit(False, why, relevant=False)
    return None


def tensor_parallel(case: ChangeCase) -> bool:
    """Whether the program's mesh has a dimension "tp" of several ranks."""
    mesh = case.program.mesh if case.program is not None else ()
    return any(dimension.name == "tp" and dimension.size > 1 for dimension in mesh)


def needs_bf16(case: ChangeCase) -> Fit | None:
    """Why nothing can be sent or computed in bfloat16; None where it can."""
    if case.device.supports("bf16"):
        return None
    name = case.device.name
    return Fit(False, Text("{name} has no bfloat16.", name=name))


def collective_bytes(case: ChangeCase, *names: str) -> int:
    """Bytes that collectives of these names (last part begins with) are given in a step."""
    ops = case.program.ops if case.program is not None else ()
    return sum(
        op.repeat * sum(spec.nbytes for spec in op.inputs)
        for op in ops
        if op.group >= 0 and op.name.rpartition("::")[2].startswith(names)
    )


def keyword_edits(
    sources: Mapping[str, str], seen: Seen, kind: str, keyword: str, value: str
) -> tuple[Edit, ...] | None:
    """A keyword in each call of a wrapper; None where one is not found or sites share a line."""
    sites = dict.fromkeys(wrap.site for wrap in seen.wraps if wrap.kind == kind)
    found = []
    for site in sites:
        text = sources.get(site.rpartition(":")[0], "")
        edits = (
            call_keyword(sources, site, name, keyword, value)
            for name in _names(text, FUNCTIONS[kind])
        )
        found.append(next((edit for edit in edits if edit is not None), None))
    made = tuple(edit for edit in found if edit is not None)
    return made if made and len(made) == len(found) else None


def _names(text: str, function: str) -> tuple[str, ...]:
    """What a file calls a function: its own name and what it was imported as."""
    others = [
        alias.asname
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name == function and alias.asname
    ]
    return (function, *others)
