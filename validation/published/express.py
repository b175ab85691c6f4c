"""From a published row to something that can be predicted, or the reason why it cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from gpuscope.program.models.parallel.options import ParallelOptions
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.program.models.settings import WorkloadOptions
from published.machines import MACHINES, Machine
from published.maxtext import completed, slices, why_not, with_recipe
from published.measured import tokens_per_s
from published.recipes import recipe_of
from published.rows import Row
from published.sizes import size_of
from published.stacks import STACKS, stack_of

SEQ = {"torchtitan": 8192, "fms-fsdp": 4096}
"""Tokens of a sequence where a source leaves it to its defaults: torchtitan's train_configs
(8,192), the context of fms-fsdp's README (4,096)."""

_BESIDE = ("tp-comm-overlap", "AsyncTP", "async TP")
"""Words of a row whose tensor parallel communication runs beside its product."""

FLOAT8 = ("fp8", "mxfp8", "float8", "amp_fp8", "nvfp4")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expressed:
    """A row as a prediction.

    Attributes:
        row: as published.
        workload: the decoder, or a function that builds a step.
        machine, devices: what it runs on.
        options: parallelism and software.
        step_s: what was measured, seconds a step of the whole job.
        tokens: of a step of the whole job.
        assumed: what the row does not say.
    """

    row: Row
    workload: TransformerSize | Callable[[], Callable[[], object]]
    machine: Machine
    devices: int
    options: WorkloadOptions
    step_s: float
    tokens: int
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NotExpressed:
    """A row that is not predicted, and why."""

    row: Row
    why: str


class _CannotError(Exception):
    """Why a row cannot be expressed."""


def express(row: Row) -> Expressed | NotExpressed:
    """The prediction that a row asks for, or why there is none."""
    from published.neusight import express_neusight

    try:
        if "NeuSight" in row.source:
            return express_neusight(row)
        return _job(completed(row))
    except _CannotError as error:
        return NotExpressed(row, str(error))
    except ValueError as error:
        return NotExpressed(row, str(error))


def _job(row: Row) -> Expressed:
    _refuse(row)
    stack_name = stack_of(row.source)
    if stack_name is None:
        raise _CannotError("the software is not described well enough")
    size = size_of(row)
    if size is None:
        raise _CannotError(f"{row.model} has no ready-made program")
    machine = MACHINES.get(row.hardware)
    if machine is None:
        raise _CannotError(f"the catalogue has no {row.hardware}")
    assumed: list[str] = []
    seq = _seq(row, stack_name, size, assumed)
    size = replace(size, context=max(size.context, seq))
    plan = _plan(row, stack_name, seq, assumed)
    devices = plan.pop("devices")
    options = WorkloadOptions(seq=seq, parallel=_options(row, stack_name, plan, devices, assumed))
    tokens = plan["global_batch"] * seq
    step_s = tokens / tokens_per_s(row, size, seq, devices, tokens)
    return Expressed(
        row=row,
        workload=size,
        machine=machine,
        devices=devices,
        options=options,
        step_s=step_s,
        tokens=tokens,
        assumed=tuple(assumed),
    )


def _refuse(row: Row) -> None:
    """Rows that say too little, or ask for what is not there."""
    if "LoRA" in row.model or row.task == "LoRA":
        raise _CannotError("low-rank adapters have no ready-made program")
    if row.quantity in ("time_to_train", "MFU"):
        raise _CannotError(f"{row.quantity.replace('_', ' ')} is no time of a step")
    if "Primus-pipeline" in row.source:
        raise _CannotError("neither the sequence nor the batch is stated")
    if "Mamba" in row.model or row.model.startswith("Nemotron_3"):
        raise _CannotError("state-space layers have no ready-made program")
    if row.model.startswith(("Gemma", "Llama4", "GPT OSS")):
        raise _CannotError("its attention windows have no ready-made program")
    if "MTP" in row.model and "w/o" not in row.model:
        raise _CannotError("multi-token prediction has no ready-made program")
    if "NeMo long" in row.source and row.tp is None:
        raise _CannotError("its parallelism is not stated")
    if row.hardware.startswith(("Trainium", "Ascend", "Intel")):
        raise _CannotError("another framework's compiler, not described well enough")
    if row.model.startswith("MaxText") and row.micro_batch is None:
        raise _CannotError("batch, sequence and recomputation are not stated")
    if why_not(row):
        raise _CannotError(why_not(row))
    if row.source.startswith("NVIDIA Megatron-Bridge") and row.precision is None:
        raise _CannotError("the precision is not stated")
    if row.precision and "FP4" in row.precision:
        raise _CannotError("NVFP4 training is not there")


def _seq(row: Row, stack: str, size: TransformerSize, assumed: list[str]) -> int:
    if row.seq is not None:
        return row.seq
    if stack in SEQ:
        assumed.append(f"sequences of {SEQ[stack]:,} tokens, the recipe's default")
        return SEQ[stack]
    if stack == "maxtext":
        seq = 2048 if "GPT3" in row.model else 4096 if row.model.startswith("Llama2") else 8192
        seq = 4096 if row.model.startswith("Mixtral") else seq
        assumed.append(f"sequences of {seq:,} tokens, the recipe's")
        return seq
    raise _CannotError("the sequence is not stated")


def _plan(row: Row, stack: str, seq: int, assumed: list[str]) -> dict[str, Any]:
    tp, pp, cp = row.tp or 1, row.pp or 1, row.cp or 1
    if row.model_parallel and row.scheme == "PTD":
        tp, pp = 8, row.model_parallel // 8
        assumed.append(f"tp 8, pp {pp}, as the paper's other rows of the model")
    devices = row.devices
    if devices is None and row.tokens_per_step and row.step_time_s:
        devices = round(row.tokens_per_step / row.step_time_s / row.value)
        assumed.append(f"{devices} devices: tokens of a step by the logged rate")
    if devices is None:
        raise _CannotError("the number of devices is not stated")
    if devices % (tp * pp * cp):
        raise _CannotError(f"tp {tp} x pp {pp} x cp {cp} does not divide {devices}")
    dp = devices // (tp * pp * cp)
    if stack == "maxtext":
        cp = _context_share(row, seq, devices)
        dp = devices // cp
    batch, micro = row.global_batch, row.micro_batch
    if batch is None and row.tokens_per_step:
        batch = row.tokens_per_step // seq
    if stack == "torchtitan" and pp > 1:
        batch, micro = dp * (micro or 1), 1
        assumed.append("microbatches of one sequence")
    if micro is None and stack == "maxtext" and batch is None:
        raise _CannotError("the batch is not stated")
    if micro is None:
        micro = 1 if stack != "maxtext" or batch is None else max(1, batch // dp)
        assumed.append(f"microbatches of {micro}")
    if batch is None:
        batch = dp * micro * (row.microbatches or 1)
    return {
        "tp": tp,
        "pp": pp,
        "cp": cp,
        "ep": row.ep or 1,
        "devices": devices,
        "dp": dp,
        "microbatch": micro,
        "global_batch": batch,
    }


def _context_share(row: Row, seq: int, devices: int) -> int:
    """MaxText spreads a sequence only where there are fewer of them than chips."""
    batch = (row.tokens_per_step or 0) // seq or devices
    return max(1, devices // batch)


def _options(
    row: Row, stack_name: str, plan: dict[str, Any], devices: int, assumed: list[str]
) -> ParallelOptions:
    stack = STACKS[stack_name]
    chosen: dict[str, Any] = dict(stack.parallel)
    chosen.setdefault("fsdp", "full")
    if row.sharding == "SHARD_GRAD_OP":
        chosen["fsdp"] = "zero2"
    if row.sharding in ("ZeRO-3", "FSDP=64", "FSDP=8", "FSDP Yes") or stack_name == "torchtitan":
        chosen["fsdp"] = "full"
    if plan["pp"] > 1 and chosen["fsdp"] == "full":
        chosen["fsdp"] = "zero2"
        assumed.append("parameters of a pipeline stage stay gathered within a step")
    chosen |= slices(row)
    chosen["recompute"] = _recompute(row, stack_name, assumed)
    if plan["pp"] > 1:
        virtual = row.virtual or (2 if row.said and "Interleaved" in row.said else 1)
        chosen["schedule"] = "interleaved" if virtual > 1 else "1f1b"
        chosen["virtual"] = virtual if virtual > 1 else None
    software = with_recipe(row, stack.software)
    if row.precision and row.precision.split()[0].lower().split("-")[0] in FLOAT8:
        software = replace(software, matmul="float8")
    if row.said and "torch.compile" in row.said and plan["tp"] == 1 and plan["pp"] == 1:
        software = replace(software, compile="default")
    if row.said and "overlap-grad-reduce" in row.said:
        software = replace(software, sharing="beside")
    if row.said and any(word in row.said for word in _BESIDE):
        software = replace(software, tp_overlap=True)
    recipe = recipe_of(row)
    if recipe is not None:
        software = replace(
            software,
            send_once=recipe.flex,
            exchange_overlap=recipe.overlap,
            latent_again=recipe.latent,
        )
    parallel = {key: plan[key] for key in ("tp", "pp", "cp", "ep", "microbatch", "global_batch")}
    return ParallelOptions(**parallel, **chosen, world=devices, software=software)


def _recompute(row: Row, stack: str, assumed: list[str]) -> str:
    said = (row.recompute or "").lower()
    if said.startswith("full"):
        return "full"
    if said.startswith("selective"):
        return "selective"
    if not said and stack == "megatron-2021":
        assumed.append("full recomputation, as the paper's other rows")
        return "full"
    if not said and stack == "maxtext":
        assumed.append("full recomputation of each block")
        return "full"
    if not said and stack == "torchtitan":
        assumed.append("selective recomputation, the recipe's default")
        return "selective"
    return "none"
