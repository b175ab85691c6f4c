"""Samples as lines of JSON: written as they come, read again later, played at their own pace.

One sample a line, each line a whole document of schema `gpuscope.samples`, version 1, so that a
file can be cut, joined, compressed and searched with ordinary tools, and a recording that was
killed is good up to its last whole line. All figures in SI units, names as in
`gpuscope.watch.types` and `gpuscope.measurement.sensors.types`; what was not read is left out:

    {"schema": "gpuscope.samples", "version": 1, "unix_s": 1.7e9, "host": "a", "host_cpu": 0.1,
     "devices": [{"info": {...}, "reading": {...}, "activity": {...}, "verdict": {...}}]}

`verdict` is there for readers of logs; it is not read back, but judged anew. Logs of `nvidia-smi`
and of `dcgmi dmon` are read as well (`device_log`, `dcgm_log`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import IO, Any

from gpuscope.atomic import check_writable
from gpuscope.document.plain import dumps
from gpuscope.document.printable import harmless
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text, capital, extracted
from gpuscope.document.translations import spoken
from gpuscope.document.typed import MisfitError, typed
from gpuscope.errors import InputFileError, InvalidValueError
from gpuscope.outside.plain import json_of
from gpuscope.watch.dcgm_log import DcgmLog, is_dcgm_log
from gpuscope.watch.device_log import DeviceLog, is_device_log
from gpuscope.watch.source import EndOfSamples
from gpuscope.watch.types import DeviceSample, Sample, Verdict

SCHEMA = "gpuscope.samples"
VERSION = 1

Json = dict[str, Any]

_LONGEST_LINE = 8 << 20

_LATEST_S = 1e11
"""The year 5138: a clock that says more is none."""

_LARGEST = 1e24
"""No figure of a device, in SI units, is as large."""

_RECORD_HINT = Text("Record one: gpuscope watch --record FILE")


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
            entry["verdict"] = {
                "kind": verdict.kind,
                "sentence": spoken(verdict.sentence),
                "sure": verdict.sure,
            }
        devices.append(entry)
    document: Json = {
        "schema": SCHEMA,
        "version": VERSION,
        "unix_s": round(sample.unix_s, 3),
        "host": sample.host,
    }
    if sample.host_cpu is not None:
        document["host_cpu"] = round(sample.host_cpu, 4)
    return {**document, "devices": devices}


def sample_line(sample: Sample, verdicts: Sequence[Verdict | None] = ()) -> str:
    """Return a sample as one line of JSON, without its line end."""
    return dumps(sample_document(sample, verdicts))


def read_sample(document: Any) -> Sample:
    """Return the sample that a line's JSON holds; fields that are not known are passed over.

    Raises:
        MisfitError: it is not a sample, or of a newer version; says what is wrong, and where.
    """
    document = harmless(document)
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise MisfitError("", Text("its 'schema' is not '{schema}'", schema=SCHEMA))
    version = document.get("version")
    if version != VERSION:
        raise MisfitError(
            "",
            Text(
                "its version is {version}, this program reads {known}",
                version=str(version)[:40],
                known=VERSION,
            ),
        )
    listed = document.get("devices")
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict):
            each.setdefault("activity", {})
    sample = typed(Sample, document)
    _check(sample)
    return replace(sample, devices=tuple(map(_noted, sample.devices)))


def _check(sample: Sample) -> None:
    """Figures are such as a device may have: all arithmetic with them stays finite.

    Raises:
        MisfitError: one is not.
    """
    if not 0 <= sample.unix_s <= _LATEST_S:
        raise MisfitError("unix_s", Text("not a time"))
    if sample.host_cpu is not None:
        _check_figure("host_cpu", sample.host_cpu)
    for number, device in enumerate(sample.devices):
        place = f"devices[{number}]"
        for part in ("reading", "activity"):
            holder = getattr(device, part)
            for field in fields(holder):
                _check_figure(f"{place}.{part}.{field.name}", getattr(holder, field.name))
        for name, value in (device.reading.throttled_s or {}).items():
            _check_figure(f"{place}.reading.throttled_s[{name}]", value)
        for at, each in enumerate(device.reading.processes or ()):
            _check_figure(f"{place}.reading.processes[{at}].memory_bytes", each.memory_bytes)


def _check_figure(place: str, value: object) -> None:
    if isinstance(value, int | float) and not abs(value) <= _LARGEST:
        raise MisfitError(place, Text("not a figure of a device"))


def _noted(device: DeviceSample) -> DeviceSample:
    """A device whose notes are texts again."""
    notes = tuple(map(extracted, device.info.notes))
    return replace(device, info=replace(device.info, notes=notes))


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

    They are gpuscope's own, or those of a log of `nvidia-smi` or `dcgmi dmon` (see `device_log`,
    `dcgm_log`). A last line that was cut off (the recorder was killed) is passed over.

    Raises:
        InputFileError: it cannot be read, holds no sample, or a line is not one (names the line).
    """
    found = False
    log: DeviceLog | DcgmLog | None = None
    try:
        with Path(path).open(encoding="utf-8") as file:
            for number, line in enumerate(_lines_of(path, file), 1):
                if number == 1 and is_device_log(line):
                    log = DeviceLog(line, Path(path).name)
                elif number == 1 and is_dcgm_log(line):
                    log = DcgmLog(line, Path(path).name)
                elif line.strip():
                    sample = _parsed(path, number, line, log.add if log else _of_json)
                    if sample is not None:
                        found = True
                        yield sample
    except (OSError, UnicodeDecodeError) as error:
        raise InputFileError(
            Text("Cannot read {path}.", path=path),
            str(getattr(error, "strerror", None) or error),
            _RECORD_HINT,
        ) from error
    rest = log.last() if log else None
    if rest is not None:
        yield rest
    elif not found:
        raise InputFileError(Text("{path} holds no sample.", path=path), "", _RECORD_HINT)


def _lines_of(path: str | Path, file: IO[str]) -> Iterator[str]:
    """Its lines, none of which may be longer than a sample of a thousand devices."""
    while line := file.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise InputFileError(
                Text("{path} is no file of samples.", path=path),
                Text("It has a line of more than {most} letters.", most=Number(_LONGEST_LINE, ",")),
                _RECORD_HINT,
            )
        yield line


class Replay:
    """A `Source`: samples that were recorded, at the pace they had.

    Hosts that were recorded together come together: lines up to the next of a host that has been
    are one answer.
    """

    def __init__(
        self,
        samples: Iterator[Sample],
        *,
        speed: float = 1.0,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
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
                Text("A speed of {speed} plays nothing.", speed=Number(speed, "g")),
                "",
                Text("Type a number above 0: --speed 10"),
            )
        self._samples = samples
        self._speed = speed
        self._sleep, self._clock = sleep, clock
        self._groups = _together(samples)
        self._next: tuple[Sample, ...] | None = next(self._groups, None)
        if self._next is None:
            raise InputFileError(Text("There is no sample to play."), "", _RECORD_HINT)
        devices = [device for sample in self._next for device in sample.devices]
        self._notes = tuple(dict.fromkeys(note for d in devices for note in d.info.notes))
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
        return self._notes

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


def _of_json(line: str) -> Sample:
    return read_sample(json_of(line))


def _parsed(
    path: str | Path, number: int, line: str, read: Callable[[str], Sample | None]
) -> Sample | None:
    """The sample that a line gives, if any; None for a last line that was cut off."""
    try:
        return read(line)
    except MisfitError as error:
        if not line.endswith("\n") and number > 1:
            return None
        raise InputFileError(
            Text("Line {number} of {path} is not a sample.", number=number, path=path),
            Text(
                "{problem}.", problem=capital(error.args[0]) if not error.place else error.args[0]
            ),
            _RECORD_HINT,
        ) from error


def _unwritable(path: Path, error: OSError) -> InputFileError:
    return InputFileError(
        Text("Cannot write {path}.", path=path),
        str(error.strerror or error),
        Text("Choose another folder."),
    )


def _told(values: Json) -> Json:
    """Without what was not read; figures that are no numbers (NaN) were not read either."""
    return {
        key: value
        for key, value in values.items()
        if value is not None and not (isinstance(value, float) and value - value != 0)
    }
