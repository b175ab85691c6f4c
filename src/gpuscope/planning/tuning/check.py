"""An existing fine-tuning: read from a file, simulated, beside what is one decision away.

A file is TOML (`method = "qlora"`, `microbatch = 2`), or an answer of `plan --task finetune` kept
by `--output`, whose choice is taken.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuscope.document.blocks import Explanation
from gpuscope.document.text import Text
from gpuscope.errors import InputFileError, InvalidValueError, UnknownNameError
from gpuscope.outside.toml_file import no_value
from gpuscope.planning.check import Checked, checked
from gpuscope.planning.existing import only, text_of
from gpuscope.planning.explanation_check import decisions, verdict
from gpuscope.planning.outlook import holders
from gpuscope.planning.readers.registry import count, tables_of
from gpuscope.planning.tuning.explanation import assumed, title_of
from gpuscope.planning.tuning.near import changed
from gpuscope.planning.tuning.score import Estimate, estimate
from gpuscope.planning.tuning.search import HOPELESS, packings_of
from gpuscope.planning.tuning.simulate import Simulator
from gpuscope.planning.tuning.space import OF_METHOD, candidates, laid, refused
from gpuscope.planning.tuning.types import Tuned, TuningQuestion, Weighed
from gpuscope.program.models.rows import PACKINGS
from gpuscope.program.models.tuning import FineTuning, projections_of

__all__ = ["check_tuning", "existing_tuning", "explained_tuning_check"]

_WORDS = ("method", "targets", "optimizer", "fsdp", "recompute", "packing")
_COUNTS = ("rank", "microbatch", "global_batch", "seq")


def existing_tuning(question: TuningQuestion, path: Path) -> tuple[TuningQuestion, Tuned]:
    """The fine-tuning of a file, and the question with what the file says of it.

    Args:
        question: for one number of one device; has what the file does not say, and the methods
            that neighbours may have besides.
        path: the file.

    Raises:
        InputFileError: no such file, or no plan in it.
        UnknownNameError: a key, method, optimizer or way to pack that is none.
        InvalidValueError: numbers that cannot be, or devices still to choose from.
    """
    cluster = only(question.clusters)
    said = _said(text_of(path), path)
    method = said.get("method", question.methods[0])
    sharding, recompute = said.get("fsdp", "none"), said.get("recompute", "none")
    if sharding != "none" and cluster.n_devices == 1:
        raise no_value("fsdp", sharding, '"none"')
    if recompute not in ("none", "full"):
        raise no_value("recompute", recompute, '"full"')
    packing = question.packings[0]
    if "packing" in said:
        (packing,) = packings_of(question.lengths or None, said["packing"])
    question = replace(
        question,
        methods=tuple(dict.fromkeys((method, *question.methods))),
        rank=said.get("rank", question.rank),
        targets=projections_of(said["targets"]) if "targets" in said else question.targets,
        global_batch=said.get("global_batch", question.global_batch),
        seq=said.get("seq", question.seq),
        packings=PACKINGS if question.lengths else ("none",),
    )
    microbatch = said.get("microbatch", 1)
    rows, passes = laid(question, cluster, packing, microbatch)
    why = refused(question, cluster, packing, microbatch, passes)
    if why is not None:
        raise InvalidValueError(why, "", Text("Write for example: microbatch = 1"))
    tuning = FineTuning(
        method=method,
        rank=question.rank,
        targets=question.targets,
        optimizer=said.get("optimizer", OF_METHOD.get(method, ("adamw",))[0]),
        sharding=sharding,
        devices=cluster.n_devices,
        node=cluster.devices_per_node,
        microbatches=max(1, -int(-passes // 1)),
    )
    return question, Tuned(cluster, tuning, microbatch, recompute == "full", passes, rows)


def _said(text: str, path: Path) -> dict[str, Any]:
    """Values by name, each a word or a number as its name wants.

    Raises:
        InputFileError, UnknownNameError, InvalidValueError: as `existing_tuning`.
    """
    known = (*_WORDS, *_COUNTS)
    names = Text("A plan has: {names}.", names=", ".join(known))
    content: object = _answered(text) if text.lstrip().startswith("{") else tables_of(text, path)
    content = content.get("plan", content) if isinstance(content, Mapping) else None
    if not isinstance(content, Mapping) or not content:
        again = Text('Write for example: method = "lora"')
        raise InputFileError(Text("{path} has no plan.", path=path), names, again)
    said: dict[str, Any] = {}
    for name, value in content.items():
        if name not in known:
            raise UnknownNameError(Text("key"), name, known, names)
        if name in _COUNTS:
            said[name] = count(name, value)
        elif isinstance(value, str):
            said[name] = value
        else:
            raise no_value(name, value, '"lora"' if name == "method" else '"none"')
    return said


def _answered(text: str) -> dict[str, str] | None:
    """The choice of an answer that was kept, by name; None where it is no answer that has one."""
    try:
        blocks = [block for each in json.loads(text)["sections"] for block in each["blocks"]]
        table = next(block for block in blocks if block.get("marked"))
        words = table["rows"][table["marked"][0]][1]
        pairs = [part.rpartition(" ") for part in words.split(", ")]
    except (ValueError, LookupError, TypeError, AttributeError, StopIteration, RecursionError):
        return None
    return {name or "method": value for name, _, value in pairs}


def check_tuning(
    question: TuningQuestion,
    mine: Tuned,
    on_candidate: Callable[[int, int, Tuned], None] | None = None,
) -> Checked[TuningQuestion, Weighed]:
    """Judge a fine-tuning and the best of its neighbours; interrupted, with those so far.

    Args:
        question: as `existing_tuning` gives it.
        mine: the fine-tuning.
        on_candidate: told of each before it is simulated: number, how many, which.

    Raises:
        GpuscopeError: it cannot run on this device.
    """
    near = _near(question, mine)
    return checked(question, mine, near, Simulator(question).judge, on_candidate)


def _near(question: TuningQuestion, mine: Tuned) -> list[tuple[str, Tuned]]:
    """Decision and candidate of all one decision away, what is likely to fit and quick first."""
    usable = mine.cluster.device.memory_usable_bytes
    found: dict[str, tuple[Estimate, Tuned]] = {}

    def order(quick: Estimate) -> tuple[bool, float]:
        return quick.peak_bytes > usable, quick.step_s

    for each in candidates(question)[0]:
        change, quick = changed(mine, each), estimate(question.size, question.seq, each)
        if change is None or quick.peak_bytes > HOPELESS * usable:
            continue
        if change not in found or order(quick) < order(found[change][0]):
            found[change] = quick, each
    ordered = sorted(found.items(), key=lambda item: (order(item[1][0]), item[0]))
    return [(change, each) for change, (_, each) in ordered]


def explained_tuning_check(checked: Checked[TuningQuestion, Weighed]) -> Explanation:
    """The judgement for a reader."""
    plan, question = checked.plan, checked.question
    return Explanation(
        "plan-check",
        title_of(question),
        verdict(checked),
        (decisions(checked), holders(plan, plan.candidate.words)),
        (),
        (),
        assumed(question, plan.candidate.cluster),
    )
