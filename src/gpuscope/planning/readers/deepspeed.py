"""DeepSpeed's JSON: ZeRO stage, batch, offload. It does not say how long sequences are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError
from gpuscope.outside.plain import json_of
from gpuscope.outside.toml_file import no_value
from gpuscope.planning.readers.registry import AGAIN, READERS, Existing, Reader, count

_SHARED = {0: "none", 1: "zero1", 2: "zero2", 3: "full"}


def _read(text: str, devices: int, path: Path) -> Existing:
    try:
        content = json_of(text)
    except ValueError:
        content = None
    if not isinstance(content, Mapping):
        raise InputFileError(Text("{path} is no JSON object.", path=path), "", AGAIN)
    zero = content.get("zero_optimization", {})
    zero = zero if isinstance(zero, Mapping) else {}
    micro = count("microbatch", content.get("train_micro_batch_size_per_gpu", 1))
    layout: dict[str, Any] = {"dp": devices, "microbatch": micro}
    stage = zero.get("stage", 0)
    if stage not in (0, 1, 2, 3):
        raise no_value("stage", stage, "1")
    layout["fsdp"] = _SHARED[stage]
    again = "The script recomputes (full)" in str(content.get("gpuscope", ""))
    layout["recompute"] = "full" if again or "activation_checkpointing" in content else "none"
    batch = content.get("train_batch_size")
    if batch is None:
        batch = micro * devices * count("steps", content.get("gradient_accumulation_steps", 1))
    homes = [zero.get(name) for name in ("offload_optimizer", "offload_param")]
    away = any(isinstance(home, Mapping) and home.get("device") == "cpu" for home in homes)
    beside = {"offload": "cpu"} if away else {}
    return Existing(layout, count("train_batch_size", batch), None, beside)


READERS.add("deepspeed", Reader(lambda text: text.lstrip().startswith("{"), _read))
