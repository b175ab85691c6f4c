"""From what the user asks to a plan that can be: every choice made, every division checked."""

from __future__ import annotations

from dataclasses import replace

from gpuscope.errors import InvalidValueError
from gpuscope.program.models.parallel.options import (
    FSDP,
    RECOMPUTE,
    ROTATIONS,
    SCHEDULES,
    Parallelism,
    ParallelOptions,
)
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.program.models.settings import choose, positive

__all__ = ["check", "padded_vocabulary", "plan_of"]

_REDUCE = ("float32", "bfloat16")
_ALIASES = {"zero3": "full", "hsdp": "hybrid", "ddp": "none", "zero0": "none"}


def plan_of(size: TransformerSize, tokens: int, asked: ParallelOptions) -> Parallelism:
    """The plan that the options describe for a model, checked.

    Left out, `dp` is what the job's ranks leave; everything is sharded, but in a pipeline the
    optimizer states alone (else parameters would be gathered for every microbatch; Megatron-LM and
    torchtitan do the same); a hybrid group is a node; the global batch is one microbatch a replica,
    or four a stage in a pipeline (which leaves a bubble of a fifth).

    Args:
        size: the model.
        tokens: tokens of a sequence.
        asked: the options.

    Raises:
        UnknownNameError: a kind of sharding, schedule, ... that does not exist.
        InvalidValueError: numbers that do not divide, or options that exclude each other.
    """
    degrees = {n: positive(n, getattr(asked, n)) or 1 for n in ("tp", "pp", "cp", "ep")}
    dp = _replicas(asked, degrees)
    schedule = _word("schedule", asked.schedule, SCHEDULES, "1f1b")
    virtual = positive("virtual", asked.virtual) or (2 if schedule == "interleaved" else 1)
    usual = "zero1" if degrees["pp"] > 1 else "full"
    fsdp = _word("fsdp", _ALIASES.get(asked.fsdp or "", asked.fsdp), FSDP, usual)
    microbatch = positive("microbatch", asked.microbatch) or 1
    plan = Parallelism(
        dp=dp, **degrees, fsdp=fsdp,  # type: ignore[arg-type]
        shard=_hybrid(asked, dp) if fsdp == "hybrid" else 0,
        schedule=schedule, virtual=virtual, microbatch=microbatch,  # type: ignore[arg-type]
        microbatches=_microbatches(asked, dp, microbatch, degrees["pp"] * virtual),
        recompute=_word("recompute", asked.recompute, RECOMPUTE, "none"),  # type: ignore[arg-type]
        sequence_parallel=asked.sequence_parallel,
        rotation=_word("rotation", asked.rotation, ROTATIONS, "allgather"),  # type: ignore[arg-type]
        prefetch=positive("prefetch", asked.prefetch) or 1,
        reduce_dtype=_word("reduce_dtype", asked.reduce_dtype, _REDUCE, "float32"),  # type: ignore[arg-type]
    )  # fmt: skip
    check(size, tokens, plan)
    return plan


def _word(kind: str, value: str | None, allowed: tuple[str, ...], default: str) -> str:
    return default if value is None else choose(kind, value, allowed, f"--{kind}")


def _replicas(asked: ParallelOptions, degrees: dict[str, int]) -> int:
    """How many replicas of the model the job has."""
    dp = positive("dp", asked.dp)
    world = positive("world", asked.world)
    each = degrees["tp"] * degrees["pp"] * degrees["cp"]
    product = " x ".join(f"{n} {degrees[n]}" for n in ("tp", "pp", "cp") if degrees[n] > 1)
    if world is None:
        return dp or 1
    if dp is None:
        if world % each:
            below = world // each * each
            fits = " or ".join(str(n) for n in (below, below + each) if n)
            raise InvalidValueError(
                f"{world} devices cannot be split into replicas of {each} ({product}).",
                f"{world} is not a multiple of {each}.",
                f"Ask for {fits} devices, or for other degrees.",
            )
        return world // each
    if dp * each != world:
        mesh = f"dp {dp}" + (f" x {product}" if product else "")
        raise InvalidValueError(
            f"A mesh of {mesh} has {dp * each} ranks, the job has {world}.",
            "Each device runs one rank."
            if dp * each < world
            else "The mesh is larger than the cluster.",
            f"Leave out --dp (it would be {world // each}), or ask for {dp * each} devices."
            if world % each == 0
            else f"Ask for {dp * each} devices.",
        )
    return dp


def _hybrid(asked: ParallelOptions, dp: int) -> int:
    """Ranks of a group that shares one copy of the parameters."""
    node = positive("node", asked.node) or 8
    each = (asked.tp or 1) * (asked.cp or 1)
    shard = max(1, min(dp, node // each))
    if dp % shard or dp == shard:
        raise InvalidValueError(
            f"Hybrid sharding over {dp} replicas of {each} ranks on nodes of {node} cannot be.",
            f"The parameters would be shared by {shard} replicas, those of a node, and copied"
            f" {dp / shard:g} times.",
            "Type: --fsdp full, or use a number of replicas that fills several nodes.",
        )
    return shard


def _microbatches(asked: ParallelOptions, dp: int, microbatch: int, stages: int) -> int:
    total = positive("global_batch", asked.global_batch)
    if total is None:
        return 4 * stages if stages > 1 else 1
    if total % (dp * microbatch):
        each = dp * microbatch
        near = max(1, round(total / each)) * each
        raise InvalidValueError(
            f"A global batch of {total} cannot be split over {dp} replicas in microbatches of"
            f" {microbatch}.",
            f"{total} is not a multiple of {dp} x {microbatch} = {each}.",
            f"Type: --global-batch {near}",
        )
    return total // (dp * microbatch)


def check(size: TransformerSize, tokens: int, plan: Parallelism) -> None:
    """Refuse a plan that cannot be.

    Raises:
        InvalidValueError: what does not divide, or excludes something else.
    """
    _check_tensor(size, tokens, plan)
    _check_experts(size, plan)
    _check_context(size, tokens, plan)
    _check_pipeline(size, plan)


def _check_tensor(size: TransformerSize, tokens: int, plan: Parallelism) -> None:
    if plan.tp == 1:
        return
    counts = {
        "query heads": size.heads,
        "key-value heads": size.heads if size.latent else size.kv_heads,
        "features of the feed-forward part": size.ffn,
    }
    if size.experts and size.experts.shared_ffn:
        counts["features of the shared expert"] = size.experts.shared_ffn
    if plan.sequence_parallel:
        counts["tokens of a sequence"] = tokens // plan.cp
    for what, count in counts.items():
        if count % plan.tp:
            fitting = [
                str(n) for n in range(1, plan.tp) if all(c % n == 0 for c in counts.values())
            ]
            raise InvalidValueError(
                f"{count} {what} cannot be split over {plan.tp} ranks.",
                f"{count} is not a multiple of {plan.tp}.", "Type: --tp " + " or ".join(fitting),
            )  # fmt: skip


def _check_experts(size: TransformerSize, plan: Parallelism) -> None:
    if plan.ep == 1:
        return
    if size.experts is None:
        raise InvalidValueError(
            "Expert parallelism needs experts.", "The model has none.", "Leave out --ep."
        )
    if size.experts.count % plan.ep:
        raise InvalidValueError(
            f"{size.experts.count} experts cannot be split over {plan.ep} ranks.",
            f"{size.experts.count} is not a multiple of {plan.ep}.",
            f"Type: --ep {_divisor(size.experts.count, plan.ep)}",
        )
    holders = plan.dp * plan.cp * plan.tp
    if holders % plan.ep:
        raise InvalidValueError(
            f"{plan.ep} expert ranks cannot be laid over {holders} ranks of a stage.",
            f"Experts are spread over ranks that hold other tokens: dp x cp x tp = {plan.dp} x"
            f" {plan.cp} x {plan.tp}.",
            f"Type: --ep {_divisor(holders, plan.ep)}",
        )
    if plan.tp > 1 and not plan.sequence_parallel:
        raise InvalidValueError(
            "Expert parallelism beside tensor parallelism needs sequence parallelism.",
            "Else the tp ranks would send the same tokens to the experts several times.",
            "Leave sequence parallelism on, or type: --tp 1",
        )


def _divisor(count: int, most: int) -> int:
    return next(n for n in range(min(most, count), 0, -1) if count % n == 0)


def _check_context(size: TransformerSize, tokens: int, plan: Parallelism) -> None:
    if plan.cp > 1 and tokens % (2 * plan.cp):
        near = max(1, round(tokens / (2 * plan.cp))) * 2 * plan.cp
        raise InvalidValueError(
            f"A sequence of {tokens} tokens cannot be split over {plan.cp} ranks.",
            "Each takes one piece from the front and one from the back, so that all have as much"
            f" attention to do: {2 * plan.cp} pieces.",
            f"Type: --seq {near}",
        )
    if tokens > size.context and size.positions == "learned":
        raise InvalidValueError(
            f"A sequence of {tokens} tokens is longer than the model's {size.context} positions.",
            "Its positions are a table that was learned.", f"Type: --seq {size.context}",
        )  # fmt: skip


def _check_pipeline(size: TransformerSize, plan: Parallelism) -> None:
    if plan.pp == 1:
        if plan.virtual > 1:
            raise InvalidValueError(
                "Virtual stages and interleaving need a pipeline.", "It has one stage.",
                "Leave out --virtual and --schedule, or type: --pp 2",
            )  # fmt: skip
        return
    if plan.virtual > 1 and plan.schedule != "interleaved":
        raise InvalidValueError(
            f"The schedule {plan.schedule} has one stage a rank.",
            "Several are what interleaving is.", "Type: --schedule interleaved",
        )  # fmt: skip
    if plan.virtual == 1 and plan.schedule == "interleaved":
        raise InvalidValueError(
            "The interleaved schedule needs several stages a rank.", "", "Type: --virtual 2"
        )
    if plan.stages > size.layers and plan.stages != size.layers + 2:  # embedding and head alone
        raise InvalidValueError(
            f"{size.layers} layers cannot fill {plan.stages} pipeline stages.",
            "Every stage needs at least one.",
            f"Type: --pp {max(1, size.layers // plan.virtual)}",
        )
    if plan.schedule == "interleaved" and plan.microbatches % plan.pp:
        each = plan.dp * plan.microbatch
        near = -(-plan.microbatches // plan.pp) * plan.pp * each
        raise InvalidValueError(
            f"{plan.microbatches} microbatches cannot be interleaved over {plan.pp} ranks.",
            "The schedule runs them in rounds of one a rank (Narayanan et al. 2021).",
            f"Type: --global-batch {near}",
        )


def padded_vocabulary(size: TransformerSize, tp: int) -> TransformerSize:
    """The model with rows added to its vocabulary until tensor parallel ranks can share it.

    As Megatron-LM does: a multiple of 128 a rank, where it does not divide.
    """
    if size.vocabulary % tp == 0:
        return size
    each = 128 * tp
    return replace(size, vocabulary=-(-size.vocabulary // each) * each)
