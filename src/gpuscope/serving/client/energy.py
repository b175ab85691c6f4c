"""Joules of this machine's devices over a run, where the server is this machine."""

from __future__ import annotations

from types import TracebackType

from gpuscope.measurement.sensors import EnergyWindow, open_sensor

MOST_DEVICES = 64


class Energy:
    """The devices' energy inside a `with` block.

    Attributes:
        joules: of all devices, whoever used them; None where one does not tell, or there is none.
    """

    def __init__(self, local: bool) -> None:
        self.joules: float | None = None
        self._windows: list[EnergyWindow] = []
        for index in range(MOST_DEVICES if local else 0):
            sensor = open_sensor(index)
            if sensor is None:
                break
            self._windows.append(EnergyWindow(sensor))

    def __enter__(self) -> Energy:
        for window in self._windows:
            window.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for window in self._windows:
            window.__exit__(kind, error, trace)
        spans = [window.span for window in self._windows]
        if spans and all(spans):
            self.joules = sum(span.energy_j for span in spans if span)
