"""Forecasts as a file: predicted on one machine, tried on another without predicting again."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpuscope.advice.results import Forecast, Refusal, Target
from gpuscope.advice.source.code_hash import code_hash
from gpuscope.advice.source.locating import Located
from gpuscope.advice.types import Seen
from gpuscope.document.text import Text, capital, joined
from gpuscope.document.translations import decoded, encoded
from gpuscope.errors import InputFileError

__all__ = [
    "ADVICE_VERSION",
    "AdviceOf",
    "KeptAdvice",
    "advice_of_target",
    "read_advice",
    "write_advice",
]

ADVICE_VERSION = 1
_SCHEMA = "gpuscope.advice"

_HERE, _PACKAGES = "{here}", "{packages}"
_PACKAGE = re.compile(r"(?:/[^/\s\"'()]+)+/(?:site|dist)-packages/")

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AdviceOf:
    """What forecasts depend on.

    Attributes:
        target: what is tried; a file without its folder.
        code: hash of the user's code, "" for built-in models.
        device: id of the device in the catalogue.
        devices: how many.
        objective: what "better" means.
        allow: numerics and changes that were asked for, sorted.
        gpuscope: version.
    """

    target: Target
    code: str
    device: str
    devices: int
    objective: str
    allow: tuple[str, ...]
    gpuscope: str

    def differences(self, kept: AdviceOf) -> tuple[Text, ...]:
        """What is not the same in what was kept, each a few words."""
        found: list[Text] = []
        if self.target != kept.target:
            options = ", ".join(f"{k}={v}" for k, v in kept.target.options.items())
            target = f"{kept.target.name} {options}".rstrip()
            found.append(Text("the target (there: {target})", target=target))
        if self.code != kept.code:
            found.append(Text("the code"))
        if (self.device, self.devices) != (kept.device, kept.devices):
            device = f"{kept.devices}x{kept.device}"
            found.append(Text("the device (there: {device})", device=device))
        if self.objective != kept.objective:
            found.append(Text("the objective (there: {objective})", objective=kept.objective))
        if self.gpuscope != kept.gpuscope:
            found.append(Text("gpuscope (there: {version})", version=kept.gpuscope))
        if self.allow != kept.allow:
            allowed = ",".join(kept.allow) or Text("nothing")
            found.append(Text("--allow (there: {allowed})", allowed=allowed))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class KeptAdvice:
    """Advice and all forecasts that led to it, without timelines.

    Attributes:
        of: what it depends on.
        path: names of the best combination, in the order in which it was built up.
        singles: each change alone, the best first.
        forecasts: every set that was predicted, the baseline (no names) among them.
        free: names of singles that may be tried without being asked for, and do the same work.
        seen: of the code.
        unit, per_step: work of a step; ("", None) where unknown.
        refused: what cannot be made.
        notes: for the reader.
    """

    of: AdviceOf
    path: Names
    singles: tuple[Forecast, ...]
    forecasts: tuple[Forecast, ...]
    free: Names
    seen: Seen | None = None
    unit: str = ""
    per_step: int | None = None
    refused: tuple[Refusal, ...] = ()
    notes: tuple[Text, ...] = ()

    def forecasting(self) -> Callable[[Names], Forecast | None]:
        """A function that gives the forecast of a set of changes; None where none was made."""
        known = {frozenset(f.names): f for f in self.forecasts}
        return lambda names: known.get(frozenset(names))


def advice_of_target(
    located: Located, device: str, devices: int, objective: str, allow: Names
) -> AdviceOf:
    """What forecasts of a target depend on.

    Args:
        located: the target.
        device, devices, objective, allow: see `AdviceOf`.

    Raises:
        InputFileError: the user's code cannot be read.
    """
    from gpuscope import __version__

    target, code = located.target, ""
    if located.file is not None:
        name = f"{located.file.name}:{located.function}" if located.function else located.file.name
        target, code = replace(target, name=name), code_hash(located.file)
    # As JSON gives it back, so that what was kept compares equal.
    options = json.loads(json.dumps(dict(target.options), default=str))
    target = replace(target, options=options)
    return AdviceOf(
        target, code, device, devices, objective, tuple(sorted(set(allow))), __version__
    )


def write_advice(path: str | Path, kept: KeptAdvice, file: Path | None = None) -> None:
    """Write advice as the versioned JSON document `gpuscope.advice`, whole or not at all.

    Paths in it are kept relative to the user's file and to where packages lie.

    Args:
        path: where to.
        kept: what was found.
        file: the user's; None for built-in models.

    Raises:
        InputFileError: it cannot be written.
    """
    import msgspec

    from gpuscope.atomic import write_atomically

    bare = replace(
        kept, singles=tuple(map(_bare, kept.singles)), forecasts=tuple(map(_bare, kept.forecasts))
    )
    here = str(file.resolve().parent) if file is not None else ""
    body = _each_text(
        _finite(msgspec.to_builtins(bare, enc_hook=encoded)), lambda text: _portable(text, here)
    )
    document = {"schema": _SCHEMA, "version": ADVICE_VERSION, **body}
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    write_atomically(Path(path), text + "\n")


def read_advice(path: str | Path, of: AdviceOf, file: Path | None = None) -> KeptAdvice:
    """Advice that was kept, made of the same things.

    Args:
        path: of the file.
        of: what it has to be made of.
        file: the user's; None for built-in models.

    Raises:
        InputFileError: it is missing, unreadable, no advice, or of something else.
    """
    import msgspec

    document = _document(Path(path))
    here = str(file.resolve().parent) if file is not None else ""
    body = {k: v for k, v in document.items() if k in KeptAdvice.__dataclass_fields__}
    try:
        kept = msgspec.convert(
            _each_text(body, lambda text: _local(text, here)),
            KeptAdvice,
            strict=False,
            dec_hook=decoded,
        )
    except msgspec.ValidationError as error:
        raise InputFileError(Text("{path} is not whole.", path=path), str(error), _AGAIN) from error
    differences = of.differences(kept.of)
    if differences:
        raise InputFileError(
            Text("{path} was made for something else.", path=path),
            Text("Not the same: {differences}.", differences=joined(differences)),
            _AGAIN,
        )
    _check_names(kept, path)
    return replace(kept, seen=None if kept.seen is None else _with_tuples(kept.seen))


_AGAIN = Text("Make it anew: gpuscope advise TARGET --save advice.json")


def _check_names(kept: KeptAdvice, path: str | Path) -> None:
    from gpuscope.advice.registry import changes

    known = {change.name for change in changes()}
    sets = [f.names for f in (*kept.singles, *kept.forecasts)]
    unknown = sorted({n for names in (*sets, kept.path, kept.free) for n in names} - known)
    if unknown:
        raise InputFileError(
            Text("{path} names changes that there are not.", path=path),
            f"{', '.join(unknown)}.",
            _AGAIN,
        )


def _document(path: Path) -> dict[str, Any]:
    from gpuscope.outside.plain import file_bytes, json_of

    try:
        document = json_of(file_bytes(path))
    except OSError as error:
        raise InputFileError(
            Text("Cannot read {path}.", path=path), str(error.strerror), _AGAIN
        ) from error
    except ValueError as error:
        raise InputFileError(
            Text("{path} is not JSON.", path=path),
            Text("{problem}.", problem=capital(error.args[0])),
            _AGAIN,
        ) from error
    if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
        raise InputFileError(Text("{path} holds no advice.", path=path), "", _AGAIN)
    if document.get("version") != ADVICE_VERSION:
        raise InputFileError(
            Text("{path} has version {version}.", path=path, version=document.get("version")),
            Text("This gpuscope reads version {version}.", version=ADVICE_VERSION),
            _AGAIN,
        )
    return document


def _bare(forecast: Forecast) -> Forecast:
    return replace(forecast, run=None)


def _with_tuples(seen: Seen) -> Seen:
    """JSON has no tuples: arguments that were some are such again."""

    def plain(keywords: Mapping[str, object]) -> dict[str, object]:
        return {k: tuple(v) if isinstance(v, list) else v for k, v in keywords.items()}

    return replace(
        seen,
        optimizers=tuple(replace(o, keywords=plain(o.keywords)) for o in seen.optimizers),
        loaders=tuple(replace(each, keywords=plain(each.keywords)) for each in seen.loaders),
        wraps=tuple(replace(w, keywords=plain(w.keywords)) for w in seen.wraps),
    )


def _finite(value: Any) -> Any:
    """JSON has no infinity: such numbers become "inf", "nan", and are read as numbers."""
    if isinstance(value, float):
        return float(f"{value:.9g}") if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    return value


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _each_text(each, change) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_each_text(each, change) for each in value]
    return value


def _portable(text: str, here: str) -> str:
    """Paths of this machine as another understands them, also inside a sentence."""
    if here:
        text = text.replace(f"{here}/", f"{_HERE}/")
    return _PACKAGE.sub(f"{_PACKAGES}/", text)


def _local(text: str, here: str) -> str:
    """The path on this machine; "" where it has none. In a sentence, a file of a package stays."""
    text = text.replace(f"{_HERE}/", f"{here}/")
    if text.startswith(f"{_PACKAGES}/"):
        rest = text[len(_PACKAGES) + 1 :]
        found = (Path(folder) / rest for folder in sys.path)
        return str(next((f for f in found if f.is_file()), ""))
    return text
