"""The same step on another machine, quickly: only what sets its time, no events.

`gpuscope.predict` draws a timeline and analyses it; a curve over a hundred machines needs neither.
The time is the same to the last digit: the same kernels under the same power limit, walked by the
same rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuscope.cost.anew import costed_anew
from gpuscope.cost.power import MATRIX_KINDS, step_energy
from gpuscope.cost.types import CostedProgram
from gpuscope.document.printable import short_repr
from gpuscope.document.quantities import Seconds
from gpuscope.hardware import Calibration, Cluster, Device, calibration_for
from gpuscope.program.types import Category, Program
from gpuscope.timeline.contention import DeviceOverlap
from gpuscope.timeline.memory import simulate_memory
from gpuscope.timeline.schedule import build_schedule
from gpuscope.timeline.simulate import contended_walk
from gpuscope.timeline.uncertainty import walked_interval
from gpuscope.timeline.walk import walk_steps

STEPS = 3
"""Steps that are walked until the period is steady, as `simulate` does."""


@dataclass(frozen=True, slots=True)
class Recosted:
    """A step on a machine.

    Attributes:
        step_time_s: period of a steady step.
        low_s, high_s: its 80 % interval; None where it was not asked for.
        host_s: the period with another host, one for each factor that was asked for.
        moved_bytes: across device memory.
        matrix_flops: of the matrix families, repeated work included.
        average_w: power over the step; None where the board's power is not known.
        peak_memory_bytes: allocated; None where it was not asked for.
        fits: whether every allocation finds room; None as above.
        at_peak: bytes by category at the peak, largest first; empty as above.
    """

    step_time_s: float
    low_s: float | None
    high_s: float | None
    host_s: tuple[float, ...]
    moved_bytes: float
    matrix_flops: float
    average_w: float | None
    peak_memory_bytes: int | None = None
    fits: bool | None = None
    at_peak: tuple[tuple[Category, int], ...] = ()

    def __repr__(self) -> str:
        return short_repr(self, "", f"step {Seconds(self.step_time_s)}")

    @property
    def energy_j(self) -> float | None:
        """Energy of the step; None where the power is not known."""
        return None if self.average_w is None else self.average_w * self.step_time_s


def recost(
    program: Program,
    device: Device,
    calibration: Calibration | None = None,
    *,
    cluster: Cluster | None = None,
    host_factors: Sequence[float] = (),
    interval: bool = False,
    memory: bool = False,
) -> Recosted:
    """Cost a program anew on a device, a what-if one as well as a real one.

    Args:
        program: as captured, or as `Run.program` has it.
        device: what it runs on.
        calibration: measured constants; the catalogue's own for this device by default.
        cluster: what collectives run on; None: as small a cluster as they need.
        host_factors: also the period with a host that takes so many times as long.
        interval: compute the 80 % interval (four walks more, six with links).
        memory: simulate the memory.

    Raises:
        UnsupportedError: the device lacks a dtype that the program computes in.
    """
    constants = calibration or calibration_for(device)
    made = costed_anew(program, device, constants, cluster)
    costed, overlap = made.costed, DeviceOverlap.of(device, constants)
    schedule = build_schedule(costed)
    walk, used = contended_walk(costed, schedule, STEPS, overlap)

    def period_s(host_scale: float) -> float:
        return walk_steps(
            schedule,
            costed.launch_latency_s,
            STEPS,
            host_scale=host_scale,
            duration_s=used.duration_s,
            held_s=used.held_s,
        ).period_s

    low_s = high_s = None
    if interval:
        low_s, high_s = walked_interval(costed, schedule, walk, used, STEPS)
    peak, fits, at_peak = peak_memory(made.program, device) if memory else (None, None, ())
    step_s = walk.period_s
    moved, flops = work_of(costed)
    return Recosted(
        step_s,
        low_s,
        high_s,
        tuple(period_s(factor) for factor in host_factors),
        moved,
        flops,
        average_w(made.alone, device, constants, step_s),
        peak,
        fits,
        at_peak,
    )


def peak_memory(
    program: Program, device: Device
) -> tuple[int, bool, tuple[tuple[Category, int], ...]]:
    """Most bytes allocated in a step, whether every allocation finds room, and by category."""
    trace = simulate_memory(program, capacity_bytes=device.memory_usable_bytes)
    fits = trace.peak_allocated_bytes <= device.memory_usable_bytes
    return trace.peak_allocated_bytes, fits, trace.at_peak


def work_of(costed: CostedProgram) -> tuple[float, float]:
    """Return the bytes across device memory and the FLOPs of the matrix families of a step."""
    moved = flops = 0.0
    for item in costed.ops:
        for kernel in item.kernels:
            moved += (kernel.read_bytes + kernel.written_bytes) * item.op.repeat
            if kernel.kind in MATRIX_KINDS:
                flops += kernel.flops * item.op.repeat
    return moved, flops


def average_w(
    alone: CostedProgram, device: Device, constants: Calibration, step_s: float
) -> float | None:
    """Power over the step; None where the board's power is not known."""
    found = step_energy(alone, device, constants, step_s)
    return None if found is None else found.total_j / step_s
