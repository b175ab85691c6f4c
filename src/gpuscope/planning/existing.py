"""An existing plan from a file: torchtitan's TOML, or one with our own names.

Our own: `tp = 2`, `fsdp = "zero1"`, `microbatch = 1`, `global_batch = 64`, `seq = 4096`; what is
left out is as `predict` takes it. torchtitan's: those of its `config/job_config.py` (2025).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError, InvalidValueError, UnknownNameError
from gpuscope.outside.toml_file import no_value, read_toml, table_of
from gpuscope.planning.types import Candidate, Question
from gpuscope.program.models.parallel.checks import plan_of
from gpuscope.program.models.parallel.options import ParallelOptions

__all__ = ["existing"]

_COUNTS = ("dp", "tp", "pp", "cp", "ep", "virtual", "microbatch")
_WORDS = ("fsdp", "schedule", "recompute")
_OF_QUESTION = ("global_batch", "seq")
_KNOWN = (*_COUNTS, *_WORDS, *_OF_QUESTION)

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
_AGAIN = Text("Name a TOML file, such as: gpuscope plan llama-3.1-8b --check plan.toml")


def existing(question: Question, path: Path) -> tuple[Question, Candidate]:
    """The plan of a file, and the question with the file's batch and length.

    Args:
        question: for one number of one device.
        path: the file.

    Raises:
        InputFileError: no such file, or it is no TOML.
        UnknownNameError: a key that no plan has.
        InvalidValueError: numbers that cannot be, or devices still to choose from.
        UnsupportedError: what a plan here cannot have.
    """
    if len(question.clusters) != 1:
        raise InvalidValueError(
            Text("An existing plan is judged on one number of one device."),
            Text("{count} were named.", count=len(question.clusters)),
            Text("Type for example: --on h200 --devices 8"),
        )
    cluster = question.clusters[0]
    content = read_toml(path, _AGAIN)
    titan = any(isinstance(content.get(name), dict) for name in ("parallelism", "training"))
    told = _titan(content, cluster.n_devices, path) if titan else _own(content, path)
    batch = told.pop("global_batch", None) or question.global_batch
    seq = told.pop("seq", None) or question.seq
    asked = ParallelOptions(
        world=cluster.n_devices, node=cluster.devices_per_node, global_batch=batch, **told
    )
    changed = replace(question, global_batch=batch, seq=seq)
    return changed, Candidate(cluster, plan_of(question.size, seq, asked))


def _own(content: Mapping[str, Any], path: Path) -> dict[str, Any]:
    content = content.get("plan", content)
    if not isinstance(content, Mapping) or not content:
        raise InputFileError(
            Text("{path} has no plan.", path=path),
            Text("A plan has: {names}.", names=", ".join(_KNOWN)),
            Text("Write for example: tp = 2"),
        )
    for name, value in content.items():
        if name not in _KNOWN:
            names = Text("A plan has: {names}.", names=", ".join(_KNOWN))
            raise UnknownNameError(Text("key"), name, _KNOWN, names)
        if name in _WORDS:
            if not isinstance(value, str):
                raise no_value(name, value, '"1f1b"' if name == "schedule" else '"full"')
        else:
            _count(name, value)
    return dict(content)


def _count(name: str, value: object) -> int:
    if type(value) is not int or value < 1:
        raise no_value(name, value, "1")
    return value


def _titan(content: Mapping[str, Any], devices: int, path: Path) -> dict[str, Any]:
    training = table_of(content, "training", path)
    split = table_of(content, "parallelism", path)
    told: dict[str, Any] = {n: _count(k, split.get(k, 1)) for n, k in _DEGREES.items()}
    copies = _count(
        "data_parallel_replicate_degree", split.get("data_parallel_replicate_degree", 1)
    )
    shard = split.get("data_parallel_shard_degree", -1)
    if shard == -1:  # what is left, as torchtitan takes it
        shard = max(1, devices // (told["tp"] * told["pp"] * told["cp"] * copies))
    shard = _count("data_parallel_shard_degree", shard)
    told["dp"] = copies * shard
    told["fsdp"] = "none" if shard == 1 < copies else "hybrid" if copies > 1 else "full"
    if told["pp"] > 1:
        name = str(split.get("pipeline_parallel_schedule", "1F1B"))
        if name.lower() not in _SCHEDULES:
            names = Text("Known: {names}.", names=", ".join(_SCHEDULES))
            raise UnknownNameError(Text("schedule"), name, _SCHEDULES, names)
        told["schedule"] = _SCHEDULES[name.lower()]
        key = "pipeline_parallel_microbatch_size"
        told["microbatch"] = _count(key, split.get(key, 1))
        if told["fsdp"] == "full" and shard > 1:
            told["fsdp"] = "zero2"  # gathered parameters stay within a step (torchtitan's default)
    local = _count("local_batch_size", training.get("local_batch_size", 1))
    if told["pp"] == 1:
        told["microbatch"] = local
    batch = training.get("global_batch_size", -1)
    told["global_batch"] = local * told["dp"] if batch == -1 else _count("global_batch_size", batch)
    told["seq"] = _count("seq_len", training.get("seq_len", 2048))
    told["recompute"] = str(
        table_of(content, "activation_checkpoint", path).get("mode", "selective")
    )
    return told
