"""Mamba-2 mixers between their two projections: the kernels of mamba_ssm and causal_conv1d.

A sequence is cut into chunks of L tokens (Dao & Gu 2024, arXiv:2405.21060, section 6): of every
chunk the state that it adds (H heads of P x N), all states one after the other, and within a chunk
a product of L x L like attention's, its lower half alone. Forward
(`mamba_ssm/ops/triton/ssd_combined.py`, `_mamba_chunk_scan_combined_fwd`): a convolution of few
taps, sums of the steps, the chunks' states in float32, passing them on, C B^T of every chunk and
group in float32, the scan, and a gated norm. The backward pass computes all but scan and norm
again, and has a kernel for each gradient (`_mamba_chunk_scan_combined_bwd`).

Each kernel moves what it takes and gives, once: what the heads of a group share comes from the L2
after the first. Its products run at what Triton's reach (`triton_launch`). So long each would take
at best; what share of that it reaches on an H200 is measured (`state_space.<kernel>.share`, written
by benchmarks/fit/state_space.py from validation/recordings/h200/state_space.csv.gz): from a third
(the gated norm backwards, whose blocks hold few rows) to nearly all. Sizes that the fit has not
seen, states of 256 and chunks of 256, come out within a fifth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, hypot

from gpuscope.cost.bandwidth import Launch, kernel
from gpuscope.cost.matmul.machine import machine_for, rate_and_unit
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.triton_launch import DOT_SHARE
from gpuscope.cost.types import Kernel, Kind, Limiter
from gpuscope.program.types import TensorSpec

_INTERVAL = 1.25
"""How many times too long or too short: of sizes that the shares were not fitted to."""

_WIDE = 4.0
"""Bytes of a float32."""

_SMALL = ("flip", "cumsum", "flip", "add", "add", "add")
"""Steps of PyTorch's own on a float32 a token and head, at the end of the backward pass."""


@dataclass(frozen=True, slots=True)
class _Scan:
    """Sizes of a rank's mixer.

    Attributes:
        tokens: of all sequences.
        heads, head, state, groups, chunk: as `StateSpace` has them.
        channels: that are convolved.
        item: bytes of an element.
    """

    tokens: float
    heads: int
    head: int
    state: int
    groups: int
    chunk: int
    channels: int
    item: float

    @property
    def values(self) -> float:
        """Bytes of what the heads take or give."""
        return self.tokens * self.heads * self.head * self.item

    @property
    def shared(self) -> float:
        """Bytes of B, or of C."""
        return self.tokens * self.groups * self.state * self.item

    @property
    def again(self) -> float:
        """Bytes of B, or of C, read for every head after the first of its group."""
        return self.shared * (self.heads / self.groups - 1)

    @property
    def states(self) -> float:
        """Elements of the states of all chunks."""
        return self.chunks * self.heads * self.head * self.state

    @property
    def chunks(self) -> float:
        """Of all sequences."""
        return ceil(self.tokens / self.chunk)

    @property
    def steps(self) -> float:
        """Bytes of a float32 a token and head."""
        return self.tokens * self.heads * _WIDE

    @property
    def squares(self) -> float:
        """Bytes of C B^T: a float32 a pair of tokens of a chunk, a group."""
        return self.chunks * self.groups * self.chunk**2 * _WIDE

    @property
    def state_flops(self) -> float:
        """Of a product between heads' values and states."""
        return 2.0 * self.tokens * self.heads * self.head * self.state

    @property
    def within_flops(self) -> float:
        """Of a product between heads' values and the lower half of a chunk's pairs."""
        return self.tokens * self.heads * self.head * (self.chunk + 1)

    @property
    def pair_flops(self) -> float:
        """Of the products of B with C."""
        return 2.0 * self.tokens * self.groups * self.state * self.chunk


@dataclass(frozen=True, slots=True)
class _Step:
    """A kernel: bytes from memory and from the L2, bytes written, FLOPs of products."""

    name: str
    read: float
    written: float
    hot: float = 0.0
    flops: float = 0.0
    kind: Kind = "other"


def _sizes(work: Work, projected: TensorSpec, conv_weight: TensorSpec, a_log: TensorSpec) -> _Scan:
    args = work.op.args
    heads, channels = a_log.numel, conv_weight.shape[0]
    head, state, chunk = (int(args[name]) for name in ("head", "state", "chunk"))  # type: ignore[call-overload]
    return _Scan(
        tokens=projected.numel / projected.shape[-1],
        heads=heads,
        head=head,
        state=state,
        groups=(channels - heads * head) // (2 * state),
        chunk=min(chunk, projected.shape[-2]),
        channels=channels,
        item=projected.itemsize,
    )


def _prepared(s: _Scan) -> Iterator[_Step]:
    """What both passes begin with: convolved channels, summed steps, the states of all chunks."""
    mixed = s.tokens * s.channels * s.item
    yield _Step("causal_conv1d_fwd", mixed, mixed)
    yield _Step("chunk_cumsum_fwd", s.tokens * s.heads * s.item, 2 * s.steps)
    yield _Step(
        "chunk_state_fwd",
        s.values + s.shared + 2 * s.steps,
        s.states * _WIDE,
        s.again,
        s.state_flops,
        "matmul",
    )


def forward_steps(s: _Scan) -> Iterator[_Step]:
    """Kernels of the forward pass, in their order."""
    yield from _prepared(s)
    yield _Step("state_passing_fwd", s.states * _WIDE, s.states * s.item)
    yield _Step("bmm_chunk_fwd", 2 * s.shared, s.squares, 0.0, s.pair_flops, "matmul")
    read = s.values + s.shared + s.squares + 2 * s.steps + s.states * s.item
    hot = s.again + s.squares * (s.heads / s.groups - 1)
    flops = s.state_flops + s.within_flops
    yield _Step("chunk_scan_fwd", read, s.values, hot, flops, "matmul")
    yield _Step("gated_norm_fwd", 2 * s.values, s.values, kind="normalization")


def backward_steps(s: _Scan) -> Iterator[_Step]:
    """Kernels of the backward pass, in their order."""
    mixed, pairs = s.tokens * s.channels * s.item, s.squares * (s.heads / s.groups - 1)
    wide, narrow = s.states * _WIDE, s.states * s.item
    both = s.values + s.shared + 2 * s.steps
    yield _Step("gated_norm_bwd", 3 * s.values, 2 * s.values, kind="normalization")
    yield from _prepared(s)
    yield _Step("state_passing_fwd", wide, wide)
    yield _Step("bmm_chunk_fwd", 2 * s.shared, s.squares, 0.0, s.pair_flops, "matmul")
    yield _Step("chunk_scan_bwd_dstates", both, wide, s.again, s.state_flops, "matmul")
    yield _Step("state_passing_bwd", 2 * wide, 2 * narrow)
    yield _Step(
        "chunk_scan_chunk_state_bwd_dx",
        both + s.values + s.squares + narrow,
        s.values + s.steps,
        s.again + pairs,
        s.state_flops + s.within_flops,
        "matmul",
    )
    for name in ("chunk_state_bwd_db", "chunk_scan_bwd_dC"):
        sums = s.shared * _WIDE / s.item  # in float32; a program has all heads of a group
        yield _Step(
            name, both + s.shared + narrow, sums + s.steps, s.again, s.state_flops, "matmul"
        )
        yield _Step("sum", sums, sums, kind="reduction")
    taken = 2 * s.values + 2 * s.steps
    yield _Step("chunk_scan_bwd_dcb", taken, s.squares, 0.0, s.within_flops, "matmul")
    yield _Step("sum", s.squares, s.squares, kind="reduction")
    for name in ("bmm_chunk_bwd_db", "bmm_chunk_bwd_dc"):
        read = s.squares + s.shared + s.shared * _WIDE / s.item
        yield _Step(name, read, s.shared, 0.0, s.pair_flops, "matmul")
    yield _Step("chunk_scan_bwd_ddAcs", taken + s.squares, s.steps, pairs, s.within_flops, "matmul")
    for name in _SMALL:
        yield _Step(name, s.steps, s.steps, kind="pointwise")
    yield _Step("chunk_cumsum_bwd", 3 * s.steps, s.tokens * s.heads * s.item)
    yield _Step("causal_conv1d_bwd", 2 * mixed, mixed)


def _kernel(work: Work, step: _Step, s: _Scan, dtype: str) -> Kernel:
    blocks = max(1, ceil(s.chunks * s.heads)) if step.flops else 0
    made = kernel(
        work,
        Launch(
            step.name,
            step.kind,
            step.read,
            step.hot,
            step.written,
            least_bytes=step.read + step.written,
            grid=blocks or max(1, ceil((step.read + step.written) / 8192)),
            streaming=True,
            dtype=dtype,
        ),
    )
    compute_s = 0.0
    if step.flops:
        peak, _ = rate_and_unit(work.device, dtype)
        reached = machine_for(work.device, work.constants, dtype, "matmul", 16).efficiency
        compute_s = step.flops / (peak * min(reached, 1.0) * DOT_SHARE)
    best_s = hypot(made.duration_s, compute_s)  # products and loads overlap, but not all along
    seconds = best_s / work.constants.value(f"state_space.{step.name}.share", "state_space.share")
    limiter: Limiter = "tensor_core" if compute_s > made.duration_s else made.limiter
    return replace(
        made,
        duration_s=seconds,
        low_s=seconds / _INTERVAL,
        high_s=seconds * _INTERVAL,
        flops=step.flops,
        compute_s=max(compute_s, made.compute_s),
        limiter=limiter,
        origin="calibrated" if work.constants.calibrated else "estimated",
    )


@kernel_model("gpuscope_networks::state_space")
def state_space(work: Work) -> tuple[Kernel, ...]:
    """The forward pass."""
    projected, conv_weight, _, _, a_log = work.op.inputs[:5]
    s = _sizes(work, projected, conv_weight, a_log)
    return tuple(_kernel(work, step, s, projected.dtype) for step in forward_steps(s))


@kernel_model("gpuscope_networks::state_space_backward")
def state_space_backward(work: Work) -> tuple[Kernel, ...]:
    """Gradients of everything, much of the forward pass computed again."""
    _, projected, _, conv_weight, _, _, a_log = work.op.inputs[:7]
    s = _sizes(work, projected, conv_weight, a_log)
    return tuple(_kernel(work, step, s, projected.dtype) for step in backward_steps(s))
