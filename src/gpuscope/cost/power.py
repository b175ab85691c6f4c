"""Power of a device at work, and the clock that a power limit leaves.

    power x period = power at rest x period
        + sum over kernels of   active power x time x share of multiprocessors that hold blocks
                                energy per FLOP (by dtype) x FLOPs      matrix units
                                vector power x time spent issuing       all other kernels
                                energy per byte x device-memory bytes
                                energy per L2 byte x bytes found in L2  all other kernels

A multiprocessor that holds a block draws about 1 W whatever the block does: one that only spun
drew 1.1 W on an H200, and 1.3 W each is what loads that fill all 132 have in common. A stream of
tiny kernels draws 2 to 5 W above rest: their blocks are gone before they count. Arithmetic
costs more per operation at a higher clock, whose voltage is higher: energy(f) = energy(f0) x
(f / f0)^k, where f0 is the clock that a lone kernel of its kind runs at (a dense product pulls the
clock below its maximum even with power to spare). Memory has its own clock and costs the same at
any.

At the power limit a device lowers the clock of its multiprocessors until the average power holds.
The controller of an H200 acts about every 100 ms, longer than most steps, so that the average over
the step decides. Kernels that wait for memory keep their time.

The constants come from steady loads of one operator each on an H200 (`benchmarks/fit/power.py`).
Powers and energies per FLOP are kept as shares of the board power (an energy per FLOP as the share
drawn at the dense peak), which carries them to other devices in proportion to their board power:
an assumption that nobody has checked. Bytes are charged by the kind of memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import islice
from typing import Protocol

import numpy as np
import numpy.typing as npt

from gpuscope.cost.identity import Same
from gpuscope.cost.types import MATRIX, CostedOp, CostedProgram, Kernel, larger_limiter
from gpuscope.document.quantities import Hertz, Percent, Watts
from gpuscope.document.text import Text
from gpuscope.errors import UnknownNameError, UnsupportedError
from gpuscope.hardware import Device
from gpuscope.hardware import device as catalogue_device
from gpuscope.hardware.device import rate_name

START_S = 1e-6
"""Of a kernel's time, what passes before its blocks run and after: no multiprocessor is active."""

MATRIX_KINDS: frozenset[str] = MATRIX
"""Kernel families that are charged by FLOP; all others by the time that they issue for, and so are
depthwise convolutions, which have no matrix tile."""

PJ_PER_BIT: tuple[tuple[str, float], ...] = (
    ("HBM2E", 6.0),
    ("HBM2", 3.92),
    ("HBM", 6.0),
    ("GDDR6X", 7.25),
    ("GDDR", 7.5),
)
"""Energy of moving one bit in the memory itself, by how its name begins; newer HBM as HBM2E.
Micron's memory comparison: 6.0 pJ/bit for HBM2E, 7.25 for GDDR6X, 7.5 for GDDR6 as average device
power; O'Connor et al., MICRO 2017: 3.92 for HBM2."""

OTHER_PJ_PER_BIT = 6.0
"""For memory types without a published figure (LPDDR and others): that of HBM2E."""

LOWEST_CLOCK = 0.2
"""Least share of the boost clock considered (an H200 goes down to 345 of 1980 MHz)."""

_LIKE = {"fp16": "bf16", "int8": "fp8", "fp4": "fp8", "int4": "fp8", "fp64": "fp32"}
"""Which dtype's share serves one that has none of its own."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Named(Protocol):
    """Named constants: a `Calibration`, or a kernel model's `Constants`."""

    def value(self, *names: str) -> float:
        """Return the first of the constants that is known."""
        ...


@dataclass(frozen=True)
class PowerModel:
    """What work costs on one device. A what-if device keeps the physics of the real one.

    Attributes:
        device: may be a what-if; its `tdp_w` is the limit.
        constants: calibrated ones, as shares.
        reference: the catalogue's device, whose board power the shares belong to.
        board_w: its board power.
    """

    device: Device
    constants: Named
    reference: Device
    board_w: float
    _flop_pj: dict[str, float] = field(default_factory=dict)

    def _constant(self, name: str) -> float:
        return self.constants.value(name)

    @cached_property
    def idle_w(self) -> float:
        """Power with a context open and nothing running, clocks up."""
        shared = self._constant("power.idle_share") * self.board_w
        return max(shared, self.reference.idle_power_w or 0.0)

    @cached_property
    def active_w(self) -> float:
        """Power above rest of multiprocessors that all hold blocks, whatever these do."""
        return self._constant("power.active_share") * self.board_w

    @cached_property
    def vector_w(self) -> float:
        """Power of multiprocessors that issue vector instructions all the time, above active."""
        return self._constant("power.vector_share") * self.board_w

    @cached_property
    def pj_per_byte(self) -> float:
        """Energy of a byte between device memory and multiprocessor."""
        return self._constant("power.byte_factor") * self._memory_pj_per_byte

    @cached_property
    def pj_per_l2_byte(self) -> float:
        """Energy of a byte between L2 and multiprocessor."""
        return self._constant("power.l2_byte_factor") * self._memory_pj_per_byte

    @cached_property
    def _memory_pj_per_byte(self) -> float:
        memory = (self.reference.memory_type or "").upper()
        known = (pj for name, pj in PJ_PER_BIT if memory.startswith(name))
        return 8 * next(known, OTHER_PJ_PER_BIT)

    @cached_property
    def exponent(self) -> float:
        """k of energy(f) = energy(f0) (f / f0)^k."""
        return self._constant("power.voltage_exponent")

    @cached_property
    def limit_w(self) -> float:
        """Average power that the device holds under its limit (an H200: 1 to 2 % below it)."""
        share = min(1.0, self._constant("power.limit_share"))
        return share * (self.device.tdp_w or self.board_w)

    def pj_per_flop(self, dtype: str) -> float:
        """Energy of a FLOP of a plain product, at the clock of a lone kernel.

        A dtype that the device has no rate for costs what the next wider one does; 0 where no
        rate is known at all.
        """
        if dtype not in self._flop_pj:
            self._flop_pj[dtype] = self._look_up_flop(rate_of(dtype))
        return self._flop_pj[dtype]

    def _look_up_flop(self, rate: str) -> float:
        for name in dict.fromkeys((rate, "fp16", "bf16", "fp32")):
            peak = self._peak(name)
            if peak:
                like = "tf32" if name == "fp32" and not self._on_lanes(name) else name
                share = self._by_rate("power.flop_share", like)
                return share * self.board_w / peak * 1e12
        return 0.0

    def _peak(self, rate: str) -> float | None:
        try:
            return self.reference.peak_flops_per_s(rate, tensor_core=not self._on_lanes(rate))
        except UnsupportedError:
            return None

    def _on_lanes(self, rate: str) -> bool:
        """Whether products run on the vector lanes: float32, but for CDNA's matrix units."""
        return rate == "fp32" and "fp32_tensor" not in dict(self.reference.peaks)

    def _by_rate(self, name: str, rate: str) -> float:
        return self.constants.value(f"{name}.{rate}", f"{name}.{_LIKE.get(rate, 'bf16')}")

    def clock_share(self, kernel: Kernel) -> float:
        """Clock that the kernel alone runs at, over the boost clock: what its duration implies.

        Dense products run below the boost clock, the more so the longer they last
        (`throttle` and `throttle_s` of `gpuscope.cost.matmul.gemm`, which their durations contain).
        """
        rate = rate_of(kernel.dtype)
        if kernel.kind not in ("matmul", "convolution") or kernel.flops <= 0 or rate == "fp32":
            return 1.0
        share = self._by_rate("power.clock_share", rate)
        throttle = self.constants.value(f"matmul.{rate}.throttle", "gemm.throttle")
        half_s = self.constants.value(f"matmul.{rate}.throttle_s", "gemm.throttle_s")
        return share / (1.0 + throttle * kernel.compute_s / (kernel.compute_s + half_s))

    def active_s(self, kernel: Kernel) -> float:
        """Time of the kernel that its blocks run, times the share of multiprocessors they fill."""
        run_s = max(kernel.duration_s - START_S, kernel.compute_s, kernel.memory_s)
        units = self.reference.compute_units
        if not units or kernel.grid <= 1:  # 1: not stated by the kernel's model
            return run_s
        return run_s * min(1.0, max(kernel.waves, kernel.grid / units))

    def work_j(self, kernel: Kernel) -> tuple[float, float]:
        """Joules of a kernel above rest, at its own clock: (arithmetic and L2, device memory)."""
        moved = kernel.read_bytes + kernel.written_bytes
        arithmetic = self.active_w * self.active_s(kernel)
        if on_matrix_units(kernel):
            factor = self.constants.value(f"power.flop_factor.{kernel.kind}")
            arithmetic += kernel.flops * factor * self.pj_per_flop(kernel.dtype) * 1e-12
        else:
            found_in_l2 = max(0.0, kernel.least_bytes - moved)
            issuing_s = min(kernel.compute_s, kernel.duration_s)
            arithmetic += issuing_s * self.vector_w + found_in_l2 * self.pj_per_l2_byte * 1e-12
        return arithmetic, moved * self.pj_per_byte * 1e-12


def on_matrix_units(kernel: Kernel) -> bool:
    """Whether a kernel is charged by FLOP: of a matrix family, and not a depthwise convolution."""
    depthwise = kernel.kind == "convolution" and not kernel.tile
    return kernel.kind in MATRIX_KINDS and not depthwise


@lru_cache(maxsize=256)
def rate_of(dtype: str) -> str:
    """The rate that a dtype is computed at; "fp32" for those that have none of their own."""
    try:
        return rate_name(dtype)
    except UnknownNameError:
        return "fp32"  # bool, int64, complex: the vector lanes


def power_model(device: Device, constants: Named) -> PowerModel | None:
    """The power model of a device; None where the catalogue states no board power for it."""
    try:
        reference = catalogue_device(device.id)
    except UnknownNameError:
        reference = device
    board_w = reference.tdp_w or device.tdp_w
    if board_w is None:
        return None
    return PowerModel(device, constants, reference, board_w)


@dataclass(frozen=True, slots=True)
class SteadyState:
    """A device that repeats one step for long.

    Attributes:
        clock_share: cap on the clock over the boost clock; 1 where nothing is limited.
        average_w: power over the step at that clock.
        period_s: the step at that clock, for the average: the device's work with the gaps between
            kernels, or the host's work where that is longer.
        stretch: for each kernel of each operator in order, time over time alone.
    """

    clock_share: float
    average_w: float
    period_s: float
    stretch: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class StepEnergy:
    """Joules of one step on one device, at the clock that its power limit leaves.

    Attributes:
        idle_j: at rest, over the whole step.
        active_j: of kernels outside the matrix families, beside device memory.
        compute_j: of kernels of the matrix families, beside device memory.
        memory_j: by bytes of device memory.
    """

    idle_j: float
    active_j: float
    compute_j: float
    memory_j: float

    @property
    def total_j(self) -> float:
        """All parts together."""
        return self.idle_j + self.active_j + self.compute_j + self.memory_j


def step_energy(
    alone: CostedProgram, device: Device, constants: Named, step_s: float
) -> StepEnergy | None:
    """Return the energy of a step; None where the catalogue states no board power.

    Args:
        alone: kernels as they run alone, at the full clock.
        device: its `tdp_w` is the limit, which the average over the step never exceeds.
        constants: calibrated ones; see the module.
        step_s: the step, waits for the host and for other ranks included: there the device rests.
    """
    loaded = _loaded(Same(alone), Same(device), Same(constants))
    if loaded is None or step_s <= 0:
        return None
    model, load, steady = loaded
    work_j = load.work_j(steady.clock_share)
    idle_j = model.idle_w * step_s
    room_j, above_j = max(0.0, model.limit_w * step_s - idle_j), sum(work_j)
    factor = min(1.0, room_j / above_j) if above_j > 0 else 1.0
    return StepEnergy(idle_j, *(factor * part for part in work_j))


def steady_state(costed: CostedProgram, model: PowerModel) -> SteadyState:
    """The clock at which the average power of a step is what the device holds."""
    return _steady(_Load(costed, model), model)


@lru_cache(maxsize=8)
def _loaded(
    costed: Same[CostedProgram], device: Same[Device], constants: Same[Named]
) -> tuple[PowerModel, _Load, SteadyState] | None:
    """A step's load and its clock, which its limit and its energy have in common."""
    model = power_model(device.value, constants.value)
    if model is None:
        return None
    load = _Load(costed.value, model)
    return model, load, _steady(load, model)


def _steady(load: _Load, model: PowerModel) -> SteadyState:
    if load.average_w(1.0) <= model.limit_w:
        return SteadyState(1.0, load.average_w(1.0), load.period_s(1.0), load.stretches(1.0))
    low, high = LOWEST_CLOCK, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if load.average_w(middle) <= model.limit_w else (low, middle)
    return SteadyState(low, load.average_w(low), load.period_s(low), load.stretches(low))


def _rows(costed: CostedProgram) -> tuple[list[Kernel], Ints, Floats, Ints]:
    """Distinct kernels; which of them each row is; how often a row runs; the row of each launch.

    Equal operators share their kernels: each distinct kernel is one row. Where those of one
    operator were corrected apart, each of its launches is.
    """
    number: dict[int, int] = {}
    kernels: list[Kernel] = []
    place: dict[int, int] = {}
    lists: list[Ints] = []
    repeats: list[float] = []
    order: list[int] = []
    for item in costed.ops:
        if not item.kernels:
            continue
        at = place.setdefault(id(item.kernels), len(lists))
        if at == len(lists):
            for kernel in item.kernels:
                if number.setdefault(id(kernel), len(kernels)) == len(kernels):
                    kernels.append(kernel)
            lists.append(np.array([number[id(k)] for k in item.kernels], np.int64))
            repeats.append(0.0)
        repeats[at] += item.op.repeat
        order.append(at)
    if not lists:
        none = np.zeros(0, np.int64)
        return [], none, np.zeros(0), none
    lengths = [len(each) for each in lists]
    launched, often = np.concatenate(lists), np.repeat(np.array(repeats), lengths)
    if costed.apart:
        ends = np.cumsum(lengths)
        rows = [np.arange(end - length, end) for end, length in zip(ends, lengths, strict=True)]
        return kernels, launched, often, np.concatenate([rows[at] for at in order])
    occurrences = np.concatenate([lists[at] for at in order])
    rows_of = np.arange(len(kernels), dtype=np.int64)
    return kernels, rows_of, np.bincount(launched, often).astype(np.float64), occurrences


class _Load:
    """The kernels of a step as columns."""

    def __init__(self, costed: CostedProgram, model: PowerModel) -> None:
        self._idle_w, self._exponent = model.idle_w, model.exponent
        kernels, of_row, repeat, self._occurrences = _rows(costed)

        def column(values: list[float]) -> Floats:
            return np.array(values, np.float64)[of_row]

        # Copies over a link and collectives run beside the kernels: they keep their time.
        self._repeat = repeat * column([k.lane == "compute" for k in kernels])
        self._duration = column([k.duration_s for k in kernels])
        self._compute = column([k.compute_s * (k.lane == "compute") for k in kernels])
        self._memory = column([k.memory_s for k in kernels])
        self._own_clock = column([model.clock_share(k) for k in kernels])
        energies = [model.work_j(k) for k in kernels]
        self._arithmetic_j = column([arithmetic for arithmetic, _ in energies])
        self._matrix = np.array([k.kind in MATRIX_KINDS for k in kernels], np.bool_)[of_row]
        self._memory_j = float((self._repeat * column([memory for _, memory in energies])).sum())
        self._gaps_s = float(self._repeat.sum()) * costed.kernel_gap_s
        self._host_s = (
            0.0
            if costed.graph
            else sum(
                item.op.repeat
                * (
                    item.host.before_s
                    + item.host.after_s
                    + len(item.kernels) * item.host.per_launch_s
                )
                for item in costed.ops
            )
        )

    def _slowed(self, clock_share: float) -> Floats:
        """Own clock over the clock under a cap, by kernel; at least 1."""
        return np.maximum(self._own_clock / clock_share, 1.0)

    def _durations_s(self, clock_share: float) -> Floats:
        limited = np.maximum(self._compute * self._slowed(clock_share), self._memory)
        return self._duration + limited - np.maximum(self._compute, self._memory)

    def stretches(self, clock_share: float) -> tuple[float, ...]:
        """Time under a cap on the clock over time alone, by kernel."""
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = self._durations_s(clock_share) / self._duration
        ratio = np.where(self._duration > 0, ratio, 1.0)
        return tuple(ratio[self._occurrences].tolist())

    def period_s(self, clock_share: float) -> float:
        """The step under a cap on the clock, without synchronisations."""
        # Not `@`: a BLAS splits long rows among threads, slower here and rounded by their number.
        busy_s = float((self._repeat * self._durations_s(clock_share)).sum())
        return max(busy_s + self._gaps_s, self._host_s)

    def average_w(self, clock_share: float) -> float:
        """Power over the step under a cap on the clock."""
        period_s = self.period_s(clock_share)
        if period_s <= 0:
            return self._idle_w
        return self._idle_w + sum(self.work_j(clock_share)) / period_s

    def work_j(self, clock_share: float) -> tuple[float, float, float]:
        """Joules above rest under a cap on the clock: vector kernels, matrix families, memory."""
        arithmetic = self._arithmetic_j * self._slowed(clock_share) ** -self._exponent
        joules = self._repeat * arithmetic
        matrix_j = float(joules[self._matrix].sum())
        return float(joules[~self._matrix].sum()), matrix_j, self._memory_j


def limit_power(costed: CostedProgram, device: Device, constants: Named) -> CostedProgram:
    """Stretch kernels to the clock that the device's power limit leaves in steady state.

    A kernel's new time is max(arithmetic x own clock / clock left, memory) plus what neither
    explains; memory-bound kernels keep theirs.

    Args:
        costed: kernels as they run alone.
        device: its `tdp_w` is the limit; without one nothing changes.
        constants: calibrated ones; see the module.

    Returns:
        `costed` itself where the limit does not bind; else a copy with stretched kernels and one
        more assumption that names the clock.
    """
    loaded = _loaded(Same(costed), Same(device), Same(constants))
    if loaded is None:
        return costed
    _, _, steady = loaded
    if steady.clock_share >= 1.0:
        return costed
    stretches = iter(steady.stretch)
    made: dict[int, Kernel] = {}
    lists: dict[int, tuple[Kernel, ...]] = {}

    def slowed(kernel: Kernel, stretch: float) -> Kernel:
        found = made.get(id(kernel))
        if found is None:
            found = made[id(kernel)] = _stretched(kernel, stretch)
        return found

    def all_slowed(kernels: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
        own = list(islice(stretches, len(kernels)))
        found = lists.get(id(kernels))
        if found is None:
            found = lists[id(kernels)] = tuple(map(slowed, kernels, own))
        return found

    ops = tuple(CostedOp(item.op, all_slowed(item.kernels), item.host) for item in costed.ops)
    return replace(costed, ops=ops, assumptions=(*costed.assumptions, _sentence(device, steady)))


def _stretched(kernel: Kernel, stretch: float) -> Kernel:
    if stretch <= 1.0:
        return kernel
    more_s = kernel.duration_s * (stretch - 1.0)
    compute_s = max(kernel.compute_s, kernel.memory_s) + more_s
    return kernel.lasting(
        kernel.duration_s * stretch,
        limiter=larger_limiter(kernel.limiter, kernel.kind, compute_s, kernel.memory_s),
        compute_s=compute_s,
        throttled_s=kernel.throttled_s + more_s,
    )


_LOWERED = "The power limit of {limit} lowers the clock to about {clock} in this step."


def clocks_together(assumptions: Iterable[str]) -> tuple[str, ...]:
    """Return assumptions once each; ranks whose clocks differ under one limit say so in one."""
    said = tuple(dict.fromkeys(assumptions))
    clocks = [a for a in said if isinstance(a, Text) and a.template == _LOWERED]
    found = [c.value for a in clocks if isinstance(c := a.values["clock"], Hertz) and c.value]
    if len(found) < 2:
        return said
    both = Text(
        "The power limit of {limit} lowers the clock in this step, by rank, to about {low} to "
        "{high}.",
        limit=clocks[0].values["limit"],
        low=Hertz(min(found)),
        high=Hertz(max(found)),
    )
    first = said.index(clocks[0])
    kept = [a for a in said if a not in clocks]
    return (*kept[:first], both, *kept[first:])


def _sentence(device: Device, steady: SteadyState) -> Text:
    clock: Text | Hertz = Text("{share} of its maximum", share=Percent(steady.clock_share))
    if device.clock_hz is not None:
        clock = Hertz(steady.clock_share * device.clock_hz)
    return Text(
        "The power limit of {limit} lowers the clock to about {clock} in this step.",
        limit=Watts(device.tdp_w),
        clock=clock,
    )
