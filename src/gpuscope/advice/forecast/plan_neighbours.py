"""Neighbours of a ready-made parallel plan: the same job with one thing decided otherwise.

For built-in models with `WorkloadOptions.parallel` (`--dp`, `--tp`, ...): no code has to be
changed, each neighbour is another set of options, to be predicted as it is. The batch of the whole
job stays, so step times compare directly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError
from gpuscope.hardware import Cluster
from gpuscope.program.models.parallel.checks import plan_of
from gpuscope.program.models.parallel.options import (
    RECOMPUTE,
    SCHEDULES,
    Parallelism,
    ParallelOptions,
)
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.program.workload import WorkloadOptions

__all__ = ["neighbours"]

Neighbour = tuple[str, Text, WorkloadOptions]
_Step = tuple[str, Text, dict[str, Any]]


def neighbours(
    options: WorkloadOptions, cluster: Cluster, size: TransformerSize
) -> list[Neighbour]:
    """Plans that differ from this one in one decision, each possible.

    Args:
        options: of the workload, with a parallel job.
        cluster: what it runs on; its devices are the job's ranks where the options do not say.
        size: of the model (`gpuscope.program.models.registry.find(name).size()`): what does not
            divide is left out.

    Returns:
        (name, title, options) each: "plan:tp-4", "plan:recompute-full", ...; [] without a
        parallel job.

    Raises:
        GpuscopeError: the plan itself cannot be.
    """
    asked = options.parallel
    if asked is None:
        return []
    if asked.world is None:
        asked = replace(asked, world=cluster.n_devices, node=cluster.devices_per_node)
    tokens = options.seq or 2048
    now = plan_of(size, tokens, asked)
    # All decided, so that what is varied does not move other choices along.
    decided = _decided(asked, now)
    found: list[Neighbour] = []
    for name, title, changes in _steps(now, cluster):
        other = replace(decided, **changes)
        try:
            plan = plan_of(size, tokens, other)
        except GpuscopeError:
            continue
        if plan == now or plan.global_batch != now.global_batch:
            continue
        found.append((f"plan:{name}", title, replace(options, parallel=other)))
    return found


def _decided(asked: ParallelOptions, plan: Parallelism) -> ParallelOptions:
    return replace(
        asked,
        dp=plan.dp,
        tp=plan.tp,
        pp=plan.pp,
        cp=plan.cp,
        ep=plan.ep,
        etp=plan.etp,
        fsdp=plan.fsdp,
        schedule=plan.schedule,
        virtual=plan.virtual,
        microbatch=plan.microbatch,
        global_batch=plan.global_batch,
        recompute=plan.recompute,
        sequence_parallel=plan.sequence_parallel,
        rotation=plan.rotation,
        prefetch=plan.prefetch,
        reduce_dtype=plan.reduce_dtype,
        world=plan.world_size,
    )


def _steps(now: Parallelism, cluster: Cluster) -> Iterator[_Step]:
    """What may be decided otherwise; not all of it can be."""
    yield from _degrees(now, cluster)
    yield from _sharding(now)
    yield from _schedules(now)
    for recompute in RECOMPUTE:
        if recompute != now.recompute:
            yield (
                f"recompute-{recompute}",
                Text("recomputation: {recompute}", recompute=recompute),
                {"recompute": recompute},
            )
    for microbatch in (now.microbatch // 2, now.microbatch * 2):
        if microbatch:
            yield (
                f"microbatch-{microbatch}",
                Text("{microbatch} sequences a micro-batch", microbatch=microbatch),
                {"microbatch": microbatch},
            )
    if now.tp > 1:
        sequence = not now.sequence_parallel
        yield (
            "sequence-parallel" if sequence else "no-sequence-parallel",
            Text("sequence parallelism on") if sequence else Text("sequence parallelism off"),
            {"sequence_parallel": sequence},
        )
    if now.dp > 1 and now.reduce_dtype == "float32":
        yield ("reduce-bf16", Text("gradients summed in bfloat16"), {"reduce_dtype": "bfloat16"})


def _degrees(now: Parallelism, cluster: Cluster) -> Iterator[_Step]:
    """Two ranks' worth moved between data parallelism and another kind."""
    kinds = {"tp": Text("tensor parallel"), "pp": Text("pipeline"), "cp": Text("context parallel")}
    for kind, words in kinds.items():
        degree = getattr(now, kind)
        others = [(degree * 2, now.dp // 2)] if now.dp % 2 == 0 else []
        others += [(degree // 2, now.dp * 2)] if degree % 2 == 0 else []
        for new, dp in others:
            if kind == "tp" and new > cluster.devices_per_node:
                continue  # never across nodes
            changes: dict[str, Any] = {kind: new, "dp": dp}
            if kind == "pp" and new == 1:
                changes |= {"schedule": None, "virtual": None}
            yield (
                f"{kind}-{new}",
                Text("{words} degree {new}, {dp} replicas", words=words, new=new, dp=dp),
                changes,
            )
    if now.ep > 1 or now.dp % 2 == 0:
        for ep in (now.ep // 2, now.ep * 2):
            if ep:
                yield (f"ep-{ep}", Text("experts over {ep} ranks", ep=ep), {"ep": ep})


def _sharding(now: Parallelism) -> Iterator[_Step]:
    titles = {
        "full": Text("everything sharded (ZeRO-3)"),
        "hybrid": Text("sharded within a node (HSDP)"),
        "zero2": Text("gradients and states sharded (ZeRO-2)"),
        "zero1": Text("optimizer states sharded (ZeRO-1)"),
        "none": Text("nothing sharded (DDP)"),
    }
    if now.dp * now.cp > 1:
        for fsdp, title in titles.items():
            if fsdp != now.fsdp:
                yield f"fsdp-{fsdp}", title, {"fsdp": fsdp}
    if now.fsdp in ("full", "hybrid"):
        yield (
            f"prefetch-{now.prefetch + 1}",
            Text("{prefetch} blocks gathered ahead", prefetch=now.prefetch + 1),
            {"prefetch": now.prefetch + 1},
        )


def _schedules(now: Parallelism) -> Iterator[_Step]:
    if now.pp == 1:
        return
    for schedule in SCHEDULES:
        if schedule != now.schedule:
            virtual = 2 if schedule == "interleaved" else 1
            yield (
                f"schedule-{schedule}",
                Text("schedule {schedule}", schedule=schedule),
                {"schedule": schedule, "virtual": virtual},
            )
