"""How the training of a model is split over the ranks of a job. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpuscope.program.models.parallel.size import TransformerSize

__all__ = [
    "FSDP",
    "RECOMPUTE",
    "ROTATIONS",
    "SCHEDULES",
    "Job",
    "ParallelOptions",
    "Parallelism",
    "Software",
]

FSDP = ("full", "hybrid", "zero2", "zero1", "none")
SCHEDULES = ("gpipe", "1f1b", "interleaved", "zb")
RECOMPUTE = ("none", "selective", "full")
ROTATIONS = ("allgather", "alltoall", "heads")

Sharding = Literal["full", "hybrid", "zero2", "zero1", "none"]
ScheduleName = Literal["gpipe", "1f1b", "interleaved", "zb"]
Recompute = Literal["none", "selective", "full"]
Attention = Literal["flash", "eager", "flash_only", "fused_softmax", "efficient", "cudnn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallelism:
    """A complete plan; `gpuscope.program.models.parallel.checks.check` says whether it can be.

    Ranks are laid out with tensor parallelism innermost, so that its ranks are neighbours: rank =
    ((stage * dp + replica) * cp + part) * tp + shard. Experts are spread over ranks that hold
    different tokens, the `ep` neighbours of the flattened (dp, cp, tp) part of the mesh; each
    expert's matrices over the `etp` neighbours within these.

    Attributes:
        dp: replicas of the model, each with its own sequences.
        tp: ranks that share every layer's matrices.
        pp: pipeline stages (ranks that hold different layers).
        cp: ranks that share every sequence.
        ep: ranks that share the experts of a block.
        etp: ranks that share the matrices of each expert, and work on the tokens of all of them.
        fsdp: what the dp and cp ranks share instead of repeating it: "full" parameters, gradients
            and optimizer states (ZeRO-3); "hybrid" the same within groups of `shard` ranks, which
            are replicated; "zero2" gradients and states, parameters being gathered once a
            microbatch; "zero1" states alone, gradients being summed once a step, as Megatron's
            distributed optimizer does; "none" nothing.
        shard: ranks of a hybrid group; 0 otherwise.
        schedule: order of a pipeline's microbatches.
        virtual: stages that each pipeline rank holds ("interleaved").
        microbatch: sequences that a replica works on at once.
        microbatches: how many of them a replica works on in a step.
        recompute: what the backward pass computes again: "selective" all but matrix products,
            attention and communication; "full" everything inside of a block.
        sequence_parallel: tensor parallel ranks share the tokens between their layers too.
        rotation: how context parallel ranks pass keys and values on; "heads": each attends for
            its part of the heads.
        prefetch: blocks whose parameters are gathered ahead ("full", "hybrid"); 1 is FSDP2's own.
        reduce_dtype: dtype in which gradients are summed over ranks.
        cut: blocks of each stage, first to last; () for the usual cut.
        offload: a rank's share of parameters, gradients and optimizer states lies in the host's
            memory, whose cores update it (FSDP2's `CPUOffloadPolicy`).
    """

    dp: int = 1
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    etp: int = 1
    fsdp: Sharding = "full"
    shard: int = 0
    schedule: ScheduleName = "1f1b"
    virtual: int = 1
    microbatch: int = 1
    microbatches: int = 1
    recompute: Recompute = "none"
    sequence_parallel: bool = True
    rotation: Literal["allgather", "alltoall", "heads"] = "allgather"
    prefetch: int = 1
    reduce_dtype: Literal["float32", "bfloat16"] = "float32"
    cut: tuple[int, ...] = ()
    offload: bool = False

    @property
    def world_size(self) -> int:
        """Ranks of the job."""
        return self.dp * self.tp * self.pp * self.cp

    @property
    def expert_share(self) -> int:
        """Ranks that FSDP shares a rank's experts over: those with the same part of them."""
        if self.ep * self.etp == 1:
            return (self.shard or self.dp) * self.cp
        return self.dp * self.cp * self.tp // (self.ep * self.etp)

    @property
    def stages(self) -> int:
        """Parts that the layers are cut into, virtual ones included."""
        return self.pp * self.virtual

    @property
    def global_batch(self) -> int:
        """Sequences of a step of the whole job."""
        return self.dp * self.microbatch * self.microbatches

    @property
    def one_rank(self) -> bool:
        """Whether nothing is split or repeated."""
        return self.world_size == 1

    @property
    def sums_each(self) -> bool:
        """Whether each micro-batch's gradients are summed over ranks, and so never exist whole."""
        return self.fsdp in ("full", "hybrid", "zero2")

    @property
    def splits_tokens(self) -> bool:
        """Whether tensor parallel ranks share the tokens between layers."""
        return self.tp > 1 and self.sequence_parallel


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """Which kernels and habits the training code has; how good a software stack is.

    Attributes:
        attention: "flash" one fused kernel; "eager" matrix products and a softmax that keep the
            scores in memory; "fused_softmax" the same with scale, mask and softmax as one kernel,
            as Megatron-LM had before flash attention; "efficient" PyTorch's memory-efficient
            kernel, about as quick as the first generation of flash attention; "flash_only" its
            flash kernel even where the device prefers cuDNN's, as earlier releases did; "cudnn"
            cuDNN's even where PyTorch prefers another, as Transformer Engine does.
        fused_norm: one kernel a norm, instead of one an elementary step.
        fused_projections: queries, keys and values in one matrix product, gate and up in another.
        optimizer: as `gpuscope.program.models.building.optimizers.make_optimizer` takes it.
        loss_chunks: pieces that the output layer and the loss are computed in, each recomputed in
            the backward pass, so that the logits never exist whole; 1 keeps them.
        clip: gradients are clipped to a norm, which all ranks sum up.
        compile: a `torch.compile` mode, or "" for eager.
        grouped_experts: one kernel for all experts, instead of a loop over them.
        matmul: "compute" multiplies in the job's dtype; "float8" multiplies the linear layers of
            the blocks in float8, forward and backward, each operand cast by one kernel as
            Transformer Engine does; experts too where they are grouped; attention, routers and
            the output layer stay; "float4" the same in NVFP4, whose casts read three times: the
            largest values, rows, and columns after a Hadamard transform (Transformer Engine's
            `NVFP4BlockScaling`; NVIDIA 2025, arXiv:2509.25149).
        fused_steps: rotary positions, an activation with its gate, and the order of an expert's
            tokens are one kernel each, as in Megatron-LM.
        tokens_first: tensor parallel ranks gather and scatter tokens without copies, since
            activations have their tokens in the first dimension, as in Megatron-LM.
        tp_overlap: their communication runs beside its own matrix product, as with Transformer
            Engine's userbuffers (`gpuscope.program.models.parallel.software`).
        fused_accumulation: gradients of several microbatches are added up inside of the product.
        sharing: when the replicas of a pipeline gather parameters and sum gradients: "in_turn" in
            each stage's first pass and after its last, and the rank waits, as PyTorch does;
            "at_ends" all before the first pass and after the last of all, as Megatron-LM does;
            "beside" the passes, which Megatron-LM does with --overlap-param-gather and
            --overlap-grad-reduce. With "zero1" and "none" only.
        cast_once: weights are cast to float8 once a step instead of in every microbatch, as
            Transformer Engine does (`gpuscope.program.models.parallel.casts`).
        send_once: a token goes once to a rank however many of its experts are there, as with
            HybridEP and DeepEP (`gpuscope.program.models.parallel.exchange`); with `fused_steps`.
        exchange_overlap: experts' tokens are exchanged beside another microbatch's work
            (`overlap_moe_expert_parallel_comm`).
        latent_again: the backward pass computes the up-projections of latent attention again, and
            what makes queries, keys and values of them (`recompute_modules=["mla_up_proj"]`).
        sums_beside: gradients are summed over ranks while the backward pass goes on; off where
            each block's sum holds it up, as on TPUs (`gpuscope.program.models.parallel.xla`).
        kept: last names of modules whose products, or attention, are kept where all else is
            computed again in the backward pass ("query", "down", "attention").
        attention_rows: rows of queries and keys that a device of few large cores takes in a step of
            attention; 0 for its usual.
        fused_experts: an expert's activation, its gradient and their casts to float8 are part of
            the grouped product before, as with Transformer Engine's fused grouped MLP.
        adapter_rank: of low-rank adapters beside attention's products, which alone learn
            (`gpuscope.program.models.networks.frozen_linear`); 0 trains every weight. Without
            tensor parallelism and experts only.
        graphs: a block's forward pass is one CUDA graph, and its backward pass another; without
            a pipeline only.
    """

    attention: Attention = "flash"
    fused_norm: bool = True
    fused_projections: bool = False
    optimizer: str = "adamw-fused"
    loss_chunks: int = 1
    clip: bool = False
    compile: str = ""
    grouped_experts: bool = True
    matmul: Literal["compute", "float8", "float4"] = "compute"
    fused_steps: bool = False
    tokens_first: bool = False
    tp_overlap: bool = False
    fused_accumulation: bool = False
    sharing: Literal["in_turn", "at_ends", "beside"] = "in_turn"
    cast_once: bool = False
    send_once: bool = False
    exchange_overlap: bool = False
    latent_again: bool = False
    sums_beside: bool = True
    kept: tuple[str, ...] = ()
    attention_rows: int = 0
    fused_experts: bool = False
    adapter_rank: int = 0
    graphs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelOptions:
    """What the user asks for; None means a usual choice.

    Attributes:
        world: ranks of the job; where it is known, `dp` follows from the others.
        node: devices of a node: the size of a hybrid group.
        dp, tp, pp, cp, ep, etp, fsdp, schedule, virtual, microbatch, recompute, sequence_parallel,
            rotation, prefetch, reduce_dtype, cut, offload: as `Parallelism`.
        global_batch: sequences of a step of the whole job.
        software: kernels and habits; attention, optimizer and `torch.compile` are the workload's.
    """

    world: int | None = None
    node: int | None = None
    dp: int | None = None
    tp: int | None = None
    pp: int | None = None
    cp: int | None = None
    ep: int | None = None
    etp: int | None = None
    fsdp: str | None = None
    schedule: str | None = None
    virtual: int | None = None
    microbatch: int | None = None
    global_batch: int | None = None
    recompute: str | None = None
    sequence_parallel: bool = True
    rotation: str | None = None
    prefetch: int | None = None
    reduce_dtype: str | None = None
    cut: tuple[int, ...] = ()
    offload: bool = False
    software: Software = Software()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Everything that decides what each rank does in a step.

    Attributes:
        size: the model.
        plan: how it is split, checked.
        software: kernels and habits.
        tokens: tokens of a sequence.
        weight_dtype: dtype that parameters and optimizer states are kept in.
        compute_dtype: dtype that parameters are gathered in and computed with.
        device: "cuda" or "cpu".
    """

    size: TransformerSize
    plan: Parallelism
    software: Software
    tokens: int
    weight_dtype: str = "float32"
    compute_dtype: str = "bfloat16"
    device: str = "cuda"
