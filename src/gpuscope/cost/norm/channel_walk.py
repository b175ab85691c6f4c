"""Blocks that walk one channel or group each, as batch norm and group norm do; what both share."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from gpuscope.cost.bandwidth import Launch, first_dtype, kernel, machine, missed_share
from gpuscope.cost.norm.channel_blocks import Walk
from gpuscope.cost.registry import Work
from gpuscope.cost.types import Kernel
from gpuscope.document.text import Text
from gpuscope.program.types import TensorSpec


def shape_of(spec: TensorSpec) -> tuple[int, int, int]:
    """Batch, channels, pixels."""
    if len(spec.shape) < 2:
        return 1, spec.numel, 1
    return spec.shape[0], spec.shape[1], prod(spec.shape[2:])


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of a pass: read from memory, read from the L2, written."""

    read: float
    hot: float
    out: float = 0.0

    @property
    def parts(self) -> tuple[float, float, float]:
        """All three in that order."""
        return self.read, self.hot, self.out


def blocks_kernel(
    work: Work,
    name: str,
    spec: TensorSpec,
    moved: Traffic,
    cycles: float,
    cut: tuple[int, int],
    chain_s: float,
    loads: float = 1.0,
    streaming: bool = False,
    note: Text | str = "",
) -> Kernel:
    """A batch norm's pass over a tensor by blocks that are not a channel each.

    Args:
        work: the operator.
        name: of the kernel.
        spec: the tensor.
        moved: its bytes.
        cycles: clocks a value.
        cut: blocks, and threads of each.
        chain_s, loads, streaming, note: see `gpuscope.cost.bandwidth.Launch`.
    """
    return kernel(
        work,
        Launch(
            name,
            "normalization",
            moved.read,
            moved.hot,
            moved.out,
            items=spec.numel,
            cycles=cycles,
            grid=cut[0],
            block=cut[1],
            loads=loads,
            streaming=streaming,
            chain_s=chain_s,
            dtype=spec.dtype,
            family="normalization.batch",
            note=note,
        ),
    )


KEPT_BYTES = 128 * 1024
"""What a block of cuDNN's single-reading kernels keeps of its channel, in registers and shared
memory: 12,544 values of float32 and of their gradients, not 25,088; forward 25,088, not 50,176; in
float16 twice as many (kernel names of recorded steps)."""


def paired(work: Work, key: str, values: float) -> bool:
    """Whether cuDNN works on pairs of half-precision values: where it keeps a channel, or last."""
    if "library" not in key or first_dtype(work) != "float16":
        return False
    kept = 2 * values * (2 if "backward" in key else 1)
    return "nhwc" in key or kept <= KEPT_BYTES


def channel_walk(
    work: Work,
    name: str,
    key: str,
    values: float,
    channels: int,
    resident: int,
    read: float,
    hot: float,
    out: float,
    block: int = 512,
    way: Walk | None = None,
    again: bool = False,
) -> Kernel:
    """A block a channel that walks `values` values of it, evenly or as `way` says.

    `again`: and walks them a second time, from the L2 unless all blocks' data outgrow it.

    Constants: clocks a value where blocks share a multiprocessor (`cycles`); dependent loads a step
    of `block` values (`load`) and seconds a value (`value_s`) where a block is alone; seconds a
    block (`base_s`).
    """
    get = work.constants.value
    pairs = get("normalization.batch.library.half") if paired(work, key, values) else 1.0
    steps = way.steps if way else ceil(values / block)
    loads = steps * get(f"normalization.batch.{key}.load") * pairs
    second = 0.0
    if again:
        m = machine(work)
        missed = missed_share(m, (read + hot) / 2 / channels, channels, resident)
        second = loads * (m.l2_latency_s + missed * (m.latency_s - m.l2_latency_s))
    return kernel(
        work,
        Launch(
            name,
            "normalization",
            read,
            hot,
            out,
            items=(way.lanes if way else values) * channels,
            cycles=get(f"normalization.batch.{key}.cycles") * pairs,
            grid=channels,
            block=block,
            resident=resident,
            chain_s=get(f"normalization.batch.{key}.base_s")
            * (get("normalization.group.warp_base") if block == 32 else 1.0)
            + values * get(f"normalization.batch.{key}.value_s") * pairs
            + second,
            loads=loads,
            dtype=first_dtype(work),
            family="normalization.batch",
            note=Text("one block for each of {channels} channels", channels=channels),
        ),
    )


def small_kernel(work: Work, name: str) -> Kernel:
    """A kernel over the channels only: its launch is all that counts."""
    return kernel(work, Launch(name, "normalization", written_bytes=4096.0, chain_s=0.2e-6))


def float_weights(work: Work) -> bool:
    """Whether weights, bias and statistics are all float32."""
    return {t.dtype for t in work.op.inputs if len(t.shape) == 1} == {"float32"}
