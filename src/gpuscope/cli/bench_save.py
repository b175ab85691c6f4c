"""`gpuscope bench --save`: what was measured becomes this machine's own calibration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpuscope.cli.progress import note, progress
from gpuscope.document.text import Text
from gpuscope.views.i18n import tr

if TYPE_CHECKING:
    from gpuscope.cli.bench_output import Shown
    from gpuscope.measurement.bench.types import BenchResult


def save_bench_as_calibration(result: BenchResult, shown: Shown, to: Path | None = None) -> Path:
    """Fit constants to a bench and store them.

    Args:
        result: measured now or before.
        shown: language, and whether to be quiet.
        to: a file or folder; this machine's own place by default (`--on this`).

    Returns:
        the file written.

    Raises:
        InvalidValueError: the device is in no catalogue, or nothing in the bench is a constant.
        InputFileError: it cannot be written there.
    """
    from gpuscope.hardware import device
    from gpuscope.measurement.calibrate import (
        calibrate,
        measured_with,
        save_as_this,
        save_calibration,
    )

    target = device(_device_id(result))
    with progress(shown.quiet) as say:
        say(tr("Fitting constants …", shown.lang))
        found = calibrate(result.points, target, measured_with=measured_with(result))
    path = save_calibration(found, to) if to is not None else save_as_this(found)
    note(tr("Wrote {path}", shown.lang, path=path), shown.quiet)
    option = f"--calibration {path}" if to is not None else "--on this"
    text = tr(
        "Predict with it: {command}", shown.lang, command=f"gpuscope predict WORKLOAD {option}"
    )
    note(text, shown.quiet)
    return path


def _device_id(result: BenchResult) -> str:
    from gpuscope.errors import InvalidValueError

    if result.device_id:
        return result.device_id
    name = result.machine.get("device", "this device")
    raise InvalidValueError(
        Text("No calibration for {name}.", name=name),
        Text("It is not in the catalogue, so nothing can be predicted."),
        Text("Add it: see CONTRIBUTING.md"),
    )
