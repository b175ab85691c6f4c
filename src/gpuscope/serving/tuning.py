"""How far an engine's constants are from its profile on one machine: four factors, kept in a file.

    device    on all device time of the kernel models
    host      on what the host takes of an iteration
    request   on a request's way in and out
    stream    on the process that streams tokens

`gpuscope serve --calibrate` fits them to measured runs (`calibrate`), `--calibration` applies them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpuscope import __version__
from gpuscope.atomic import write_document
from gpuscope.document.plain import plain
from gpuscope.document.text import Text
from gpuscope.document.typed import MisfitError, typed
from gpuscope.errors import InputFileError, InvalidValueError
from gpuscope.run.reader import parsed_file
from gpuscope.serving.engine import Engine

SCHEMA = "gpuscope.serving_calibration"
VERSION = 1
MOST = 5.0
"""A factor beyond it, or below its inverse, is no machine but a mistake."""


@dataclass(frozen=True, slots=True)
class Sort:
    """A group of constants that move together.

    Attributes:
        label: what they are of.
        fields: of `Engine`.
    """

    label: Text
    fields: tuple[str, ...]


SORTS = {
    "device": Sort(Text("device time"), ("device_scale",)),
    "host": Sort(
        Text("host time of an iteration"),
        ("host_s", "host_sequence_s", "host_token_s", "serial_s", "serial_sequence_s",
         "serial_prompt_s", "serial_token_s", "eager_s", "launch_s", "host_prompt_s"),
    ),
    "request": Sort(
        Text("a request's way in and out"),
        ("request_s", "accept_s", "accept_token_s", "reply_s"),
    ),
    "stream": Sort(Text("streaming of a token"), ("token_s", "send_s")),
}  # fmt: skip
"""What is fitted, and no more: the sorts of constants that differ from machine to machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """On one sort of constants.

    Attributes:
        value: 1 where it is as in the profile.
        spread: relative standard error; None where the runs say nothing of it.
    """

    value: float
    spread: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Factors of a machine.

    Attributes:
        engine: profile that they are on.
        model, devices: what was measured.
        factors: by name of `SORTS`.
        runs, requests: how many they were fitted to.
        error_before, error_after: mean absolute relative error of what was compared.
    """

    engine: str
    model: str
    devices: str
    factors: Mapping[str, Factor] = field(default_factory=dict)
    runs: int = 0
    requests: int = 0
    error_before: float | None = None
    error_after: float | None = None

    def applied(self, engine: Engine) -> Engine:
        """The engine with its constants multiplied.

        Raises:
            InvalidValueError: it is another engine.
        """
        if engine.name != self.engine:
            raise InvalidValueError(
                Text("This calibration is of {one}, not of {other}.", one=self.engine,
                     other=engine.name),
                "",
                Text("Type: --engine {engine}", engine=self.engine),
            )  # fmt: skip
        told = Text(
            "Host and efficiency are those of {runs} measured runs of {model} on {devices}.",
            runs=self.runs, model=self.model, devices=self.devices,
        )  # fmt: skip
        values = {name: each.value for name, each in self.factors.items()}
        return replace(scaled(engine, values), tuned=told)


def scaled(engine: Engine, factors: Mapping[str, float]) -> Engine:
    """An engine whose constants of each sort are multiplied."""
    changed = {
        name: getattr(engine, name) * factor
        for sort, factor in factors.items()
        for name in SORTS[sort].fields
    }
    return replace(engine, **changed)


def save_tuning(found: Tuning, path: str | Path) -> None:
    """Write it, whole or not at all.

    Raises:
        InputFileError: it cannot be written there.
    """
    write_document(tuning_document(found), path)


def tuning_document(found: Tuning) -> dict[str, object]:
    """Return it as plain values."""
    head = {"schema": SCHEMA, "version": VERSION, "gpuscope_version": __version__}
    return {**head, **plain(found)}


def load_tuning(path: str | Path) -> Tuning:
    """Read a saved one.

    Raises:
        InputFileError: no such file, or none of this sort, or with factors that cannot be.
    """
    document = parsed_file(Path(path))
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise InputFileError(
            Text("{path} is no calibration of an engine.", path=path),
            "",
            Text("Make one with: gpuscope serve --calibrate measured.json.gz --output FILE"),
        )
    try:
        found = typed(Tuning, document)
        for name, factor in found.factors.items():
            if name not in SORTS or not 1 / MOST <= factor.value <= MOST:
                raise MisfitError(f"factors.{name}", Text("no factor from 1/5 to 5"))
    except MisfitError as error:
        raise InputFileError(
            Text("{path} cannot be used.", path=path), str(error), Text("Calibrate again.")
        ) from error
    return found
