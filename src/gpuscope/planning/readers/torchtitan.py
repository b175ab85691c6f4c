"""torchtitan's TOML: names of its `config/job_config.py` (0.2, 2025)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import UnknownNameError
from gpuscope.outside.toml_file import table_of
from gpuscope.planning.dimensions.stages import words_of
from gpuscope.planning.readers.registry import READERS, Existing, Reader, count, tables_of

_DEGREES = {
    "tp": "tensor_parallel_degree",
    "pp": "pipeline_parallel_degree",
    "cp": "context_parallel_degree",
    "ep": "expert_parallel_degree",
}
_SCHEDULES = {
    "gpipe": "gpipe",
    "1f1b": "1f1b",
    "interleaved1f1b": "interleaved",
    "interleavedzerobubble": "zb",
    "zbvzerobubble": "zb",
}


def _knows(text: str) -> bool:
    return re.search(r"^\s*\[(parallelism|training)\]", text, re.MULTILINE) is not None


def _read(text: str, devices: int, path: Path) -> Existing:
    content = tables_of(text, path)
    training = table_of(content, "training", path)
    split = table_of(content, "parallelism", path)
    told: dict[str, Any] = {n: count(k, split.get(k, 1)) for n, k in _DEGREES.items()}
    key = "data_parallel_replicate_degree"
    copies = count(key, split.get(key, 1))
    shard = split.get("data_parallel_shard_degree", -1)
    if shard == -1:  # what is left, as torchtitan takes it
        shard = max(1, devices // (told["tp"] * told["pp"] * told["cp"] * copies))
    shard = count("data_parallel_shard_degree", shard)
    told["dp"] = copies * shard
    told["fsdp"] = "none" if shard == 1 < copies else "hybrid" if copies > 1 else "full"
    if told["fsdp"] == "full" and split.get("fsdp_reshard_after_forward") == "never":
        told["fsdp"] = "zero2"
    told["microbatch"] = local = count("local_batch_size", training.get("local_batch_size", 1))
    if told["pp"] > 1:
        told |= _pipeline(split)
        if told["fsdp"] == "full" and shard > 1:
            told["fsdp"] = "zero2"  # gathered parameters stay within a step (torchtitan's default)
    batch = training.get("global_batch_size", -1)
    again = table_of(content, "activation_checkpoint", path).get("mode", "selective")
    return Existing(
        {**told, "recompute": str(again)},
        local * told["dp"] if batch == -1 else count("global_batch_size", batch),
        count("seq_len", training.get("seq_len", 2048)),
        _beside(content, training, split, path),
    )


def _pipeline(split: Mapping[str, Any]) -> dict[str, Any]:
    name = str(split.get("pipeline_parallel_schedule", "1F1B"))
    if name.lower() not in _SCHEDULES:
        names = Text("Known: {names}.", names=", ".join(_SCHEDULES))
        raise UnknownNameError(Text("schedule"), name, _SCHEDULES, names)
    key = "pipeline_parallel_microbatch_size"
    return {"schedule": _SCHEDULES[name.lower()], "microbatch": count(key, split.get(key, 1))}


def _beside(
    content: Mapping[str, Any], training: Mapping[str, Any], split: Mapping[str, Any], path: Path
) -> dict[str, str]:
    """Offload, float8 and an uneven cut, where the file asks for them."""
    found = {}
    if training.get("enable_cpu_offload") is True:
        found["offload"] = "cpu"
    converters = table_of(content, "model", path).get("converters", [])
    if isinstance(converters, list) and "quantize.linear.float8" in converters:
        found["precision"] = "fp8"
    key = "expert_tensor_parallel_degree"
    etp = count(key, split.get(key, 1))
    if etp > 1 and split.get("expert_parallel_degree", 1) != 1:  # it has no effect without
        found["etp"] = str(etp)
    parts = split.get("module_fqns_per_model_part")
    if isinstance(parts, list) and parts and all(isinstance(part, list) for part in parts):
        blocks = [sum(str(name).startswith("layers.") for name in part) for part in parts]
        if max(blocks) - min(blocks) > 0:
            found["stages"] = words_of(blocks)
    return found


READERS.add("torchtitan", Reader(_knows, _read))
