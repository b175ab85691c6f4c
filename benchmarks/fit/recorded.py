"""Read recorded kernel durations, cost the same operators, and fit constants to them."""

from __future__ import annotations

import csv
import gzip
import json
import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import mean, median

from gpuscope.cost.registry import Constants, Work, model_for
from gpuscope.cost.types import Kernel
from gpuscope.hardware import Calibration, Device, Distance
from gpuscope.hardware.calibration import CalibratedValue
from gpuscope.program.types import Op

MICRO = Path(__file__).resolve().parents[2] / "validation" / "recordings" / "h200" / "micro"

MEASURED_WITH = "H200 SXM 700 W, driver 580.159.04, torch 2.11.0+cu130, cuDNN 9.19, 2026-11-21"
MAX_MHZ = 1980.0
"""Highest SM clock of the recorded device."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One measured call in one cache state.

    Attributes:
        bench: which operator.
        params: its sizes, as the bench wrote them.
        state: "hot" or "cold".
        kernels: (name, grid, median seconds) in launch order.
        clock: SM clock over the highest one, read right after; 1 where unknown.
    """

    bench: str
    params: Mapping[str, object]
    state: str
    kernels: tuple[tuple[str, str, float], ...]
    clock: float = 1.0

    @property
    def total_s(self) -> float:
        """All kernels of the call together."""
        return sum(seconds for _, _, seconds in self.kernels)

    @property
    def held_out(self) -> bool:
        """Whether the point is in the half that no constant is tuned on (by a hash)."""
        key = json.dumps([self.bench, dict(self.params)], sort_keys=True)
        return zlib.crc32(key.encode()) % 2 == 0


def read(path: Path) -> list[Recorded]:
    """All calls of a recording, kernels in launch order."""
    found: dict[tuple[str, str, str], list[tuple[str, str, float]]] = {}
    clocks: dict[tuple[str, str, str], float] = {}
    closed: set[tuple[str, str, str]] = set()
    with gzip.open(path, "rt", newline="") as stream:
        for row in csv.DictReader(stream):
            key = (row["bench"], row["params"], row["state"])
            seconds = float(row["median_us"]) * 1e-6 * int(row["count"])
            if row["k"] == "0" and key in found:
                closed.add(key)  # the same point measured twice: the first counts
            if key in closed:
                continue
            clocks[key] = float(row["sm_mhz"] or MAX_MHZ) / MAX_MHZ
            found.setdefault(key, []).append((row["kernel"], row["grid"], seconds))
    return [
        Recorded(*key[:1], json.loads(key[1]), key[2], tuple(kernels), clocks[key])
        for key, kernels in found.items()
    ]


@dataclass(frozen=True, slots=True)
class Case:
    """A recorded call as the operator that it is."""

    recorded: Recorded
    op: Op
    settings: tuple[tuple[str, bool], ...]

    def predicted_s(self, device: Device, constants: Constants) -> float:
        """What the kernel model says, all kernels together."""
        return sum(kernel.duration_s for kernel in self.kernels(device, constants))

    def limiter(self, device: Device, constants: Constants) -> str:
        """What limits the longest of its kernels."""
        return max(self.kernels(device, constants), key=lambda k: k.duration_s).limiter

    def kernels(self, device: Device, constants: Constants) -> tuple[Kernel, ...]:
        """What the kernel model says; operands that outgrow the L2 are cold in any state."""
        model = model_for(self.op.name)
        assert model is not None, self.op.name
        size = sum(t.touched_bytes for t in (*self.op.inputs, *self.op.outputs))
        fits = size < 0.75 * float(device.l2_bytes or 0)
        hot = (self.recorded.state == "hot" and fits,) * len(self.op.inputs)
        work = Work(self.op, device, constants, self.settings, hot)
        return model(work)


def trial(device: Device, values: Mapping[str, float]) -> Constants:
    """Constants with these values, as if measured on the device."""
    entries = sorted(
        (name, CalibratedValue(value, "1", "calibrated", value, value))
        for name, value in values.items()
    )
    return Constants(Calibration(device.id, device.id, Distance.SAME_DEVICE, "", tuple(entries)))


@lru_cache(maxsize=64)
def at_clock(device: Device, share: float) -> Device:
    """The device at a share of its clock (power-limited)."""
    if share == 1.0:
        return device
    return device.replace(clock_hz=device.require("clock_hz") * share)


def log_errors(
    cases: Iterable[Case], device: Device, values: Mapping[str, float], clocked: bool = False
) -> list[float]:
    """ln(predicted / measured) of each case.

    A cold state was made by writing a large buffer, which leaves the L2 full of data that has to
    be written back while the measured kernel reads: constants named "dirty.<name>" replace
    "<name>" there. `clocked`: predict at the clock that was read after each point, not at the
    highest one.
    """
    plain = {k: v for k, v in values.items() if not k.startswith("dirty.")}
    dirty = {k.removeprefix("dirty."): v for k, v in values.items() if k.startswith("dirty.")}
    constants = {
        "hot": trial(device, plain),
        "cold_clean": trial(device, plain),
        "cold": trial(device, {**plain, **dirty}),
    }
    return [
        math.log(
            c.predicted_s(
                at_clock(device, round(c.recorded.clock, 1) if clocked else 1.0),
                constants[c.recorded.state],
            )
            / c.recorded.total_s
        )
        for c in cases
    ]


def loss(errors: Sequence[float]) -> float:
    """Mean absolute log error, large ones damped so that a few oddities do not steer."""
    return mean(min(abs(e), 1.2) for e in errors)


def fit(
    values: dict[str, float],
    evaluate: Callable[[Mapping[str, float]], float],
    names: Sequence[str],
    rounds: int = 4,
    say: Callable[[str], object] = lambda _: None,
) -> dict[str, float]:
    """Coordinate descent by factors: each constant up and down, the step halved every round."""
    best, step = evaluate(values), 1.5
    for _ in range(rounds):
        for name in names:
            for factor in (step, 1 / step):
                while True:
                    changed = {**values, name: values[name] * factor}
                    score = evaluate(changed)
                    if score >= best - 1e-6:
                        break
                    values, best = changed, score
        say(f"step {step:.3f}: {best:.4f}")
        step = math.sqrt(step)
    return values


def summary(errors: Sequence[float]) -> str:
    """Mean and median absolute relative error, and the bias, of ln(predicted / measured)."""
    if not errors:
        return "no points"
    relative = [abs(math.expm1(e)) for e in errors]
    return (
        f"n {len(errors):4d}  mean {mean(relative):6.1%}  median {median(relative):6.1%}"
        f"  bias {math.expm1(median(errors)):+6.1%}  worst {max(relative):6.0%}"
    )


def spread(errors: Sequence[float]) -> float:
    """80 % half-width of measured over predicted."""
    ordered = sorted(abs(e) for e in errors)
    return math.expm1(ordered[int(0.8 * (len(ordered) - 1))])


def write_toml(path: Path, measured_with: str, groups: Mapping[str, CalibratedValue]) -> None:
    """Write constants as a calibration file."""
    lines = [f'measured_with = "{measured_with}"', ""]
    for name, entry in sorted(groups.items()):
        lines.append("[" + ".".join(_key(part) for part in _split(name)) + "]")
        lines += [f"value = {entry.value:.5g}", f'unit = "{entry.unit}"']
        if entry.low < entry.value or entry.high > entry.value:
            lines += [f"low = {entry.low:.5g}", f"high = {entry.high:.5g}"]
        if entry.origin != "calibrated":
            lines.append(f'origin = "{entry.origin}"')
        if entry.note:
            lines.append(f'note = "{entry.note}"')
        lines.append("")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines))


def _split(name: str) -> list[str]:
    return name.split(".")


def _key(part: str) -> str:
    return part if part.replace("_", "").isalnum() else f'"{part}"'
