"""trtexec's layer information (`--exportLayerInfo`) beside a profile: what each layer is.

Format: TensorRT's engine inspector (`IEngineInspector`, JSON): with `--profilingVerbosity=detailed`
each layer's name, inputs with their sizes and formats, and tactic; without, names alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from gpuscope.document.text import Text
from gpuscope.document.typed import MisfitError
from gpuscope.errors import InputFileError
from gpuscope.outside.plain import file_bytes, python_json_of
from gpuscope.timeline.engine_reports.reports import Event, span

__all__ = ["BEGINS", "described", "is_layers"]

BEGINS = re.compile(rb'\s*\{\s*"Layers"\s*:\s*\[')

_TYPES = {
    "FP32": "float", "FP16": "c10::Half", "BF16": "c10::BFloat16", "FP8": "c10::Float8_e4m3fn",
    "INT8": "signed char", "INT32": "int", "INT64": "long int", "BOOL": "bool",
}  # fmt: skip
_TYPE = re.compile("|".join(_TYPES), re.I)
_SYMBOL = re.compile(r"[A-Za-z_]\w*")
_FIX = Text(
    "Type: trtexec --loadEngine=ENGINE --exportProfile=profile.json --exportLayerInfo=layers.json "
    "--separateProfileRun --profilingVerbosity=detailed"
)


def is_layers(head: bytes) -> bool:
    """Return whether a file's first bytes, unpacked, are those of layer information."""
    return BEGINS.match(head) is not None


def described(events: Iterable[Event], profile: Path, information: Path) -> Iterator[Event]:
    """A profile's events; each layer that is described becomes an operator with its inputs, whose
    kernel is the tactic.

    Args:
        events: of the profile, in Kineto's words.
        profile, information: the files.

    Raises:
        InputFileError: the information cannot be read, or none of its layers is in the profile.
    """
    known = _layers(information)
    listed = list(events)
    there = [str(event["name"]) for event in listed if event["cat"] == "kernel"]
    if there and not any(name in known for name in there):
        raise InputFileError(
            Text("{information} does not belong to {profile}.", information=information,
                 profile=profile),
            Text(
                "None of its {count} layers is in the profile, whose first is '{name}'.",
                count=len(known), name=there[0],
            ),
            _FIX,
        )  # fmt: skip
    for number, event in enumerate(listed):
        layer = known.get(str(event["name"])) if event["cat"] == "kernel" else None
        if layer is None:
            yield event
            continue
        # Nothing of the host was recorded: the operator takes no time, and only says what it is.
        args = {"External id": number + 1, **_inputs(layer)}
        yield span("cpu_op", str(event["name"]), event["ts"], 0.0, args=args)
        named = {**event["args"], "External id": number + 1}
        yield {**event, "name": _tactic(layer) or event["name"], "args": named}


def _layers(path: Path) -> dict[str, Event]:
    """Layers by name."""
    try:
        found = python_json_of(file_bytes(path))
    except (OSError, MisfitError) as error:
        raise InputFileError(Text("{path} is damaged.", path=path), str(error), _FIX) from error
    listed = found.get("Layers") if isinstance(found, dict) else None
    known: dict[str, Event] = {}
    for layer in listed if isinstance(listed, list) else ():
        told: Any = layer if isinstance(layer, dict) else {"Name": layer}
        if isinstance(told.get("Name"), str):
            known[told["Name"]] = told
    return known


def _inputs(layer: Event) -> Event:
    """Sizes and types of what a layer reads, as Kineto tells an operator's."""
    dims, kinds = [], []
    inputs = layer.get("Inputs")
    for each in inputs if isinstance(inputs, list) else ():
        if not isinstance(each, dict):
            continue
        sizes = each.get("Dimensions")
        dims.append([n for n in sizes if isinstance(n, int)] if isinstance(sizes, list) else [])
        found = _TYPE.search(str(each.get("Format/Datatype", "")))
        kinds.append(_TYPES[found[0].upper()] if found else "")
    return {"Input Dims": dims, "Input type": kinds} if dims else {}


def _tactic(layer: Event) -> str:
    """The kernel's symbol, else what sort of layer it is; "" where only the name is known."""
    tactic = str(layer.get("TacticName") or "")
    if _SYMBOL.match(tactic):
        return tactic
    return str(layer.get("LayerType") or "")
