"""Reports of Nsight Compute: tables by our own reader, `.ncu-rep` by NVIDIA's own module."""

from __future__ import annotations

import importlib
import importlib.util
import math
from pathlib import Path
from typing import Any

from gpuscope.document.printable import harmless
from gpuscope.document.text import Text
from gpuscope.document.typed import MisfitError
from gpuscope.errors import InputFileError
from gpuscope.explanation.nsight_compute.table import read_table
from gpuscope.explanation.nsight_compute.types import Counted, Metric, counted, wanted
from gpuscope.outside.apart import read_apart

MODULE = "ncu_report"
"""NVIDIA, "Python Report Interface"; it lies in extras/python of an installed Nsight Compute."""

_DIMS = [[f"launch__{of}_dim_{axis}" for axis in "xyz"] for of in ("grid", "block")]


def read_report(path: str | Path) -> tuple[Counted, ...]:
    """Return the launches of a report, in their order.

    Args:
        path: what `ncu --csv` printed (pages "details" and "raw"), or an `.ncu-rep`.

    Raises:
        InputFileError: missing, no report, without launches, or an `.ncu-rep` where NVIDIA's module
            is not installed: says the command that makes a table of it.
    """
    target = Path(path)
    try:
        packed = target.name.lower().endswith(".ncu-rep")
        found = _native(target) if packed else read_table(target)
    except OSError as error:
        raise InputFileError(
            Text("{path} cannot be read.", path=path), f"{error.strerror or error}."
        ) from error
    except MisfitError as error:
        raise InputFileError(
            Text("{path} is no report of Nsight Compute.", path=path),
            Text("{reason}.", reason=error.reason),
            Text("Type: ncu --set full --csv PROGRAM > kernels.csv"),
        ) from error
    if not found:
        raise InputFileError(
            Text("{path} holds no kernel launch.", path=path),
            "",
            Text("Type: ncu --set full --csv PROGRAM > kernels.csv"),
        )
    return tuple(found)


def _command(path: Path) -> Text:
    return Text("Type: ncu --import {path} --csv --page raw > kernels.csv", path=path)


def _native(path: Path) -> list[Counted]:
    """The launches of an `.ncu-rep`, by the module of the tool that wrote it."""
    if importlib.util.find_spec(MODULE) is None:
        raise InputFileError(
            Text("{path} is read by Nsight Compute's own module, which is not here.", path=path),
            Text("'{module}' lies in its folder extras/python.", module=MODULE),
            _command(path),
        )
    with path.open("rb"):
        pass  # the module's own error does not say that a file is missing
    try:
        found: list[Counted] = read_apart(f"{__name__}:native", path)
    except InputFileError as error:
        raise InputFileError(error.what, error.why, _command(path)) from error
    return found


def native(path: str | Path) -> list[Counted]:
    """Read an `.ncu-rep` by NVIDIA's module: native code, so in a process of its own.

    Raises:
        InputFileError: the module says that it cannot.
    """
    module: Any = importlib.import_module(MODULE)
    try:
        report = module.load_report(str(path))
        spans = [report.range_by_idx(at) for at in range(report.num_ranges())]
        actions = [span.action_by_idx(at) for span in spans for at in range(span.num_actions())]
        return [_action(action) for action in actions]
    except Exception as error:  # whatever it makes of a damaged file
        raise InputFileError(
            Text("{path} cannot be read.", path=path), f"{error}."[:200]
        ) from error


def _action(action: Any) -> Counted:
    there = set(action.metric_names())
    metrics = [
        Metric(name, str(metric.unit() or ""), value)
        for name in sorted(there)
        if wanted(name)
        for metric in (action.metric_by_name(name),)
        if math.isfinite(value := float(metric.as_double()))
    ]
    grid, block = (_dim(action, names) if there.issuperset(names) else None for names in _DIMS)
    # The function's bare name, which is the default, is one for many kernels.
    symbol = str(action.name(action.NameBase_DEMANGLED))
    return counted(harmless(symbol), grid, block, metrics)


def _dim(action: Any, names: list[str]) -> tuple[int, int, int]:
    x, y, z = (int(action.metric_by_name(name).as_double()) for name in names)
    return x, y, z
