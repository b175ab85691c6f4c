"""Samples as lines of JSON: written as they come, read again later, played at their own pace.

One sample a line, each line a whole document of schema `gpuscope.samples`, version 1, so that a
file can be cut, joined, compressed and searched with ordinary tools, and a recording that was
killed is good up to its last whole line. All figures in SI units, names as in
`gpuscope.watch.types` and `gpuscope.measure.sensors.types`; what was not read is left out:

    {"schema": "gpuscope.samples", "version": 1, "unix_s": 1.7e9, "host": "a", "host_cpu": 0.1,
     "devices": [{"info": {...}, "reading": {...}, "activity": {...}, "verdict": {...}}]}

`verdict` is there for readers of logs; it is not read back, but judged anew.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import IO, Any

from gpuscope.atomic import check_writable
from gpuscope.errors import InputFileError, InvalidValueError
from gpuscope.measure.sensors.types import ProcessUse, Reading, SensorInfo
from gpuscope.watch.source import EndOfSamples
from gpuscope.watch.types import Activity, DeviceSample, Sample, Verdict

SCHEMA = "gpuscope.samples"
VERSION = 1

Json = dict[str, Any]

_RECORD_HINT = "Record one: gpuscope watch --record FILE"


def sample_document(sample: Sample, verdicts: Sequence[Verdict | None] = ()) -> Json:
    """Return a sample as plain values.

    Args:
        sample: what was read.
        verdicts: one a device, in their order; () for none.
    """
    devices = []
    for place, device in enumerate(sample.devices):
        entry = {
            "info": _told(asdict(device.info)),
            "reading": _told(asdict(device.reading)),
            "activity": _told(asdict(device.activity)),
        }
        verdict = verdicts[place] if place < len(verdicts) else None
        if verdict is not None:
            entry["verdict"] = asdict(verdict)
        devices.append(entry)
    document: Json = {
        "schema": SCHEMA, "version": VERSION, "unix_s": round(sample.unix_s, 3),
        "host": sample.host,
    }  # fmt: skip
    if sample.host_cpu is not None:
        document["host_cpu"] = round(sample.host_cpu, 4)
    return {**document, "devices": devices}


def sample_line(sample: Sample, verdicts: Sequence[Verdict | None] = ()) -> str:
    """Return a sample as one line of JSON, without its line end."""
    return json.dumps(
        sample_document(sample, verdicts), ensure_ascii=False, allow_nan=False,
        separators=(",", ":"),
    )  # fmt: skip


def read_sample(document: Any) -> Sample:
    """Return the sample that a line's JSON holds; fields that are not known are passed over.

    Raises:
        ValueError: it is not a sample, or of a newer version; says what is wrong.
    """
    if not isinstance(document, Mapping) or document.get("schema") != SCHEMA:
        raise ValueError(f"its 'schema' is not '{SCHEMA}'")
    if document.get("version") != VERSION:
        raise ValueError(f"its version is {document.get('version')}, this program reads {VERSION}")
    try:
        devices = tuple(_device(each) for each in document["devices"])
        cpu = document.get("host_cpu")
        return Sample(
            float(document["unix_s"]), str(document["host"]), devices,
            None if cpu is None else float(cpu),
        )  # fmt: skip
    except KeyError as error:
        raise ValueError(f"{error} is missing") from None
    except (TypeError, AttributeError) as error:
        raise ValueError(str(error)) from None


class SampleWriter:
    """Writes samples to a file as they come; each is on the disk's side before the next is taken.

    A log grows while it is written, so it is not held back until it is whole.
    """

    def __init__(self, path: str | Path) -> None:
        """Open the file; what it held is lost.

        Raises:
            InputFileError: it cannot be written.
        """
        check_writable(path)
        self._path = Path(path)
        try:
            self._file: IO[str] = self._path.open("w", encoding="utf-8")
        except OSError as error:
            raise _unwritable(self._path, error) from error
        self.count = 0

    def write(self, sample: Sample, verdicts: Sequence[Verdict | None] = ()) -> None:
        """Append a sample.

        Raises:
            InputFileError: writing failed (a full disk).
        """
        try:
            self._file.write(sample_line(sample, verdicts) + "\n")
            self._file.flush()
        except OSError as error:
            raise _unwritable(self._path, error) from error
        self.count += 1

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> SampleWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_samples(path: str | Path) -> Iterator[Sample]:
    """Yield the samples of a file, one line at a time.

    A last line that was cut off (the recorder was killed) is passed over.

    Raises:
        InputFileError: it cannot be read, holds no sample, or a line is not one (names the line).
    """
    found = False
    try:
        with Path(path).open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    sample = _parsed(path, number, line)
                    if sample is not None:
                        found = True
                        yield sample
    except (OSError, UnicodeDecodeError) as error:
        raise InputFileError(
            f"Cannot read {path}.", str(getattr(error, "strerror", None) or error), _RECORD_HINT
        ) from error
    if not found:
        raise InputFileError(f"{path} holds no sample.", "", _RECORD_HINT)


class Replay:
    """A `Source`: samples that were recorded, at the pace they had.

    Hosts that were recorded together come together: lines up to the next of a host that has been
    are one answer.
    """

    def __init__(
        self, samples: Iterator[Sample], *, speed: float = 1.0,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """Play these samples.

        Args:
            samples: in the order of their times.
            speed: 2 plays twice as fast; infinity as fast as they are asked for.
            sleep, clock: others in tests.

        Raises:
            InvalidValueError: the speed is not above zero.
            InputFileError: there is no sample (see `read_samples`).
        """
        if not speed > 0:
            raise InvalidValueError(
                f"A speed of {speed:g} plays nothing.", "", "Type a number above 0: --speed 10"
            )
        self._samples = samples
        self._speed = speed
        self._sleep, self._clock = sleep, clock
        self._groups = _together(samples)
        self._next: tuple[Sample, ...] | None = next(self._groups, None)
        if self._next is None:
            raise InputFileError("There is no sample to play.", "", _RECORD_HINT)
        self._shown_s: float | None = None
        self._shown_at = 0.0
        self._after = next(self._groups, None)
        self._pace_s = (
            max(self._after[0].unix_s - self._next[0].unix_s, 0.0) if self._after else 1.0
        )

    @classmethod
    def load(cls, path: str | Path, *, speed: float = 1.0) -> Replay:
        """Open a recording; reads its first lines.

        Raises:
            InputFileError, InvalidValueError: as `read_samples` and `Replay` raise.
        """
        return cls(read_samples(path), speed=speed)

    @property
    def interval_s(self) -> float:
        """Seconds between questions: `read` itself waits until the next is due."""
        return self._pace_s / self._speed

    @property
    def notes(self) -> tuple[str, ...]:
        """Of the recorded devices."""
        devices = self._next[0].devices if self._next else ()
        return tuple(dict.fromkeys(note for d in devices for note in d.info.notes))

    def read(self) -> tuple[Sample, ...]:
        """Return the next samples, once their time has come.

        Raises:
            EndOfSamples: all were given.
            InputFileError: a line is not a sample.
        """
        if self._next is None:
            raise EndOfSamples
        now_s = self._next[0].unix_s
        if self._shown_s is not None:
            gap_s = (now_s - self._shown_s) / self._speed
            left_s = gap_s - (self._clock() - self._shown_at)
            if left_s > 0:
                self._sleep(left_s)
        self._shown_s, self._shown_at = now_s, self._clock()
        given, self._next = self._next, self._after
        self._after = next(self._groups, None)
        return given

    def close(self) -> None:
        """Let go of the file."""
        self._groups.close()
        close = getattr(self._samples, "close", None)
        if close:
            close()


def _together(samples: Iterator[Sample]) -> Generator[tuple[Sample, ...], None, None]:
    """Samples of different hosts that were read at the same time, as one tuple."""
    group: list[Sample] = []
    for sample in samples:
        if group and sample.host in {each.host for each in group}:
            yield tuple(group)
            group = []
        group.append(sample)
    if group:
        yield tuple(group)


def _parsed(path: str | Path, number: int, line: str) -> Sample | None:
    """The sample of a line; None for a last line that was cut off."""
    try:
        return read_sample(json.loads(line))
    except ValueError as error:
        if not line.endswith("\n") and number > 1:
            return None
        raise InputFileError(
            f"Line {number} of {path} is not a sample.", f"{error}."[:200], _RECORD_HINT
        ) from error


def _unwritable(path: Path, error: OSError) -> InputFileError:
    return InputFileError(
        f"Cannot write {path}.", str(error.strerror or error), "Choose another folder."
    )


def _told(values: Json) -> Json:
    """Without what was not read; figures that are no numbers (NaN) were not read either."""
    return {
        key: value
        for key, value in values.items()
        if value is not None and not (isinstance(value, float) and value - value != 0)
    }


def _known(kind: type, data: Mapping[str, Any]) -> Json:
    names = {field.name for field in fields(kind)}
    return {key: value for key, value in data.items() if key in names}


def _device(data: Mapping[str, Any]) -> DeviceSample:
    info = _known(SensorInfo, data["info"])
    info["notes"] = tuple(info.get("notes", ()))
    reading = _known(Reading, data["reading"])
    if "throttle_reasons" in reading:
        reading["throttle_reasons"] = tuple(reading["throttle_reasons"])
    if "processes" in reading:
        reading["processes"] = tuple(
            ProcessUse(**_known(ProcessUse, each)) for each in reading["processes"]
        )
    activity = _known(Activity, data.get("activity", {}))
    _check_numbers({**reading, **activity})
    return DeviceSample(SensorInfo(**info), Reading(**reading), Activity(**activity))


def _check_numbers(values: Mapping[str, Any]) -> None:
    others = ("throttle_reasons", "throttled_s", "processes")
    for name, value in values.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if name not in others and not number:
            raise TypeError(f"'{name}' is not a number")
