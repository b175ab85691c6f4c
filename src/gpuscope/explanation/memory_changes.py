"""What to change first: each change captured and simulated, with its memory and its time."""

from __future__ import annotations

from dataclasses import dataclass

from gpuscope.document.text import Text, verbatim
from gpuscope.explanation.memory_case import MemoryCase


@dataclass(frozen=True, slots=True)
class Change:
    """One change of the workload and what came of it.

    Attributes:
        name: what was changed.
        option: how to type it.
        peak_bytes: the changed step's peak.
        time_s: the changed step's time, for the same number of samples.
        same_result: whether the numbers that it computes stay the same, but for rounding.
    """

    name: Text
    option: str
    peak_bytes: int
    time_s: float
    same_result: bool


def changes(case: MemoryCase) -> tuple[Change, ...]:
    """All changes that the workload takes and that save memory, the most first."""
    found = []
    for name, option, same, options in _tried(case):
        changed = case.changed(**options)
        if changed is None or changed.peak_bytes >= case.peak_bytes:
            continue
        steps = case.sizes.get("batch", 1) / changed.sizes.get("batch", 1)
        time_s = changed.run.step_time_s * steps
        found.append(Change(name, option, changed.peak_bytes, time_s, same))
    return tuple(sorted(found, key=lambda change: change.peak_bytes))


def _tried(case: MemoryCase) -> list[tuple[Text, str, bool, dict[str, object]]]:
    options, program = case.options, case.program
    train = program.task == "train"
    tried: list[tuple[Text, str, bool, dict[str, object]]] = []
    if train and not options.checkpointing:
        name = Text("recompute activations")
        tried.append((name, "--checkpointing", True, {"checkpointing": True}))
    if program.dtype not in ("bfloat16", "float16"):
        name = verbatim("bfloat16")
        tried.append((name, "--dtype bfloat16", False, {"dtype": "bfloat16"}))
    if train and options.amp is not False:
        name = Text("weights in bfloat16 too")
        pure: dict[str, object] = {"dtype": "bfloat16", "amp": False}
        tried.append((name, "model.bfloat16()", False, pure))
    if train and not (options.optimizer or "").startswith("sgd"):
        name = Text("SGD with momentum")
        tried.append((name, "--optimizer sgd", False, {"optimizer": "sgd"}))
        name = verbatim("Adafactor")
        tried.append((name, "--optimizer adafactor", False, {"optimizer": "adafactor"}))
    if options.attention == "eager":
        name = Text("fused attention")
        tried.append((name, "--attention sdpa", True, {"attention": "sdpa"}))
    if (half := case.sizes.get("batch", 1) // 2) >= 1:
        name = Text("half the batch")
        tried.append((name, f"--batch {half}", True, {"batch": half}))
    return tried
