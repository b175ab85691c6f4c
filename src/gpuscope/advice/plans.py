"""Neighbours of a ready-made parallel plan: the same job with one thing decided otherwise.

For built-in models with `WorkloadOptions.parallel` (`--dp`, `--tp`, ...): no code has to be
changed, each neighbour is another set of options, to be predicted as it is. The batch of the whole
job stays, so step times compare directly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gpuscope.errors import GpuscopeError
from gpuscope.explain.types import Words
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

Neighbour = tuple[str, Words, WorkloadOptions]
_Step = tuple[str, Words, dict[str, Any]]


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
        asked, dp=plan.dp, tp=plan.tp, pp=plan.pp, cp=plan.cp, ep=plan.ep, fsdp=plan.fsdp,
        schedule=plan.schedule, virtual=plan.virtual, microbatch=plan.microbatch,
        global_batch=plan.global_batch, recompute=plan.recompute,
        sequence_parallel=plan.sequence_parallel, rotation=plan.rotation, prefetch=plan.prefetch,
        reduce_dtype=plan.reduce_dtype, world=plan.world_size,
    )  # fmt: skip


def _steps(now: Parallelism, cluster: Cluster) -> Iterator[_Step]:
    """What may be decided otherwise; not all of it can be."""
    yield from _degrees(now, cluster)
    yield from _sharding(now)
    yield from _schedules(now)
    for recompute in RECOMPUTE:
        if recompute != now.recompute:
            yield (
                f"recompute-{recompute}",
                Words(f"recomputation: {recompute}", f"重计算：{recompute}"),
                {"recompute": recompute},
            )
    for microbatch in (now.microbatch // 2, now.microbatch * 2):
        if microbatch:
            yield (
                f"microbatch-{microbatch}",
                Words(f"{microbatch} sequences a micro-batch", f"每个微批 {microbatch} 条序列"),
                {"microbatch": microbatch},
            )
    if now.tp > 1:
        sequence = not now.sequence_parallel
        yield (
            "sequence-parallel" if sequence else "no-sequence-parallel",
            Words(f"sequence parallelism {'on' if sequence else 'off'}",
                  f"{'打开' if sequence else '关闭'}序列并行"),
            {"sequence_parallel": sequence},
        )  # fmt: skip
    if now.dp > 1 and now.reduce_dtype == "float32":
        yield (
            "reduce-bf16", Words("gradients summed in bfloat16", "梯度用 bfloat16 归约"),
            {"reduce_dtype": "bfloat16"},
        )  # fmt: skip


def _degrees(now: Parallelism, cluster: Cluster) -> Iterator[_Step]:
    """Two ranks' worth moved between data parallelism and another kind."""
    kinds = {
        "tp": Words("tensor parallel", "张量并行"), "pp": Words("pipeline", "流水线"),
        "cp": Words("context parallel", "上下文并行"),
    }  # fmt: skip
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
                Words(
                    f"{words.en} degree {new}, {dp} replicas", f"{words.zh}度 {new}，{dp} 个副本"
                ),
                changes,
            )
    if now.ep > 1 or now.dp % 2 == 0:
        for ep in (now.ep // 2, now.ep * 2):
            if ep:
                yield (
                    f"ep-{ep}", Words(f"experts over {ep} ranks", f"专家分布在 {ep} 个进程"),
                    {"ep": ep},
                )  # fmt: skip


def _sharding(now: Parallelism) -> Iterator[_Step]:
    titles = {
        "full": Words("everything sharded (ZeRO-3)", "全部切分（ZeRO-3）"),
        "hybrid": Words("sharded within a node (HSDP)", "节点内切分（HSDP）"),
        "zero2": Words("gradients and states sharded (ZeRO-2)", "切分梯度与状态（ZeRO-2）"),
        "zero1": Words("optimizer states sharded (ZeRO-1)", "切分优化器状态（ZeRO-1）"),
        "none": Words("nothing sharded (DDP)", "不切分（DDP）"),
    }
    if now.dp * now.cp > 1:
        for fsdp, title in titles.items():
            if fsdp != now.fsdp:
                yield f"fsdp-{fsdp}", title, {"fsdp": fsdp}
    if now.fsdp in ("full", "hybrid"):
        yield (
            f"prefetch-{now.prefetch + 1}",
            Words(f"{now.prefetch + 1} blocks gathered ahead", f"提前收集 {now.prefetch + 1} 个块"),
            {"prefetch": now.prefetch + 1},
        )


def _schedules(now: Parallelism) -> Iterator[_Step]:
    if now.pp == 1:
        return
    for schedule in SCHEDULES:
        if schedule != now.schedule:
            virtual = 2 if schedule == "interleaved" else 1
            yield (
                f"schedule-{schedule}", Words(f"schedule {schedule}", f"调度 {schedule}"),
                {"schedule": schedule, "virtual": virtual},
            )  # fmt: skip
