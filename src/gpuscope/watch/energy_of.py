"""A command's energy: run it, and say what the devices drew meanwhile.

Energy is the difference of the device's own counter where it has one (no peak is missed, whatever
the pace of reading), else the integral of power over the readings (trapezoids). It is all that the
device drew while the command ran, its idle power and other people's work on it included: devices
do not tell whose a joule is. What is not read is not guessed: power supplies, fans, memory of the
host and cooling are left out, and a total without one of the devices says so.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Literal

from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError, InvalidValueError
from gpuscope.hardware.grid import JOULES_PER_KWH, WORLD, GridFactor
from gpuscope.measurement.sensors import energy_between, open_sensor
from gpuscope.measurement.sensors.energy import MIN_WINDOW_S, UPDATE_S
from gpuscope.measurement.sensors.types import Reading, Sensor
from gpuscope.watch.sampler import open_devices
from gpuscope.watch.source import check_interval

NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""Exit codes of shells for a command that is not there, or may not be run (POSIX, sh)."""

_PASSED_ON = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2")
_KEYBOARD = ("SIGINT", "SIGQUIT")

Method = Literal["counter", "power", "none"]


@dataclass(frozen=True, slots=True)
class DeviceEnergy:
    """One device's part; None for what it does not tell.

    Attributes:
        name: of the device, or the processor packages.
        index: as PyTorch counts it; None for the host's processors.
        energy_j: while the command ran.
        uncertainty_j: what the pace of the counter or of the readings leaves open.
        average_w: energy over time.
        peak_w: highest power read.
        method: "counter", "power" (integrated readings), "none".
        why_not: why there is no energy; "" if there is.
    """

    name: str
    index: int | None
    energy_j: float | None
    uncertainty_j: float | None
    average_w: float | None
    peak_w: float | None
    method: Method
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class EnergyReport:
    """What a command took.

    Attributes:
        command: as it was run.
        exit_code: its own; 128 + N where signal N ended it, as shells say.
        seconds: from its start to its end.
        devices: one entry a device.
        host: the processors' packages; None where they may not be read.
        grid: the factor for CO2.
        price_per_kwh: USD; None where none was given.
    """

    command: tuple[str, ...]
    exit_code: int
    seconds: float
    devices: tuple[DeviceEnergy, ...]
    host: DeviceEnergy | None
    grid: GridFactor
    price_per_kwh: float | None

    @property
    def parts(self) -> tuple[DeviceEnergy, ...]:
        """Devices and host."""
        return (*self.devices, *((self.host,) if self.host else ()))

    @property
    def energy_j(self) -> float | None:
        """Of all that was read; None if nothing was."""
        known = [part.energy_j for part in self.parts if part.energy_j is not None]
        return sum(known) if known else None

    @property
    def complete(self) -> bool:
        """Whether every device and the host are in the sum."""
        return self.host is not None and all(part.energy_j is not None for part in self.parts)

    @property
    def average_w(self) -> float | None:
        """Energy over time."""
        energy_j = self.energy_j
        return None if energy_j is None or self.seconds <= 0 else energy_j / self.seconds

    @property
    def co2_g(self) -> float | None:
        """Grams of CO2 equivalent, by the grid's factor."""
        energy_j = self.energy_j
        return None if energy_j is None else self.grid.grams(energy_j)

    @property
    def cost_usd(self) -> float | None:
        """What the electricity costs; None without a price."""
        if self.energy_j is None or self.price_per_kwh is None:
            return None
        return self.energy_j / JOULES_PER_KWH * self.price_per_kwh


class CommandError(GpuscopeError):
    """A command that cannot be started; exits as a shell does."""

    def __init__(self, what: str, why: str, next_step: str, exit_code: int) -> None:
        super().__init__(what, why, next_step)
        self.exit_code = exit_code


class Meter:
    """Follows one sensor while a command runs."""

    def __init__(self, sensor: Sensor) -> None:
        self._sensor = sensor
        self._first: Reading | None = None
        self._last: Reading | None = None
        self._peak_w: float | None = None
        self._by_power_j = 0.0
        self._longest_gap_s = 0.0
        self._power_known = True

    def read(self) -> None:
        """Read the sensor once more."""
        now = self._sensor.read()
        before, self._last = self._last, now
        if self._first is None:
            self._first = now
        if now.power_w is not None:
            self._peak_w = now.power_w if self._peak_w is None else max(self._peak_w, now.power_w)
        if before is None:
            return
        gap_s = now.time_s - before.time_s
        if before.power_w is None or now.power_w is None or gap_s < 0:
            self._power_known = False
            return
        self._by_power_j += (before.power_w + now.power_w) / 2 * gap_s
        self._longest_gap_s = max(self._longest_gap_s, gap_s)

    def result(self, *, host: bool = False) -> DeviceEnergy:
        """Return what was drawn between the first reading and the last."""
        info = self._sensor.info
        index = None if host else info.index
        if self._first is None or self._last is None:
            return DeviceEnergy(
                info.name, index, None, None, None, None, "none", Text("It was not read.")
            )
        seconds = self._last.time_s - self._first.time_s
        span = energy_between(self._first, self._last)
        if span is not None:
            return DeviceEnergy(
                info.name,
                index,
                span.energy_j,
                span.uncertainty_j,
                span.average_w,
                self._peak_w,
                "counter",
            )
        if not self._power_known or self._first.power_w is None or seconds < MIN_WINDOW_S:
            return DeviceEnergy(
                info.name, index, None, None, None, self._peak_w, "none", self._why_not(seconds)
            )
        average_w = self._by_power_j / seconds
        # A step of power between two readings is wrong by half a gap; the driver averages, too.
        open_j = average_w * max(self._longest_gap_s / 2, UPDATE_S)
        return DeviceEnergy(
            info.name, index, self._by_power_j, open_j, average_w, self._peak_w, "power"
        )

    def _why_not(self, seconds: float) -> Text:
        if self._sensor.info.slice:
            return Text("A slice of a device: power and energy belong to the whole device.")
        if seconds < MIN_WINDOW_S:
            return Text(
                "It ran for less than {seconds} s: too short for the device's readings.",
                seconds=Number(MIN_WINDOW_S, "g"),
            )
        return Text("It tells neither energy nor power.")


def run(
    command: Sequence[str],
    *,
    sensors: Sequence[Sensor] | None = None,
    package: Sensor | None = None,
    indices: Sequence[int] | None = None,
    interval_s: float = 0.5,
    grid: GridFactor = WORLD,
    price_per_kwh: float | None = None,
    on_start: Callable[[int], None] | None = None,
) -> EnergyReport:
    """Run a command and return what it took.

    Its input and output are ours, untouched. Signals that reach us are passed on to it; those of
    the keyboard reach it by themselves where it shares our terminal.

    Args:
        command: the program and its arguments; no shell is used.
        sensors: of the devices; None opens those of this host and its processors', and closes
            them.
        package: with `sensors`, that of the host's processors.
        indices: without `sensors`, the devices to open; None for all.
        interval_s: between readings of power.
        grid: for CO2.
        price_per_kwh: USD.
        on_start: called with the command's process number.

    Raises:
        CommandError: the command cannot be started.
        InvalidValueError: no command, a price below zero, too short an interval, or a device that
            is not there.
    """
    _check(command, interval_s, price_per_kwh)
    _find(command[0])
    with ExitStack() as opened:
        if sensors is None:
            sensors = open_devices(indices)
            package = open_sensor(0, "cpu_package")
            for sensor in (*sensors, *((package,) if package else ())):
                opened.callback(_close, sensor)
        meters = [Meter(sensor) for sensor in sensors]
        host = Meter(package) if package is not None else None
        code, seconds = _follow(command, [*meters, *([host] if host else [])], interval_s, on_start)
    return EnergyReport(
        tuple(command),
        code,
        seconds,
        tuple(meter.result() for meter in meters),
        host.result(host=True) if host else None,
        grid,
        price_per_kwh,
    )


def _close(sensor: Sensor) -> None:
    with suppress(Exception):  # the command's result matters more
        sensor.close()


def _check(command: Sequence[str], interval_s: float, price_per_kwh: float | None) -> None:
    if not command:
        raise InvalidValueError(
            Text("There is no command to run."),
            "",
            Text("Type: gpuscope watch --energy -- python train.py"),
        )
    check_interval(interval_s)
    if price_per_kwh is not None and not 0 <= price_per_kwh < 1000:
        raise InvalidValueError(
            Text(
                "A kilowatt-hour cannot cost {price_per_kwh} USD.",
                price_per_kwh=Number(price_per_kwh, "g"),
            ),
            "",
            Text("Type: --price 0.12"),
        )


def _find(program: str) -> None:
    if shutil.which(program) is not None:
        return
    if os.path.exists(program):
        raise CommandError(
            Text("{program} cannot be run.", program=program),
            Text("It is no program, or may not be executed."),
            Text(
                "Type: chmod +x {program}, or give the interpreter: python {program}",
                program=program,
            ),
            NOT_EXECUTABLE,
        )
    raise CommandError(
        Text("There is no program '{program}'.", program=program),
        "",
        Text("Check its name, or give its path."),
        NOT_FOUND,
    )


def _follow(
    command: Sequence[str],
    meters: Sequence[Meter],
    interval_s: float,
    on_start: Callable[[int], None] | None,
) -> tuple[int, float]:
    """Run a command with the meters at its side; its exit code, and seconds."""
    for meter in meters:
        meter.read()
    start = time.perf_counter()
    with _signals_to() as forward:
        try:
            child = subprocess.Popen(list(command))
        except OSError as error:
            raise CommandError(
                Text("{program} cannot be run.", program=command[0]),
                f"{error.strerror or error}.",
                "",
                NOT_EXECUTABLE,
            ) from error
        forward.to(child)
        if on_start is not None:
            on_start(child.pid)
        while True:
            try:
                code = child.wait(interval_s)
                break
            except subprocess.TimeoutExpired:
                for meter in meters:
                    meter.read()
    seconds = time.perf_counter() - start
    for meter in meters:
        meter.read()
    return (128 - code if code < 0 else code), seconds


class _Forward:
    """Passes signals on to a child; those that came before it was there are kept for it."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []

    def to(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        for number in self._early:
            child.send_signal(number)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if signal.Signals(number).name in _KEYBOARD and _at_terminal():
            return  # the terminal has sent it to the child as well
        if self._child is None:
            self._early.append(number)
        else:
            self._child.send_signal(number)


@contextmanager
def _signals_to() -> Iterator[_Forward]:
    forward = _Forward()
    before = {}
    try:
        for name in _PASSED_ON:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                with suppress(ValueError, OSError):  # not in the main thread: nothing to pass on
                    before[number] = signal.signal(number, forward)
        yield forward
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _at_terminal() -> bool:
    """Whether the keyboard's signals go to our process group, and so to the child."""
    try:
        return os.tcgetpgrp(sys.__stdin__.fileno()) == os.getpgrp()  # type: ignore[union-attr]
    except (OSError, ValueError, AttributeError):
        return False
