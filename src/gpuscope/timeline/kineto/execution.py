"""PyTorch's execution traces (Chakra) joined with the profiler's trace of the same run.

Format: `torch.profiler.ExecutionTraceObserver`, schema "1.0.x-chakra..." and later: `nodes`, each
with `inputs` (values, shapes, types, in newer ones strides) and `attrs`; no times. The attribute
`rf_id` is the profiler's "Record function id". Before Chakra ("1.0.1", PyTorch 2.0) all of these
stood in the node itself, and the profiler wrote the number as "External id". What an operator was
called with goes into the profiler's trace where that was recorded without shapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gpuscope.document.text import Text
from gpuscope.document.typed import MisfitError
from gpuscope.errors import InputFileError
from gpuscope.outside import limits
from gpuscope.outside.plain import file_bytes, python_json_of
from gpuscope.timeline.kineto.retold import Event, retold

_TENSOR = re.compile(r"^Tensor\(([\w:]+)\)$")
_ID = "Record function id"


def with_inputs(path: Path, execution: Path) -> bytes | None:
    """Return a profiler's trace with what an execution trace says of its operators' inputs.

    Args:
        path: the profiler's trace.
        execution: recorded in the same run.

    Returns:
        None where no operator of the one is an operator of the other, or none lacks its inputs.

    Raises:
        InputFileError: the execution trace is damaged or too large; as `retold` raises.
    """
    known = _inputs(execution)
    joined = 0

    def told(events: list[Event]) -> Iterator[Event]:
        nonlocal joined
        for event in events:
            said = event.get("args")
            args: Event = said if isinstance(said, dict) else {}
            found = known.get(str(args.get(_ID, args.get("External id"))))
            if found is None or "Input Dims" in args or event.get("name") != found["name"]:
                yield event
                continue
            joined += 1
            yield {**event, "args": {**args, **found["args"]}}

    text = retold(path, told, "ph", "X")
    return text if joined else None


def _inputs(path: Path) -> Mapping[str, Event]:
    """Name and arguments, in Kineto's words, by `rf_id`."""
    try:
        raw = file_bytes(path)
        found = python_json_of(raw)
    except (OSError, MisfitError) as error:
        raise InputFileError(
            Text("{path} is cut off or damaged.", path=path),
            str(getattr(error, "reason", None) or getattr(error, "strerror", None) or error),
            Text("Record it again, or leave it out."),
        ) from error
    nodes = found.get("nodes") if isinstance(found, dict) else None
    listed = [node for node in nodes if isinstance(node, dict)] if isinstance(nodes, list) else []
    if len(listed) > limits.events(len(raw)):
        raise limits.holds_too_many(path, Text("events"), limits.events(len(raw)))
    told = {}
    for node in listed:
        number, args = _number(node), _arguments(node)
        if number is not None and args is not None:
            told[number] = {"name": str(node.get("name")), "args": args}
    return told


def _number(node: Event) -> str | None:
    """The node's `rf_id` as text; None where it has none, or 0: its own marks."""
    if node.get("rf_id"):
        return str(node["rf_id"])
    attributes = node.get("attrs")
    for each in attributes if isinstance(attributes, list) else ():
        if isinstance(each, dict) and each.get("name") == "rf_id" and each.get("value"):
            return str(each["value"])
    return None


def _arguments(node: Event) -> Event | None:
    """Kineto's arguments of an operator; None where the lists do not go together."""
    inputs = node.get("inputs")
    if not isinstance(inputs, dict):
        inputs = {"values": inputs, "shapes": node.get("input_shapes")}
        inputs["types"] = node.get("input_types")
    values, shapes, types = (inputs.get(key) for key in ("values", "shapes", "types"))
    lists = [each for each in (values, shapes, types) if isinstance(each, list)]
    if len(lists) < 3 or len({len(each) for each in lists}) != 1:
        return None
    strides = inputs.get("strides")
    words = [_type(str(each)) for each in lists[2]]
    args: Event = {
        "Input Dims": lists[1],
        "Input type": words,
        "Concrete Inputs": [_concrete(v, w) for v, w in zip(lists[0], words, strict=True)],
    }
    if isinstance(strides, list) and len(strides) == len(words):
        args["Input Strides"] = strides
    return args


def _type(text: str) -> str:
    """ "Tensor(float)" as Kineto writes it: "float"; lists and values by their sort."""
    tensor = _TENSOR.match(text)
    if tensor is not None:
        return tensor[1]
    if text.startswith("GenericList["):
        return "TensorList" if "Tensor(" in text else "ScalarList"
    return "" if text in ("None", "") else "Scalar"


def _concrete(value: Any, word: str) -> str:
    if word not in ("Scalar", "ScalarList"):
        return ""
    return str(value)[:1000] if not isinstance(value, Mapping) else ""


def pairs(traces: Iterable[int | None], executions: Iterable[int | None]) -> list[int | None]:
    """Return, for each trace by its rank, the place of its execution trace; None without.

    One of each belong together; of several, those of equal ranks.
    """
    mine, others = list(traces), list(executions)
    if len(mine) == len(others) == 1:
        return [0]
    places = {rank: at for at, rank in enumerate(others) if rank is not None}
    return [places.get(rank) if rank is not None else None for rank in mine]
