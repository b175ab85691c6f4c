"""Ladders as files: written whole after every trial, read again to go on or to be applied."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpuscope.advice.results import Forecast, Ladder, Target, Trial
from gpuscope.document.text import Text, capital, joined, verbatim
from gpuscope.document.translations import decoded, encoded
from gpuscope.errors import InputFileError

__all__ = ["LADDER_FILE", "LADDER_VERSION", "LadderStore", "MadeOf", "read_ladder"]

LADDER_FILE = "ladder.json"
LADDER_VERSION = 1
_SCHEMA = "gpuscope.ladder"
_LEAST, _MOST = 1e-12, 1e12
"""Seconds of a step, and ratios of two: beyond these they are no measurement's."""


@dataclass(frozen=True, slots=True)
class MadeOf:
    """What a trial's figures depend on; a ladder goes on only where all of it is the same.

    Attributes:
        target: what is tried.
        code: hash of the user's code, "" where it has none (built-in models).
        device: its name.
        versions: of torch, Python, the driver's interface, ...
        objective: what "better" means.
    """

    target: Target
    code: str
    device: str
    versions: Mapping[str, str]
    objective: str

    def differences(self, other: MadeOf) -> tuple[Text, ...]:
        """What is not the same, each a few words."""
        found = []
        if self.target != other.target:
            given = _given(other.target)
            found.append(
                Text("the target ({target}, {given})", target=other.target.name, given=given)
            )
        if self.code != other.code:
            found.append(Text("the code"))
        if self.device != other.device:
            found.append(Text("the device ({device})", device=other.device))
        if self.objective != other.objective:
            found.append(Text("the objective ({objective})", objective=other.objective))
        names = sorted({*self.versions, *other.versions})
        found += [
            Text("{name} ({version})", name=name, version=other.versions.get(name) or Text("none"))
            for name in names
            if self.versions.get(name) != other.versions.get(name)
        ]
        return tuple(found)


def _given(target: Target) -> Text:
    options = ", ".join(f"{k}={v}" for k, v in target.options.items())
    return verbatim(" ".join([options, *target.arguments]).strip()) or Text("no options")


class LadderStore:
    """The folder of one ladder.

    Args:
        folder: made where it is missing.
        made_of: what the figures depend on.

    Raises:
        InputFileError: the folder cannot be made.
    """

    def __init__(self, folder: Path, made_of: MadeOf) -> None:
        self.folder = folder
        self.made_of = made_of
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputFileError(
                Text("Cannot make the folder {folder}.", folder=folder),
                str(error.strerror),
                Text("Choose another: --out."),
            ) from error

    @property
    def path(self) -> Path:
        """The ladder's file."""
        return self.folder / LADDER_FILE

    def write(self, ladder: Ladder, *, finished: bool) -> None:
        """Write what is known until now, whole or not at all.

        Raises:
            InputFileError: it cannot be written.
        """
        from gpuscope.atomic import write_atomically

        document = ladder_document(ladder, self.made_of, finished=finished)
        text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
        write_atomically(self.path, text + "\n")

    def recall(self) -> Ladder | None:
        """What was measured before; None where nothing was.

        Raises:
            InputFileError: it was made of something else, or cannot be read.
        """
        if not self.path.exists():
            return None
        document = _document(self.path)
        before = _convert(document.get("made_of"), MadeOf, self.path)
        differences = self.made_of.differences(before)
        if differences:
            raise InputFileError(
                Text("{path} was made with something else.", path=self.path),
                Text(
                    "Not the same: {differences}. Its figures cannot be compared.",
                    differences=joined(differences),
                ),
                Text("Begin anew: leave out --resume, or choose another folder with --out."),
            )
        return _ladder(document, self.path)


def ladder_document(ladder: Ladder, made_of: MadeOf, *, finished: bool) -> dict[str, Any]:
    """A ladder as the versioned JSON document `gpuscope.ladder`.

    Its fields are those of `gpuscope.advice.results.Ladder`; predictions keep their figures and
    lose their timelines.

    Args:
        ladder: what was found.
        made_of: what its figures depend on.
        finished: whether the search came to its end.
    """
    import msgspec

    from gpuscope import __version__

    bare = replace(ladder, advice=None, trials=tuple(_without_run(t) for t in ladder.trials))
    return {
        "schema": _SCHEMA,
        "version": LADDER_VERSION,
        "gpuscope_version": __version__,
        "finished": finished,
        "made_of": _finite(msgspec.to_builtins(made_of, enc_hook=encoded)),
        **_finite(msgspec.to_builtins(bare, enc_hook=encoded)),
    }


def read_ladder(path: str | Path) -> Ladder:
    """A ladder that was written before.

    Args:
        path: `ladder.json`, or the folder that holds it.

    Raises:
        InputFileError: it is missing, unreadable, or no ladder.
    """
    place = Path(path)
    place = place / LADDER_FILE if place.is_dir() else place
    return _ladder(_document(place), place)


def _without_run(trial: Trial) -> Trial:
    forecast: Forecast | None = trial.forecast
    if forecast is None or forecast.run is None:
        return trial
    return replace(trial, forecast=replace(forecast, run=None))


def _finite(value: Any) -> Any:
    """JSON has no infinity: such numbers become "nan", "inf", "-inf", and are read as numbers."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    return value


def _document(path: Path) -> dict[str, Any]:
    from gpuscope.outside.plain import file_bytes, json_of

    try:
        document = json_of(file_bytes(path))
    except OSError as error:
        raise InputFileError(
            Text("Cannot read {path}.", path=path),
            str(error.strerror),
            Text("Type: gpuscope optimize --help"),
        ) from error
    except ValueError as error:
        raise InputFileError(
            Text("{path} is not JSON.", path=path),
            Text("{problem}.", problem=capital(error.args[0])),
            Text("Run `gpuscope optimize` again."),
        ) from error
    if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
        raise InputFileError(
            Text("{path} is no ladder.", path=path),
            "",
            Text("Give a ladder.json of `gpuscope optimize`."),
        )
    if document.get("version") != LADDER_VERSION:
        raise InputFileError(
            Text("{path} has version {version}.", path=path, version=document.get("version")),
            Text("This gpuscope reads version {version}.", version=LADDER_VERSION),
            Text("Run `gpuscope optimize` again."),
        )
    return document


def _ladder(document: Mapping[str, Any], path: Path) -> Ladder:
    names = Ladder.__dataclass_fields__
    found: Ladder = _convert({k: v for k, v in document.items() if k in names}, Ladder, path)
    for place, value in _figures(found):
        if value is not None and not (value != value or _LEAST <= value <= _MOST):
            raise InputFileError(
                Text("{path} is not whole.", path=path),
                Text("{place} is {value}, which cannot be.", place=place, value=str(value)),
                Text("Run `gpuscope optimize` again."),
            )
    return found


def _figures(ladder: Ladder) -> Iterator[tuple[str, float | None]]:
    """Times and ratios, which are above zero, with their places."""
    holders: list[tuple[str, Any]] = [("", ladder), ("baseline.", ladder.baseline)]
    for number, trial in enumerate(ladder.trials):
        own = f"trials[{number}]."
        holders += [(own, trial), (f"{own}forecast.", trial.forecast)]
        holders += [(f"{own}measured.", trial.measured)]
    for place, holder in holders:
        for name in ("speedup", "low", "high", "expected", "step_s", "low_s", "high_s"):
            yield f"{place}{name}", getattr(holder, name, None)


def _convert(value: Any, kind: Any, path: Path) -> Any:
    import msgspec

    try:
        return msgspec.convert(value, kind, strict=False, dec_hook=decoded)
    except msgspec.ValidationError as error:
        raise InputFileError(
            Text("{path} is not whole.", path=path),
            str(error),
            Text("Run `gpuscope optimize` again."),
        ) from error
