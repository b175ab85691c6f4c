"""A sensor's readings, written down and played again, so that no test needs the hardware."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError
from gpuscope.measurement.sensors.types import ProcessUse, Reading, Sensor, SensorInfo
from gpuscope.outside.plain import file_bytes, json_of

SCHEMA = "gpuscope.sensor"
VERSION = 1


class Recorder:
    """A sensor that remembers every reading it gives.

    >>> sensor = Recorder(open_sensor(0))
    >>> ...                               # use it as a sensor
    >>> sensor.save("readings.json")
    """

    def __init__(self, sensor: Sensor) -> None:
        self._sensor = sensor
        self.readings: list[Reading] = []

    @property
    def info(self) -> SensorInfo:
        """Of the sensor that is recorded."""
        return self._sensor.info

    def read(self, *, processes: bool = False) -> Reading:
        """Read the sensor and remember what it said."""
        reading = self._sensor.read(processes=processes)
        self.readings.append(reading)
        return reading

    def close(self) -> None:
        """Close the sensor; the readings stay."""
        self._sensor.close()

    def save(self, path: str | Path) -> None:
        """Write the readings as JSON, the whole file or none.

        Raises:
            OSError: it cannot be written.
        """
        document = {
            "schema": SCHEMA,
            "version": VERSION,
            "info": asdict(self.info),
            "readings": [_bare(reading) for reading in self.readings],
        }
        target = Path(path)
        part = target.with_name(f".{target.name}.part")
        try:
            part.write_text(json.dumps(document, allow_nan=False) + "\n", encoding="utf-8")
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)


class Replay:
    """A sensor that says again what was recorded, in order; the last reading stays.

    The readings keep their own times, so that what is computed from them comes out as it did.
    """

    def __init__(self, readings: Iterable[Reading], info: SensorInfo | None = None) -> None:
        """Play these readings.

        Raises:
            ValueError: there are none.
        """
        self.readings = tuple(readings)
        if not self.readings:
            raise ValueError("A replay needs at least one reading.")
        self._info = info or SensorInfo("replay", 0, "recorded device")
        self._next = 0

    @classmethod
    def load(cls, path: str | Path) -> Replay:
        """Read what `Recorder.save` wrote.

        Raises:
            InputFileError: the file is missing or not a recording of a sensor.
        """
        try:
            document = json_of(file_bytes(path))
        except (OSError, ValueError) as error:
            raise InputFileError(
                Text("Cannot read {path}.", path=path), str(error), Text("Check the path.")
            ) from error
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            raise InputFileError(
                Text("{path} is not a sensor's recording.", path=path),
                Text("Its 'schema' is not {schema}.", schema=repr(SCHEMA)),
                Text("Record one with gpuscope.measurement.sensors.Recorder."),
            )
        try:
            info = _known(SensorInfo, document["info"])
            info["notes"] = tuple(info.get("notes", ()))
            return cls([_reading(each) for each in document["readings"]], SensorInfo(**info))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputFileError(
                Text("{path} is not a whole sensor's recording.", path=path),
                str(error),
                Text("Record it again."),
            ) from error

    @property
    def info(self) -> SensorInfo:
        """Of the device that was recorded."""
        return self._info

    def read(self, *, processes: bool = False) -> Reading:
        """Return the next reading."""
        reading = self.readings[min(self._next, len(self.readings) - 1)]
        self._next += 1
        return reading

    def close(self) -> None:
        """Nothing to let go of."""


def _bare(reading: Reading) -> dict[str, Any]:
    return {key: value for key, value in asdict(reading).items() if value is not None}


def _known(kind: type, data: Any) -> dict[str, Any]:
    names = {field.name for field in fields(kind)}
    return {key: value for key, value in data.items() if key in names}


def _reading(data: Any) -> Reading:
    values = _known(Reading, data)
    if values.get("throttle_reasons") is not None:
        values["throttle_reasons"] = tuple(values["throttle_reasons"])
    if values.get("processes") is not None:
        values["processes"] = tuple(
            ProcessUse(**_known(ProcessUse, each)) for each in values["processes"]
        )
    if not isinstance(values.get("time_s"), int | float):
        raise ValueError("A reading has no time.")
    return Reading(**values)
