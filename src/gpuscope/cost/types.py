"""What an operator becomes on a device: kernels with their work, shape and time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from gpuscope.program.types import Op, Program

Origin = Literal["measured", "calibrated", "datasheet", "secondary source", "estimated", "what-if"]

Scope = Literal["device", "domain", "fabric"]
"""How far a kernel's data goes: not beyond its device, within its scale-up domain, beyond it."""

Limiter = Literal[
    "compute",
    "tensor_core",
    "memory",
    "l2",
    "issue",
    "latency",
    "launch",
    "link",
    "host",
    "unknown",
]

Kind = Literal[
    "matmul",
    "attention",
    "convolution",
    "normalization",
    "reduction",
    "pointwise",
    "gather",
    "sort",
    "copy",
    "optimizer",
    "recurrent",
    "transfer",
    "collective",
    "memset",
    "random",
    "fused",
    "other",
]


@dataclass(frozen=True, slots=True)
class Kernel:
    """One device launch (or copy) that an operator turns into.

    Attributes:
        name: a descriptive symbol ("gemm_bf16_128x256x64_tn", "elementwise_vectorized").
        kind: family, for breakdowns.
        op: index of the first operator in the program that makes this very launch.
        duration_s: expected time on the device, the launch floor included.
        low_s, high_s: 80 % interval of the duration.
        flops: useful floating-point operations (2 per multiply-add), 0 if none.
        read_bytes, written_bytes: bytes that really cross device memory, L2 reuse included.
        least_bytes: the fewest bytes possible (each input read once, each output written once).
        grid: thread blocks launched.
        block: threads in a block.
        tile: block tile, e.g. (128, 256, 64) for M, N, K; () where it means nothing.
        waves: grid / blocks that fit at once (fractional).
        occupancy: resident warps / maximum warps of a multiprocessor, 0..1; None if unknown.
        limiter: what sets the time.
        dtype: compute dtype as torch names it ("tf32" where tensor cores round float32 so).
        compute_s, memory_s: time the arithmetic alone / the memory traffic alone would take.
        origin: where its constants come from.
        lane: "compute" (stream), "copy_h2d", "copy_d2h", or "link".
        stream: device stream id.
        scope: how far its data goes.
        note: why, in a few words, where it helps a reader.
        units: multiprocessors that a collective holds while it runs; 0 for none, and for kernels
            that take what they get.
        algorithm, protocol: of a collective ("ring", "LL128"); "" for anything else.
        sent_bytes: what a rank sends in a collective.
        moving_s: of a collective, the part of its time that grows with the bytes.
        after: places, among its operator's kernels, of earlier ones on other streams that it waits
            for.
        gap_s: added to the least gap before it (`CostedProgram.kernel_gap_s`).
        set_aside: its multiprocessors are kept free for it, so it does not wait for room.
        throttled_s: part of `duration_s` that the board's power limit adds by a lower clock.
        launches: launches that it stands for, timed together (`timeline.pipeline_fold`).
    """

    name: str
    kind: Kind
    op: int
    duration_s: float
    low_s: float
    high_s: float
    flops: float = 0.0
    read_bytes: float = 0.0
    written_bytes: float = 0.0
    least_bytes: float = 0.0
    grid: int = 1
    block: int = 128
    tile: tuple[int, ...] = ()
    waves: float = 0.0
    occupancy: float | None = None
    limiter: Limiter = "unknown"
    dtype: str = ""
    compute_s: float = 0.0
    memory_s: float = 0.0
    origin: Origin = "estimated"
    lane: str = "compute"
    stream: int = 0
    note: str = ""
    units: int = 0
    algorithm: str = ""
    protocol: str = ""
    sent_bytes: float = 0.0
    moving_s: float = 0.0
    after: tuple[int, ...] = ()
    gap_s: float = 0.0
    set_aside: bool = False
    scope: Scope = "device"
    throttled_s: float = 0.0
    launches: int = 1

    def lasting(self, duration_s: float, **changes: Any) -> Kernel:
        """The kernel with a duration of its own, its interval as wide in proportion.

        Args:
            duration_s: what it takes.
            changes: other fields, by name.
        """
        scale = duration_s / self.duration_s
        low_s, high_s = self.low_s * scale, self.high_s * scale
        return replace(self, duration_s=duration_s, low_s=low_s, high_s=high_s, **changes)


MATRIX: frozenset[Kind] = frozenset({"matmul", "attention", "convolution", "recurrent"})
"""Families whose arithmetic is matrix products."""


def larger_limiter(limiter: Limiter, kind: Kind, compute_s: float, memory_s: float) -> Limiter:
    """Return the limiter, or the other one where its own time is the smaller of the two.

    Args:
        limiter: what set the time before `compute_s` or `memory_s` changed.
        kind: of the kernel.
        compute_s, memory_s: as of `Kernel`.
    """
    if limiter == "memory" and compute_s > memory_s:
        return "tensor_core" if kind in MATRIX else "issue"
    if limiter in ("compute", "tensor_core") and memory_s > compute_s:
        return "memory"
    return limiter


@dataclass(frozen=True, slots=True)
class HostCost:
    """Time the host spends to issue one operator, before its launches and for each of them.

    Attributes:
        before_s: Python and framework time before the first launch.
        per_launch_s: time of each launch call.
        after_s: time after the last launch until the next operator can begin.
        sync: "" or why the host then waits for the device.
    """

    before_s: float
    per_launch_s: float
    after_s: float
    sync: str = ""


@dataclass(frozen=True, slots=True)
class CostedOp:
    """One operator with its kernels (in launch order) and its host cost."""

    op: Op
    kernels: tuple[Kernel, ...]
    host: HostCost

    @property
    def host_s(self) -> float:
        """Seconds that the host spends on it, waits for the device left out."""
        return self.host.before_s + self.host.per_launch_s * len(self.kernels) + self.host.after_s


@dataclass(frozen=True, slots=True)
class CostedProgram:
    """A program costed for one device.

    Attributes:
        program: what was captured.
        device_id: catalogue id of the device.
        ops: one entry per operator, same order as `program.ops`.
        host_spread: how much more all host costs together may be, relatively (hosts differ; 80 %
            interval).
        host_faster: how much less; None: as much as more.
        device_spread: relative 80 % half-width of systematic device error (calibration), by kind
            of kernel: kinds err on their own.
        common_spread: relative 80 % half-width of an error that all kernels share, because the
            constants were found on another device.
        launch_latency_s: from the launch call to the kernel's start on an idle device.
        kernel_gap_s: least gap between two kernels that are queued back to back on a stream.
        graph: forward and backward passes are replayed as CUDA graphs (one launch each); only those
            of compiled calls (`Op.region`), where some are marked.
        graph_call_s: host time of a replay besides its launch (guards, copies of arguments), by
            compiled call (0 where none is marked) and phase.
        assumptions: sentences for the user, the program's own included.
        apart: launches of one operator were each corrected on their own, equal ones too: sums over
            a step take them one by one.
    """

    program: Program
    device_id: str
    ops: tuple[CostedOp, ...]
    host_spread: float = 0.5
    device_spread: float = 0.1
    common_spread: float = 0.0
    launch_latency_s: float = 3e-6
    kernel_gap_s: float = 1e-6
    graph: bool = False
    graph_call_s: Mapping[tuple[int, str], float] = field(default_factory=dict)
    assumptions: tuple[str, ...] = field(default_factory=tuple)
    host_faster: float | None = None
    apart: bool = False
