"""A calibration as a readable TOML file, the same that the catalogue's are."""

from __future__ import annotations

from pathlib import Path

from gpuscope.atomic import write_atomically
from gpuscope.document.text import Text
from gpuscope.errors import InputFileError
from gpuscope.hardware import CalibratedValue, Calibration
from gpuscope.hardware.own import CALIBRATION, this_folder

_HEAD = """# Constants of one machine, written by gpuscope bench. Predict with them:
#   gpuscope predict WORKLOAD --calibration THIS_FILE
"""


def calibration_text(calibration: Calibration) -> str:
    """Return a calibration as TOML; `gpuscope.hardware.load_own` reads it back."""
    lines = [
        _HEAD,
        f"device = {_quoted(calibration.device_id)}",
        f"measured_with = {_quoted(calibration.measured_with)}",
        "",
    ]
    for name, entry in calibration.entries:
        lines += _entry(name, entry)
    return "\n".join(lines)


def _entry(name: str, entry: CalibratedValue) -> list[str]:
    key = ".".join(part if _bare(part) else _quoted(part) for part in name.split("."))
    lines = [
        f"[{key}]",
        f"value = {_number(entry.value)}",
        f"unit = {_quoted(entry.unit)}",
        f"origin = {_quoted(entry.origin)}",
        f"low = {_number(entry.low)}",
        f"high = {_number(entry.high)}",
    ]
    if entry.note:
        lines.append(f"note = {_quoted(entry.note)}")
    return [*lines, ""]


def _number(value: float) -> str:
    """Enough digits to say the same again, and always a float."""
    text = repr(float(value))
    return text if any(c in text for c in ".en") else f"{text}.0"


def _bare(part: str) -> bool:
    return bool(part) and part.replace("_", "").replace("-", "").isalnum() and part.isascii()


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c >= " " else " " for c in escaped) + '"'


def save_calibration(calibration: Calibration, path: str | Path) -> Path:
    """Write a calibration whole or not at all.

    Args:
        calibration: to write.
        path: a file that ends in .toml, or a folder, made if need be, that gets
            `calibration.toml`.

    Returns:
        the file.

    Raises:
        InputFileError: it cannot be written there.
    """
    target = Path(path).expanduser()
    if target.suffix != ".toml":
        target = target / CALIBRATION
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputFileError(
            Text("Cannot write {target}.", target=target),
            str(error.strerror or error),
            Text("Choose another folder."),
        ) from error
    write_atomically(target, calibration_text(calibration))
    return target


def save_as_this(calibration: Calibration) -> Path:
    """Store a calibration as this machine's, which `on="this"` predicts for.

    Raises:
        InputFileError: gpuscope's own folder cannot be written (GPUSCOPE_HOME says another).
    """
    return save_calibration(calibration, this_folder())
