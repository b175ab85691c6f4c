"""Samples of this host's devices, taken at a steady pace by one thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from gpuscope.document.printable import harmless
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.measurement.sensors import open_sensor
from gpuscope.measurement.sensors.types import Sensor, SensorInfo
from gpuscope.watch.activity import ActivityReader, open_activity
from gpuscope.watch.host_load import HostLoad
from gpuscope.watch.process_names import with_names
from gpuscope.watch.source import check_interval
from gpuscope.watch.types import DeviceSample, Sample

MOST_DEVICES = 64
"""Indices that are tried; no host holds more."""


def open_devices(
    wanted: Sequence[int] | None = None, opener: Callable[[int], Sensor | None] = open_sensor
) -> tuple[Sensor, ...]:
    """Open the sensors of this host's accelerators.

    Args:
        wanted: indices as PyTorch counts them; None for all. An empty sequence opens none.
        opener: opens one; another in tests.

    Returns:
        The sensors by index; () where there is no accelerator.

    Raises:
        InvalidValueError: a wanted device is not there.
    """
    found: list[Sensor] = []
    for index in range(MOST_DEVICES) if wanted is None else sorted(set(wanted)):
        sensor = opener(index)
        if sensor is not None:
            found.append(sensor)
        elif wanted is None:
            break
        else:
            for opened in found:
                opened.close()
            raise InvalidValueError(
                Text("There is no device {index} here.", index=index),
                "",
                Text("See them all: gpuscope watch --once"),
            )
    return tuple(found)


class Sampler:
    """A `Source`: this host's devices.

    Ask it with `read`, or let its thread do so with `start` and be called with each sample.

    >>> with Sampler(open_devices()) as sampler:
    ...     (sample,) = sampler.read()
    """

    def __init__(
        self,
        sensors: Sequence[Sensor],
        *,
        host: str = "",
        interval_s: float = 1.0,
        processes: bool = True,
        activity: Callable[[SensorInfo], ActivityReader] = open_activity,
    ) -> None:
        """Watch these devices.

        Args:
            sensors: what `open_devices` gave; closed with the sampler.
            host: its name; else the system's.
            interval_s: seconds from one sample to the next.
            processes: also read who is on each device.
            activity: opens the reader of a device's activity; another in tests.

        Raises:
            InvalidValueError: the interval is too short (see `check_interval`).
        """
        check_interval(interval_s)
        self._sensors = tuple(sensors)
        self._activities = tuple(activity(sensor.info) for sensor in self._sensors)
        self._load = HostLoad()
        self._host = host or _host_name()
        self._interval_s = interval_s
        self._processes = processes
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._latest: Sample | None = None

    @property
    def interval_s(self) -> float:
        """Seconds from one sample to the next."""
        return self._interval_s

    @property
    def host(self) -> str:
        """Name of this host."""
        return self._host

    @property
    def latest(self) -> Sample | None:
        """The newest sample, by whomever it was asked; None before the first."""
        return self._latest

    @property
    def notes(self) -> tuple[str, ...]:
        """What cannot be read, and why; each once."""
        notes = [n for s in self._sensors for n in s.info.notes]
        notes += [n for a in self._activities for n in a.notes]
        return tuple(dict.fromkeys(notes))

    def read(self) -> tuple[Sample, ...]:
        """Take one sample now; rates are means since the one before."""
        with self._lock:
            devices = tuple(
                DeviceSample(
                    harmless(sensor.info),
                    with_names(sensor.read(processes=self._processes)),
                    activity.read(),
                )
                for sensor, activity in zip(self._sensors, self._activities, strict=True)
            )
            sample = Sample(time.time(), self._host, devices, self._load.read())
            self._latest = sample
        return (sample,)

    def start(self, on_sample: Callable[[Sample], None] | None = None) -> None:
        """Take samples in a thread until `stop`; an error in `on_sample` ends it (see `stop`).

        Args:
            on_sample: called in that thread with each; None to look at `latest` only.

        Raises:
            RuntimeError: it runs already.
        """
        if self._thread is not None:
            raise RuntimeError("The sampler runs already.")
        self._stop.clear()
        self._failure = None
        self._thread = threading.Thread(
            target=self._run,
            args=(on_sample or (lambda sample: None),),
            name="gpuscope-sampler",
            daemon=True,
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread; raises what `on_sample` raised, if it did."""
        thread, self._thread = self._thread, None
        self._stop.set()
        if thread is not None:
            thread.join()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def close(self) -> None:
        """End the thread and let go of the devices."""
        try:
            self.stop()
        finally:
            with self._lock:
                closers = [each.close for each in self._activities]
                for close in (*closers, *(each.close for each in self._sensors)):
                    with suppress(Exception):  # one that fails must not keep the others open
                        close()

    def __enter__(self) -> Sampler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, on_sample: Callable[[Sample], None]) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            try:
                on_sample(*self.read())
            except BaseException as error:  # told by `stop`, in the thread that can answer
                self._failure = error
                return
            due += self._interval_s
            now = time.monotonic()
            if due < now:  # the host stood still: go on from here rather than catch up
                due = now
            self._stop.wait(due - now)


def _host_name() -> str:
    import socket

    return socket.gethostname()
