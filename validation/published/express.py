"""From a published row to something that can be predicted, or the reason why it cannot.

What a row states decides: its numbers, its words, and the software that it names, whose file
(`stacks/`) tells the rest. Neither a row's id nor its reference nor what it measured is looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from gpuscope.errors import GpuscopeError
from gpuscope.program.models.parallel.checks import plan_of
from gpuscope.program.models.parallel.options import ParallelOptions, Software
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.program.models.settings import WorkloadOptions
from published.machines import Machine, machine_of
from published.measured import tokens_per_s
from published.rows import Row
from published.sizes import size_of
from published.stacks import Stack, refusal, stack_of
from published.unstated import Unstated, of_job
from published.words import multiplied, sharded

DEVICES_PER_NODE = 8
"""Tensor parallel ranks at most, where a row gives its model parallel size alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expressed:
    """A row as a prediction.

    Attributes:
        row: as published.
        stack: name of its software's file.
        workload: the decoder, or a function that builds a step.
        machine, devices: what it runs on.
        options: parallelism and software.
        step_s: what was measured, seconds a step of the whole job.
        tokens: of a step of the whole job.
        assumed: what the row does not say.
        unstated: how far the time may be off for what it does not say.
    """

    row: Row
    stack: str
    workload: TransformerSize | Callable[[], Callable[[], object]]
    machine: Machine
    devices: int
    options: WorkloadOptions
    step_s: float
    tokens: int
    assumed: tuple[str, ...] = ()
    unstated: tuple[Unstated, ...] = ()


@dataclass(frozen=True, slots=True)
class NotExpressed:
    """A row that is not predicted, and why."""

    row: Row
    why: str


class _CannotError(Exception):
    """Why a row cannot be expressed."""


def express(row: Row) -> Expressed | NotExpressed:
    """The prediction that a row asks for, or why there is none."""
    try:
        return _expressed(row)
    except (_CannotError, ValueError, GpuscopeError) as error:
        return NotExpressed(row, str(error).splitlines()[0])


def _expressed(row: Row) -> Expressed:
    from published.neusight import express_passes

    if why := refusal(row):
        raise _CannotError(why)
    stack = stack_of(row)
    if stack is None:
        raise _CannotError("the software is not described well enough")
    return express_passes(row, stack) if stack.program == "passes" else _job(row, stack)


def _job(printed: Row, stack: Stack) -> Expressed:
    assumed: list[str] = []
    row = _completed(printed, stack, assumed)
    size = size_of(row, stack)
    if size is None:
        raise _CannotError(f"{row.model} has no ready-made program")
    machine = machine_of(row.hardware)
    if row.seq is None:
        raise _CannotError("the sequence is not stated")
    size = replace(size, context=max(size.context, row.seq))
    plan = _plan(row, stack, row.seq, assumed)
    devices = plan.pop("devices")
    parallel = _options(row, stack, plan, devices, assumed)
    plan_of(size, row.seq, parallel)  # refuses what does not divide
    tokens = plan["global_batch"] * row.seq
    return Expressed(
        row=printed,
        stack=stack.name,
        workload=size,
        machine=machine,
        devices=devices,
        options=WorkloadOptions(seq=row.seq, parallel=parallel),
        step_s=tokens / tokens_per_s(row, stack, size, row.seq, devices, tokens),
        tokens=tokens,
        assumed=tuple(assumed),
        unstated=of_job(printed, stack, size, parallel),
    )


def _completed(row: Row, stack: Stack, assumed: list[str]) -> Row:
    """A row with what its software's recipe, else its defaults, say where it says nothing.

    Raises:
        _CannotError: it leaves out what its software leaves open, or its recipe has no program.
    """
    recipe = stack.recipe(row)
    if recipe is not None and recipe.why_not:
        raise _CannotError(recipe.why_not)
    told = {**stack.defaults, **(recipe.row if recipe is not None else {})}
    told = {name: value for name, value in told.items() if getattr(row, name) is None}
    row = replace(row, **told)
    for name, value in told.items():
        shown = f"{value:,}" if isinstance(value, int) else value
        assumed.append(f"{name.replace('_', ' ')} {shown}, as its software sets it")
    for name, why in stack.needs.items():
        if getattr(row, name) is None:
            raise _CannotError(why)
    return row


def _split(row: Row, assumed: list[str]) -> tuple[int, int, int]:
    """Tensor, pipeline and context parallel ranks."""
    if row.tp is None and row.model_parallel:
        tp = min(DEVICES_PER_NODE, row.model_parallel)
        assumed.append(f"tp {tp}, pp {row.model_parallel // tp}: a node's devices, then stages")
        return tp, row.model_parallel // tp, row.cp or 1
    return row.tp or 1, row.pp or 1, row.cp or 1


def _devices(row: Row, assumed: list[str]) -> int:
    if row.devices is not None:
        return row.devices
    if row.tokens_per_step and row.step_time_s:
        devices = round(row.tokens_per_step / row.step_time_s / row.value)
        assumed.append(f"{devices} devices: tokens of a step by the logged rate")
        return devices
    raise _CannotError("the number of devices is not stated")


def _plan(row: Row, stack: Stack, seq: int, assumed: list[str]) -> dict[str, Any]:
    tp, pp, cp = _split(row, assumed)
    devices = _devices(row, assumed)
    if devices % (tp * pp * cp):
        raise _CannotError(f"tp {tp} x pp {pp} x cp {cp} does not divide {devices}")
    spread = stack.pipeline.get("spread_sequences", False)
    if spread:
        cp = max(1, devices // ((row.tokens_per_step or 0) // seq or devices))
    dp = devices // (tp * pp * cp)
    if row.dp not in (None, dp) and not spread:
        assumed.append(f"dp {dp}: what the devices leave, where the row prints {row.dp}")
    batch, micro = row.global_batch, row.micro_batch
    if batch is None and row.tokens_per_step:
        batch = row.tokens_per_step // seq
    if stack.pipeline.get("local_batch") and pp > 1:
        batch, micro = dp * (micro or 1), 1
        assumed.append("microbatches of one sequence")
    if micro is None and batch is None and spread:
        raise _CannotError("the batch is not stated")
    if micro is None:
        micro = max(1, batch // dp) if spread and batch else 1
        assumed.append(f"microbatches of {micro}")
    if batch is None and row.microbatches is None and pp > 1:
        raise _CannotError("the batch of a pipeline is not stated")
    if batch is None:
        batch = dp * micro * (row.microbatches or 1)
    return {
        "tp": tp,
        "pp": pp,
        "cp": cp,
        "ep": row.ep or 1,
        "devices": devices,
        "microbatch": micro,
        "global_batch": batch,
    }


def _options(
    row: Row, stack: Stack, plan: dict[str, Any], devices: int, assumed: list[str]
) -> ParallelOptions:
    chosen: dict[str, Any] = {"fsdp": "full", **stack.parallel}
    chosen |= sharded(row.sharding, devices // (plan["tp"] * plan["pp"] * plan["cp"]))
    if plan["pp"] > 1 and chosen["fsdp"] == "full":
        chosen["fsdp"] = "zero2"
        assumed.append("parameters of a pipeline stage stay gathered within a step")
    recipe = stack.recipe(row)
    if recipe is not None and 0 < recipe.slice < devices:
        chosen |= {"fsdp": "hybrid", "node": recipe.slice}
    if recipe is not None and recipe.rotation:
        chosen["rotation"] = recipe.rotation
    chosen["recompute"] = _recompute(row)
    if plan["pp"] > 1:
        virtual = row.virtual or (2 if "Interleaved" in (row.said or "") else 1)
        chosen["schedule"] = "interleaved" if virtual > 1 else "1f1b"
        chosen["virtual"] = virtual if virtual > 1 else None
    software = stack.software_of(row, plan)
    software = replace(software, matmul=multiplied(row.precision))
    _check_adapters(row, software, plan)
    return ParallelOptions(**plan, **chosen, world=devices, software=software)


def _check_adapters(row: Row, software: Software, plan: dict[str, Any]) -> None:
    if not any("lora" in (told or "").lower() for told in (row.model, row.task)):
        return
    if not software.adapter_rank:
        raise _CannotError("what low-rank adapters its software trains is not described")
    if plan["tp"] > 1:
        raise _CannotError("low-rank adapters under tensor parallelism have no ready-made program")


def _recompute(row: Row) -> str:
    said = (row.recompute or "").lower()
    return next((kind for kind in ("full", "selective") if said.startswith(kind)), "none")
