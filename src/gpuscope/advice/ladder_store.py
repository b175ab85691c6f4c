"""Ladders as files: written whole after every trial, read again to go on or to be applied."""

from __future__ import annotations

import ast
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpuscope.advice.results import Forecast, Ladder, Target, Trial
from gpuscope.errors import InputFileError

__all__ = ["LADDER_FILE", "LADDER_VERSION", "LadderStore", "MadeOf", "code_hash", "read_ladder"]

LADDER_FILE = "ladder.json"
LADDER_VERSION = 1
_SCHEMA = "gpuscope.ladder"


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

    def differences(self, other: MadeOf) -> tuple[str, ...]:
        """What is not the same, each a few words."""
        found = []
        if self.target != other.target:
            found.append(f"the target ({other.target.name}, {_given(other.target)})")
        if self.code != other.code:
            found.append("the code")
        if self.device != other.device:
            found.append(f"the device ({other.device})")
        if self.objective != other.objective:
            found.append(f"the objective ({other.objective})")
        names = sorted({*self.versions, *other.versions})
        found += [
            f"{name} ({other.versions.get(name, 'none')})" for name in names
            if self.versions.get(name) != other.versions.get(name)
        ]  # fmt: skip
        return tuple(found)


def _given(target: Target) -> str:
    options = ", ".join(f"{k}={v}" for k, v in target.options.items())
    return " ".join([options, *target.arguments]).strip() or "no options"


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
                f"Cannot make the folder {folder}.", str(error.strerror), "Choose another: --out."
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
                f"{self.path} was made with something else.",
                f"Not the same: {', '.join(differences)}. Its figures cannot be compared.",
                "Begin anew: leave out --resume, or choose another folder with --out.",
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
        "schema": _SCHEMA, "version": LADDER_VERSION, "gpuscope_version": __version__,
        "finished": finished, "made_of": _finite(msgspec.to_builtins(made_of)),
        **_finite(msgspec.to_builtins(bare)),
    }  # fmt: skip


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


def code_hash(path: Path) -> str:
    """Hash of a Python file and of all files beside or below it that it imports, theirs included.

    Args:
        path: of the file.

    Raises:
        InputFileError: it cannot be read.
    """
    root, found = path.resolve().parent, {}
    waiting = [path.resolve()]
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        try:
            found[file] = file.read_bytes()
        except OSError as error:
            raise InputFileError(f"Cannot read {file}.", str(error.strerror)) from error
        waiting += _own_imports(found[file], file.parent, root)
    digest = hashlib.sha256()
    for file in sorted(found):
        digest.update(f"{file.relative_to(root)}\0{len(found[file])}\0".encode())
        digest.update(found[file])
    return digest.hexdigest()


def _own_imports(text: bytes, folder: Path, root: Path) -> list[Path]:
    """Files below the root that a file imports."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    names: list[tuple[Path, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [(root, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = root
            if node.level:
                base = folder if node.level == 1 else folder.parents[node.level - 2]
            module = node.module or ""
            names += [(base, f"{module}.{alias.name}".lstrip(".")) for alias in node.names]
            names += [(base, module)] if module else []
    places = [base.joinpath(*name.split(".")) for base, name in names]
    files = [f for p in places for f in (p.with_name(p.name + ".py"), p / "__init__.py")]
    return [f for f in files if f.is_file() and f.is_relative_to(root)]


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
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise InputFileError(
            f"Cannot read {path}.", str(error.strerror), "Type: gpuscope optimize --help"
        ) from error
    except ValueError as error:
        raise InputFileError(f"{path} is not JSON.", str(error)) from error
    if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
        raise InputFileError(
            f"{path} is no ladder.", "", "Give a ladder.json of `gpuscope optimize`."
        )
    if document.get("version") != LADDER_VERSION:
        raise InputFileError(
            f"{path} has version {document.get('version')}.",
            f"This gpuscope reads version {LADDER_VERSION}.", "Run `gpuscope optimize` again.",
        )  # fmt: skip
    return document


def _ladder(document: Mapping[str, Any], path: Path) -> Ladder:
    names = Ladder.__dataclass_fields__
    found: Ladder = _convert({k: v for k, v in document.items() if k in names}, Ladder, path)
    return found


def _convert(value: Any, kind: Any, path: Path) -> Any:
    import msgspec

    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InputFileError(f"{path} is not whole.", str(error), "") from error
