"""Triton kernels of the user's own: time from the work that was counted in their code.

The bytes of each tensor come from device memory once, or once for each group of programs that run
at the same time and share them, where all of it outgrows the L2 cache; other requests are served by
L2. `tl.dot` runs on the matrix units at a share of what the vendor's library reaches; other
arithmetic costs instructions. Each round of a loop waits for its loads, less with more pipeline
stages. Of an autotuner's configurations the quickest is taken.

What a compiler makes of the code (registers, layouts, pipelines) is not known, so the intervals are
judgements, wider the more of that matters; nothing here is fitted to a Triton kernel.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from gpuscope.cost.bandwidth import Launch, first_dtype, is_hot, kernel, machine
from gpuscope.cost.matmul.machine import machine_for, rate_and_unit
from gpuscope.cost.registry import Work, kernel_model
from gpuscope.cost.types import Kernel, Limiter
from gpuscope.document.text import Text
from gpuscope.program.triton_blocks.work import BlockWork, Traffic

_LANES = 128
"""Instructions that a multiprocessor finishes in a clock."""

DOT_SHARE = 0.8
"""What Triton's products reach of the vendor's library (a judgement; Triton's own tutorials show
0.75 to 1)."""

_L1_BYTES = 192 * 1024
"""What the programs of a multiprocessor read up to this stays there for the next pass."""

_REGISTERS = 40
"""Registers of a thread beside those of its share of the largest block (a judgement)."""

_INTERVAL = {"stream": 1.35, "loop": 1.6, "dot": 1.6, "data": 2.5}
"""How many times too long or too short, by what decides (judgements)."""

_JOIN = 2.0
"""Exponent of the norm that joins matrix products with everything else."""


@kernel_model("triton::")
def triton_launch(work: Work) -> tuple[Kernel, ...]:
    """One kernel: the quickest of the configurations, or a guess where none was followed."""
    choices = work.op.args.get("work")
    if not isinstance(choices, tuple) or not choices:
        from gpuscope.cost.fallback import bandwidth_bound

        return bandwidth_bound(work)
    return (min((_timed(work, each) for each in choices), key=lambda k: k.duration_s),)


def _timed(work: Work, counted: BlockWork) -> Kernel:
    threads = counted.warps * (work.device.warp_size or 32)
    resident = _resident(work, counted, threads)
    cold, hot = _bytes(work, counted, resident)
    out = sum(t.program_bytes for t in counted.traffic if t.kind == "store")
    atomics = [t for t in counted.traffic if t.kind == "atomic"]
    hot += sum(t.requested_bytes for t in atomics)
    out += sum(t.distinct_bytes for t in atomics)
    dots = bool(counted.dots)
    # A program ends its loop's rounds one after the other; a pipeline of stages loads ahead.
    ahead = max(1, counted.stages - 1) if dots else 1
    if dots:
        hot = 0.0  # part of the product's main loop
    made = kernel(
        work,
        Launch(
            work.op.name.rpartition("::")[2],
            "matmul" if dots else "other",
            cold,
            hot,
            out,
            least_bytes=sum(t.distinct_bytes for t in counted.traffic),
            items=_instructions(work, counted),
            cycles=1.0 / _LANES,
            grid=counted.grid,
            block=threads,
            resident=resident,
            loads=max(1.0, counted.rounds / ahead),
            chain_s=_same_address_s(work, atomics),
            streaming=counted.rounds < 1,
            dtype=first_dtype(work),
            family="triton",
        ),
    )
    tensor_s = _tensor_s(work, counted)
    seconds, limiter = made.duration_s, made.limiter
    if tensor_s:
        rest = max(seconds - machine(work).floor_s, 0.0)
        seconds = machine(work).floor_s + (tensor_s**_JOIN + rest**_JOIN) ** (1 / _JOIN)
        limiter = "tensor_core" if tensor_s > rest else limiter
    return _finished(made, counted, seconds, tensor_s, limiter)


def _finished(
    made: Kernel, counted: BlockWork, seconds: float, tensor_s: float, limiter: Limiter
) -> Kernel:
    """The kernel with its interval, arithmetic and what it rests on."""
    sort = "data" if counted.assumed else "dot" if counted.dots else "loop"
    width = _INTERVAL["stream" if sort == "loop" and counted.rounds < 1 else sort]
    return replace(
        made,
        duration_s=seconds,
        low_s=seconds / width,
        high_s=seconds * width,
        flops=counted.flops + sum(flops for _, flops in counted.dots),
        compute_s=max(made.compute_s, tensor_s),
        limiter=limiter,
        origin="estimated",
        note=Text(
            "counted in its code, {sampled} of {grid} programs: {meta}",
            sampled=counted.sampled,
            grid=counted.grid,
            meta=counted.meta,
        ),
    )


def _resident(work: Work, counted: BlockWork, threads: int) -> int:
    """Programs that fit on a multiprocessor: by threads, registers and shared memory."""
    device, m = work.device, machine(work)
    fits = [m.threads_per_unit // threads if m.threads_per_unit else 8, m.blocks_per_unit]
    if device.registers_per_unit:
        each = min(255, _REGISTERS + counted.widest // threads)
        fits.append(device.registers_per_unit // (each * threads))
    shared = counted.operand_bytes * max(1, counted.stages)
    if shared and device.shared_memory_per_unit_bytes:
        fits.append(device.shared_memory_per_unit_bytes // shared)
    return max(1, min(fits))


def _bytes(work: Work, counted: BlockWork, resident: int) -> tuple[float, float]:
    """Bytes read from device memory, and those read from L2."""
    m = machine(work)
    fits = sum(t.distinct_bytes for t in counted.traffic) <= m.l2_bytes
    at_once = min(counted.grid, m.units * resident)
    cold = hot = 0.0
    for t in (t for t in counted.traffic if t.kind == "load"):
        new = t.distinct_bytes if fits else max(t.distinct_bytes, _read_again(t, at_once))
        again = t.requested_bytes - t.program_bytes  # by the same program
        if t.program_bytes / counted.grid * resident <= _L1_BYTES:
            again = 0.0
        hot += t.program_bytes - new + again
        if is_hot(work, t.tensor):
            hot += new
        else:
            cold += new
    return cold, max(hot, 0.0)


def _read_again(t: Traffic, at_once: int) -> float:
    """Bytes that come from device memory where only programs that run at once share them."""
    if t.gathered or not t.shared:
        return t.distinct_bytes
    shares = [share for count, share in t.shared if count <= at_once]
    return t.program_bytes * (shares[-1] if shares else 1.0)


def _instructions(work: Work, counted: BlockWork) -> float:
    """Instructions of all lanes: arithmetic, loads and stores."""
    moved = sum(t.elements for t in counted.traffic)
    if counted.dots:  # whole blocks are copied to shared memory, 16 bytes at a time
        moved = sum(t.elements for t in counted.traffic if t.kind != "load")
    return counted.instructions + work.constants.value("fused.loaded") * moved


def _same_address_s(work: Work, atomics: list[Traffic]) -> float:
    """Atomics at one address take turns, one a clock."""
    clock = work.device.clock_hz
    if not clock:
        return 0.0
    size = 4.0
    return sum(t.elements / max(t.distinct_bytes / size, 1.0) / clock for t in atomics)


def _tensor_s(work: Work, counted: BlockWork) -> float:
    """Time of the matrix products by themselves."""
    m = machine(work)
    # The busiest multiprocessor has a whole number of programs; a lone long one ends last.
    share = max(ceil(counted.grid / m.units) * m.units, 1) / counted.grid
    if counted.grid <= m.units:
        share *= counted.longest
    total = loaded_s = 0.0
    for dtype, flops in counted.dots:
        peak, _ = rate_and_unit(work.device, dtype)
        library = machine_for(work.device, work.constants, dtype, "matmul", 16)
        total += flops / (peak * min(library.efficiency, 1.0) * DOT_SHARE)
        loaded_s = _operands_bytes(counted) / (library.l2_bytes_per_s * m.units)
    return max(total, loaded_s) * share


def _operands_bytes(counted: BlockWork) -> float:
    return sum(t.program_bytes for t in counted.traffic if t.kind == "load")
