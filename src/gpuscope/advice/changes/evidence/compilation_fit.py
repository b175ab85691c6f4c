"""Why compiling fits a case or not, and what it costs, in figures."""

from __future__ import annotations

from gpuscope.advice.changes.evidence.step_figures import (
    compiled_operators,
    growing_cache,
    kind_s,
    percent,
    waits_for_host_s,
)
from gpuscope.advice.types import ChangeCase, Fit, clauses
from gpuscope.document.quantities import Number, Seconds
from gpuscope.document.text import Text, sentences

__all__ = [
    "MASKS_RISK",
    "MASKS_WHY",
    "builds_masks",
    "cannot_compile",
    "compile_price",
    "compile_why",
]

_TRITON_VENDORS = frozenset({"nvidia", "amd", "intel"})
FUSABLE = ("pointwise", "normalization", "copy", "reduction", "softmax", "loss")
"""Kinds of kernels that a compiler merges with their neighbours."""

MASKS_WHY = Text(
    "While it is compiled, transformers builds masks that mask nothing, which rule the fastest "
    "attention kernels out; by sizes alone it is known that none is needed."
)
"""Why masks are left out."""

MASKS_RISK = Text(
    "While it is compiled, transformers builds masks that mask nothing: attention loses its "
    "fastest kernels, in encoders every fused one, which can make compiling a loss. "
    "compile-unmasked and compile-regional do without."
)
"""What compiling a model of transformers as a whole brings with it."""

_CAPABILITY = "Triton, which makes the kernels, does not know it."


def builds_masks(case: ChangeCase) -> bool:
    """Whether a model of transformers decides on masks: with attention of torch, not decoding."""
    if case.seen is None or growing_cache(case):
        return False
    return any(
        m.module.startswith("transformers.") and m.attention in ("sdpa", "eager")
        for m in case.seen.models
    )


def cannot_compile(case: ChangeCase) -> Fit | None:
    """Why nothing is left to compile; None where it can be."""
    if case.device.vendor.lower() not in _TRITON_VENDORS:
        name = case.device.name
        return Fit(
            False,
            Text("{name} is not compiled for: {capability}", name=name, capability=_CAPABILITY),
        )
    if case.program is None:
        return None
    if case.program.compiled not in ("", "cudagraphs"):
        mode = case.program.compiled
        return Fit(False, Text("It is compiled already ({mode}).", mode=mode))
    if case.program.compiled == "cudagraphs":
        return Fit(
            False,
            Text("The code records CUDA graphs of its own, which compiled code would not survive."),
        )
    return None


def compile_why(case: ChangeCase, graphs: bool) -> Text:
    """What compiling has to win: kernels that fuse, and a host that is waited for."""
    step_s = case.analysis.step_s
    fusable_s, waits_s = kind_s(case, *FUSABLE), waits_for_host_s(case)
    fusing = Text(
        "{share} of the step ({fusable}) are kernels that fuse with their neighbours",
        share=percent(fusable_s, step_s),
        fusable=Seconds(fusable_s),
    )
    host = None
    if waits_s > 0.02 * step_s:
        host = Text("for {waits} the device waits for the host's launches", waits=Seconds(waits_s))
    elif graphs:
        host = Text("the device never waits for the host, so graphs add little by themselves")
    return clauses(fusing, host)


def compile_price(case: ChangeCase, mode: str | None) -> Text:
    """Compile time, as it was recorded, and memory of graphs.

    The recordings: first steps of thirteen compiled models of 400 to 4,600 operators
    (validation/recordings/h200/zoo) took 2 to 24 s, those with a warm cache of the compiler's files
    at the lower end; the number of operators told little. The first trials of seven ladders
    (benchmarks/results/ladders), whose cache was empty, took 14 to 68 s longer to be ready than the
    code as it is; hosts of equal devices differ by 2.
    """
    count = compiled_operators(case)
    compiling = Text(
        "Compiles in the first steps: on H200 hosts 14 to 68 s the first time, 2 to 24 s with the "
        "compiler's files of an earlier run, for models of 400 to 4,600 operators."
    )
    if count:
        compiling = Text(
            "Compiles in the first steps: on H200 hosts 14 to 68 s the first time, 2 to 24 s with "
            "the compiler's files of an earlier run, for models of 400 to 4,600 operators (yours "
            "has {count}).",
            count=Number(count, ","),
        )
    return sentences(
        compiling,
        Text("Measuring forms of products comes on top, often minutes.")
        if mode == "max-autotune"
        else None,
        Text("Graphs keep their memory apart.") if mode is not None else None,
    )
