"""Arguments of Megatron-LM's `pretrain_gpt.py`, as a shell line or script holds them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError
from gpuscope.planning.dimensions.stages import words_of
from gpuscope.planning.readers.registry import AGAIN, READERS, Existing, Reader, count

_DEGREES = {
    "tp": "tensor-model-parallel-size",
    "pp": "pipeline-model-parallel-size",
    "cp": "context-parallel-size",
    "ep": "expert-model-parallel-size",
    "microbatch": "micro-batch-size",
}
_MOMENTS = {"bf16": "bf16", "fp8": "8bit"}


def _read(text: str, devices: int, path: Path) -> Existing:
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        again = Text("{path} cannot be read.", path=path)
        raise InputFileError(again, Text("A quotation does not end."), AGAIN) from None
    said: dict[str, str] = {}
    for word, after in zip(words, [*words[1:], "--"], strict=True):
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            said[name] = value if equals else "" if after.startswith("--") else after
    layout: dict[str, Any] = {n: count(k, said.get(k, 1)) for n, k in _DEGREES.items()}
    shared = "use-distributed-optimizer" in said
    layout["fsdp"] = "zero1" if shared else "none"
    layout["recompute"] = said.get("recompute-granularity", "none")
    virtual = said.get("num-virtual-stages-per-pipeline-rank")
    if virtual is not None:
        layout |= {"schedule": "interleaved", "virtual": count("virtual", virtual)}
    batch, seq = said.get("global-batch-size"), said.get("seq-length")
    return Existing(
        layout,
        None if batch is None else count("global-batch-size", batch),
        None if seq is None else count("seq-length", seq),
        _beside(said),
    )


def _beside(said: Mapping[str, str]) -> dict[str, str]:
    found = {"precision": "fp8"} if "fp8-format" in said else {}
    if "sequence-parallel" not in said and said.get("tensor-model-parallel-size", "1") != "1":
        found["sp"] = "off"
    if "expert-model-parallel-size" in said:  # else it has no experts that anything says
        key = "expert-tensor-parallel-size"
        etp = count(key, said.get(key, said.get("tensor-model-parallel-size", 1)))
        found |= {"etp": str(etp)} if etp > 1 else {}
    moments = said.get("exp-avg-dtype")
    if moments in _MOMENTS:
        found["states"] = _MOMENTS[moments]
    cut = re.findall(r"t\*(\d+)", said.get("pipeline-model-parallel-layout", ""))
    blocks = [int(each) for each in cut]
    if blocks and max(blocks) > min(blocks):
        found["stages"] = words_of(blocks)
    return found


READERS.add(
    "megatron",
    Reader(lambda text: "--tensor-model-parallel-size" in text or "pretrain_gpt" in text, _read),
)
