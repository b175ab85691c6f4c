"""A measured point beside what a kernel model says of it."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from gpuscope.cost.registry import Constants, Work, model_for
from gpuscope.cost.types import Kernel
from gpuscope.hardware import Calibration, Device, Distance
from gpuscope.hardware.calibration import CalibratedValue
from gpuscope.measurement.bench.types import Point
from gpuscope.measurement.calibrate import memory_operators, product_operators
from gpuscope.program.types import Op

USABLE_L2 = 0.75
"""Share of the L2 that data survives in, as the engine takes it."""

DIRTY_AFTER_FILL = 0.5
"""Share of the L2 that writing a large buffer leaves dirty ("cold"): a cold sum of 400 MB takes 6
to 7 us more than a warm one on an H200, what writing back half of 60 MB takes at 4.7 TB/s."""

DIRTY = {"bandwidth.dirty_share": DIRTY_AFTER_FILL, "matmul.dirty_l2_share": 0.4}
"""Constants that replace the engine's own in state "cold"; in a real step the cache is between."""

CLEAN = {"bandwidth.dirty_share": 0.0}
"""Constants in states "hot" and "cold_clean"."""

STATES = ("hot", "cold", "cold_clean")


@dataclass(frozen=True, slots=True)
class CalibrationCase:
    """A measured call as the operators that it is.

    Attributes:
        point: as measured.
        ops: what it ran.
        settings: switches it ran under.
        clock_share: clock right after over the device's highest one; 1 where not told.
    """

    point: Point
    ops: tuple[Op, ...]
    settings: tuple[tuple[str, bool], ...]
    clock_share: float = 1.0

    @property
    def seconds(self) -> float:
        """Measured, all device events of the call together."""
        assert self.point.median_s is not None
        return self.point.median_s

    @property
    def held_out(self) -> bool:
        """Whether the point judges: a third of them, by a stable hash; states stay together."""
        params = json.dumps(dict(self.point.params), sort_keys=True)
        return zlib.crc32(f"{self.point.bench}{self.point.family}{params}".encode()) % 3 == 0

    def kernels(self, device: Device, constants: Constants) -> list[Kernel]:
        """What the models say the call launches."""
        found: list[Kernel] = []
        at = at_clock(device, round(self.clock_share, 1))
        for op in self.ops:
            model = model_for(op.name)
            if model is not None:
                hot = self._hot(op, device)
                found += model(Work(op, at, constants, self.settings, hot))
        return found

    def _hot(self, op: Op, device: Device) -> tuple[bool, ...]:
        """Which inputs are in L2: none in a cold state, and none that outgrow it."""
        if self.point.state != "hot":
            return (False,) * len(op.inputs)
        parts = {
            s.storage if s.storage >= 0 else -1 - i: s.touched_bytes
            for i, s in enumerate((*op.inputs, *op.outputs))
        }
        fits = sum(parts.values()) < USABLE_L2 * float(device.l2_bytes or 0)
        return (fits,) * len(op.inputs)


@lru_cache(maxsize=64)
def at_clock(device: Device, share: float) -> Device:
    """The device at a share of its clock (limited by power)."""
    if share >= 1.0 or device.clock_hz is None:
        return device
    return device.replace(clock_hz=device.clock_hz * share)


def case_of(point: Point, device: Device) -> CalibrationCase | None:
    """The point as operators; None where no model's operator stands for it, or it has no time."""
    if not point.median_s or point.state not in STATES:
        return None
    try:
        made = _operators(point)
    except (KeyError, ValueError, IndexError):
        return None  # params of another version of the bench
    if made is None or not made[0]:
        return None
    highest = device.clock_hz
    share = min(1.0, point.sm_clock_hz / highest) if point.sm_clock_hz and highest else 1.0
    return CalibrationCase(point, made[0], made[1], share)


def _operators(point: Point) -> product_operators.Made | None:
    family = point.family
    if family in product_operators.BUILDERS:
        return product_operators.BUILDERS[family](family, point.params)
    if family in memory_operators.BUILDERS:
        ops = memory_operators.BUILDERS[family](point.params)
        tf32 = (("tf32_cudnn", point.params.get("dtype") == "tf32"),)
        return (ops, tf32) if ops else None
    return None


def trial(device: Device, values: Mapping[str, float]) -> Constants:
    """Constants with these values, as if measured on the device."""
    entries = sorted(
        (name, CalibratedValue(value, "1", "calibrated", value, value))
        for name, value in values.items()
    )
    return Constants(Calibration(device.id, device.id, Distance.SAME_DEVICE, "", tuple(entries)))


def log_errors(
    cases: Iterable[CalibrationCase], device: Device, values: Mapping[str, float]
) -> list[float]:
    """ln(predicted / measured) of each case; nan where the models say nothing."""
    clean = trial(device, {**values, **CLEAN})
    by_state = {"hot": clean, "cold_clean": clean, "cold": trial(device, {**values, **DIRTY})}
    found = []
    for case in cases:
        predicted = sum(k.duration_s for k in case.kernels(device, by_state[case.point.state]))
        usable = predicted > 0 and math.isfinite(predicted)
        found.append(math.log(predicted / case.seconds) if usable else math.nan)
    return found


class Traced(Constants):
    """Constants that remember what they were asked for.

    Attributes:
        asked: names of values.
        widths: names of spreads.
    """

    def __init__(self, calibration: Calibration) -> None:
        super().__init__(calibration)
        self.asked: set[str] = set()
        self.widths: set[str] = set()

    def spread(self, *names: str) -> float:
        """As `Constants.spread`."""
        self.widths.add(names[0])
        return super().spread(*names)

    def value(self, *names: str) -> float:
        """As `Constants.value`."""
        self.asked.add(names[0])
        return super().value(*names)


def traced(cases: Sequence[CalibrationCase], device: Device, values: Mapping[str, float]) -> Traced:
    """Constants with these values after the models looked them up for these cases."""
    found = Traced(trial(device, {**values, **CLEAN}).calibration)
    for case in cases:
        case.kernels(device, found)
    return found
