"""From what the user asks to a plan that can be: every choice made, every division checked."""

from __future__ import annotations

from dataclasses import replace

from gpuscope.document.quantities import Number
from gpuscope.document.text import Text, joined
from gpuscope.errors import InvalidValueError, UnsupportedError
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
from gpuscope.program.pipeline.orders import PipelineShape

__all__ = ["check", "padded_vocabulary", "plan_of"]

_DEGREES = ("tp", "pp", "cp", "ep", "etp")
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
    degrees = {n: positive(n, getattr(asked, n)) or 1 for n in _DEGREES}
    dp = _replicas(asked, degrees)
    schedule = _word("schedule", asked.schedule, SCHEDULES, "1f1b")
    virtual = positive("virtual", asked.virtual) or (2 if schedule == "interleaved" else 1)
    usual = "zero1" if degrees["pp"] > 1 else "full"
    fsdp = _word("fsdp", _ALIASES.get(asked.fsdp or "", asked.fsdp), FSDP, usual)
    microbatch = positive("microbatch", asked.microbatch) or 1
    plan = Parallelism(
        dp=dp,
        **degrees,
        fsdp=fsdp,  # type: ignore[arg-type]
        shard=_hybrid(asked, dp) if fsdp == "hybrid" else 0,
        schedule=schedule,  # type: ignore[arg-type]
        virtual=virtual,
        microbatch=microbatch,
        microbatches=_microbatches(asked, dp, microbatch, degrees["pp"] * virtual),
        recompute=_word("recompute", asked.recompute, RECOMPUTE, "none"),  # type: ignore[arg-type]
        sequence_parallel=asked.sequence_parallel,
        rotation=_word("rotation", asked.rotation, ROTATIONS, "allgather"),  # type: ignore[arg-type]
        prefetch=positive("prefetch", asked.prefetch) or 1,
        reduce_dtype=_word("reduce_dtype", asked.reduce_dtype, _REDUCE, "float32"),  # type: ignore[arg-type]
        cut=asked.cut,
        offload=asked.offload,
    )
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
            fits = joined((str(n) for n in (below, below + each) if n), " or ")
            raise InvalidValueError(
                Text(
                    "{world} devices cannot be split into replicas of {each} ({product}).",
                    world=world,
                    each=each,
                    product=product,
                ),
                Text("{world} is not a multiple of {each}.", world=world, each=each),
                Text("Ask for {fits} devices, or for other degrees.", fits=fits),
            )
        return world // each
    if dp * each != world:
        mesh = f"dp {dp}" + (f" x {product}" if product else "")
        raise InvalidValueError(
            Text(
                "A mesh of {mesh} has {dp} ranks, the job has {world}.",
                mesh=mesh,
                dp=dp * each,
                world=world,
            ),
            Text("Each device runs one rank.")
            if dp * each < world
            else Text("The mesh is larger than the cluster."),
            Text(
                "Leave out --dp (it would be {world}), or ask for {dp} devices.",
                world=world // each,
                dp=dp * each,
            )
            if world % each == 0
            else Text("Ask for {dp} devices.", dp=dp * each),
        )
    return dp


def _hybrid(asked: ParallelOptions, dp: int) -> int:
    """Ranks of a group that shares one copy of the parameters."""
    node = positive("node", asked.node) or 8
    each = (asked.tp or 1) * (asked.cp or 1)
    shard = max(1, min(dp, node // each))
    if dp % shard or dp == shard:
        raise InvalidValueError(
            Text(
                "Hybrid sharding over {dp} replicas of {each} ranks on nodes of {node} cannot be.",
                dp=dp,
                each=each,
                node=node,
            ),
            Text(
                "The parameters would be shared by {shard} replicas, those of a node, and copied "
                "{dp} times.",
                shard=shard,
                dp=Number(dp / shard, "g"),
            ),
            Text("Type: --fsdp full, or use a number of replicas that fills several nodes."),
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
            Text(
                "A global batch of {total} cannot be split over {dp} replicas in microbatches of "
                "{microbatch}.",
                total=total,
                dp=dp,
                microbatch=microbatch,
            ),
            Text(
                "{total} is not a multiple of {dp} x {microbatch} = {each}.",
                total=total,
                dp=dp,
                microbatch=microbatch,
                each=each,
            ),
            Text("Type: --global-batch {near}", near=near),
        )
    return total // (dp * microbatch)


def check(size: TransformerSize, tokens: int, plan: Parallelism) -> None:
    """Refuse a plan that cannot be.

    Raises:
        InvalidValueError: what does not divide, or excludes something else.
        UnsupportedError: linear or sparse attention, or a window in a ring.
    """
    if size.linear is not None or size.sparse is not None:
        raise UnsupportedError(
            Text("There is no ready-made parallel program with linear or sparse attention."),
            Text("Such a model can be served (gpuscope serve), not trained here."),
            Text("Write a build() with your own parallelism and type: file.py:build"),
        )
    if size.states is not None and plan.cp > 1:
        raise UnsupportedError(
            Text("There is no ready-made context parallelism of state-space mixers."),
            Text("Each token's state needs those of all before it."),
            Text("Leave out --cp."),
        )
    _check_tensor(size, tokens, plan)
    _check_experts(size, plan)
    _check_context(size, tokens, plan)
    _check_pipeline(size, plan)


def _check_tensor(size: TransformerSize, tokens: int, plan: Parallelism) -> None:
    if plan.tp == 1:
        return
    counts = {
        Text("query heads"): size.heads,
        Text("key-value heads"): size.heads if size.latent else size.kv_heads,
        Text("features of the feed-forward part"): size.ffn,
    }
    if size.experts and size.experts.shared_ffn:
        counts[Text("features of the shared expert")] = size.experts.shared_ffn
    if size.states is not None:
        counts[Text("groups of state-space heads")] = size.states.groups
    if plan.sequence_parallel:
        counts[Text("tokens of a sequence")] = tokens // plan.cp
    for what, count in counts.items():
        if count % plan.tp:
            fitting = [
                str(n) for n in range(1, plan.tp) if all(c % n == 0 for c in counts.values())
            ]
            raise InvalidValueError(
                Text(
                    "{count} {what} cannot be split over {tp} ranks.",
                    count=count,
                    what=what,
                    tp=plan.tp,
                ),
                Text("{count} is not a multiple of {tp}.", count=count, tp=plan.tp),
                Text("Type: --tp {fitting}", fitting=joined(fitting, " or ")),
            )


def _check_experts(size: TransformerSize, plan: Parallelism) -> None:
    spread = plan.ep * plan.etp
    if spread == 1:
        return
    if size.experts is None:
        raise InvalidValueError(
            Text("Expert parallelism needs experts."),
            Text("The model has none."),
            Text("Leave out --ep."),
        )
    if plan.etp > 1 and size.mlp_bias:
        raise InvalidValueError(
            Text("The matrices of experts with biases cannot be cut over ranks here."),
            Text("Each rank would add the whole bias to its part of the sum."),
            Text("Leave out --etp."),
        )
    if size.experts.ffn % plan.etp:
        raise InvalidValueError(
            Text(
                "{count} features of an expert cannot be split over {etp} ranks.",
                count=size.experts.ffn,
                etp=plan.etp,
            ),
            Text("{count} is not a multiple of {tp}.", count=size.experts.ffn, tp=plan.etp),
            Text("Type: --etp {divisor}", divisor=_divisor(size.experts.ffn, plan.etp)),
        )
    if size.experts.count % plan.ep:
        raise InvalidValueError(
            Text(
                "{count} experts cannot be split over {ep} ranks.",
                count=size.experts.count,
                ep=plan.ep,
            ),
            Text("{count} is not a multiple of {ep}.", count=size.experts.count, ep=plan.ep),
            Text("Type: --ep {divisor}", divisor=_divisor(size.experts.count, plan.ep)),
        )
    holders = plan.dp * plan.cp * plan.tp
    if holders % spread:
        raise InvalidValueError(
            Text(
                "{ep} expert ranks cannot be laid over {holders} ranks of a stage.",
                ep=spread,
                holders=holders,
            ),
            Text(
                "Experts are spread over ranks that hold other tokens: dp x cp x tp = {dp} x {cp} "
                "x {tp}.",
                dp=plan.dp,
                cp=plan.cp,
                tp=plan.tp,
            ),
            Text("Type: --ep {divisor}", divisor=_divisor(holders // plan.etp or 1, plan.ep)),
        )
    if plan.tp > 1 and not plan.sequence_parallel:
        raise InvalidValueError(
            Text("Expert parallelism beside tensor parallelism needs sequence parallelism."),
            Text("Else the tp ranks would send the same tokens to the experts several times."),
            Text("Leave sequence parallelism on, or type: --tp 1"),
        )


def _divisor(count: int, most: int) -> int:
    return next(n for n in range(min(most, count), 0, -1) if count % n == 0)


def _check_context(size: TransformerSize, tokens: int, plan: Parallelism) -> None:
    if plan.cp > 1 and tokens % (2 * plan.cp):
        near = max(1, round(tokens / (2 * plan.cp))) * 2 * plan.cp
        raise InvalidValueError(
            Text(
                "A sequence of {tokens} tokens cannot be split over {cp} ranks.",
                tokens=tokens,
                cp=plan.cp,
            ),
            Text(
                "Each takes one piece from the front and one from the back, so that all have as "
                "much attention to do: {pieces} pieces.",
                pieces=2 * plan.cp,
            ),
            Text("Type: --seq {near}", near=near),
        )
    near = size.window is not None and size.window.tokens < tokens
    if plan.cp > 1 and near and plan.rotation != "heads":
        raise UnsupportedError(
            Text("There is no ready-made ring of attention with windows."),
            Text("PyTorch's passes every key by every query."),
            Text("Let context parallel ranks share the heads: rotation=\"heads\""),
        )  # fmt: skip
    heads = size.heads if size.latent else size.kv_heads
    if plan.rotation == "heads" and heads % (plan.cp * plan.tp):
        raise InvalidValueError(
            Text("{count} {what} cannot be split over {tp} ranks.", count=heads,
                 what=Text("key-value heads"), tp=plan.cp * plan.tp),
            Text("Context parallel ranks share the heads here."),
            Text("Leave out: rotation=\"heads\""),
        )  # fmt: skip
    if tokens > size.context and size.positions == "learned":
        raise InvalidValueError(
            Text(
                "A sequence of {tokens} tokens is longer than the model's {context} positions.",
                tokens=tokens,
                context=size.context,
            ),
            Text("Its positions are a table that was learned."),
            Text("Type: --seq {context}", context=size.context),
        )


def _check_pipeline(size: TransformerSize, plan: Parallelism) -> None:
    if plan.pp == 1:
        if plan.virtual > 1:
            raise InvalidValueError(
                Text("Virtual stages and interleaving need a pipeline."),
                Text("It has one stage."),
                Text("Leave out --virtual and --schedule, or type: --pp 2"),
            )
        return
    if plan.cut and (
        len(plan.cut) != plan.stages or sum(plan.cut) != size.layers or min(plan.cut) < 1
    ):
        raise InvalidValueError(
            Text(
                "Stages of {cut} blocks are no cut of {layers} layers into {stages}.",
                cut=", ".join(map(str, plan.cut)),
                layers=size.layers,
                stages=plan.stages,
            ),
            Text("Each stage has a number, of at least one, and together they are all layers."),
            Text("Leave the cut out."),
        )
    if plan.virtual > 1 and plan.schedule != "interleaved":
        raise InvalidValueError(
            Text("The schedule {schedule} has one stage a rank.", schedule=plan.schedule),
            Text("Several are what interleaving is."),
            Text("Type: --schedule interleaved"),
        )
    if plan.virtual == 1 and plan.schedule == "interleaved":
        raise InvalidValueError(
            Text("The interleaved schedule needs several stages a rank."),
            "",
            Text("Type: --virtual 2"),
        )
    if plan.stages > size.layers and plan.stages != size.layers + 2:  # embedding and head alone
        raise InvalidValueError(
            Text(
                "{layers} layers cannot fill {stages} pipeline stages.",
                layers=size.layers,
                stages=plan.stages,
            ),
            Text("Every stage needs at least one."),
            Text("Type: --pp {most}", most=max(1, size.layers // plan.virtual)),
        )
    if plan.schedule == "interleaved" and plan.microbatches % plan.pp:
        each = plan.dp * plan.microbatch
        near = -(-plan.microbatches // plan.pp) * plan.pp * each
        raise InvalidValueError(
            Text(
                "{microbatches} microbatches cannot be interleaved over {pp} ranks.",
                microbatches=plan.microbatches,
                pp=plan.pp,
            ),
            Text("The schedule runs them in rounds of one a rank (Narayanan et al. 2021)."),
            Text("Type: --global-batch {near}", near=near),
        )
    # What its order of passes needs: 1F1B as many microbatches as ranks, others full rounds.
    PipelineShape(plan.schedule, plan.pp, plan.microbatches, plan.virtual)


def padded_vocabulary(size: TransformerSize, tp: int) -> TransformerSize:
    """The model with rows added to its vocabulary until tensor parallel ranks can share it.

    As Megatron-LM does: a multiple of 128 a rank, where it does not divide.
    """
    if size.vocabulary % tp == 0:
        return size
    each = 128 * tp
    return replace(size, vocabulary=-(-size.vocabulary // each) * each)
