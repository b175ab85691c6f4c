"""ONNX Runtime's profile (`SessionOptions.enable_profiling`): sessions, nodes, and kernels.

Format: read off files of version 1.32, and the documentation, "Profiling tools". Times are
microseconds. A build with CUPTI also writes kernels ("Kernel").
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuscope.document.text import Text
from gpuscope.outside.plain import python_json_of
from gpuscope.timeline.engine_reports.reports import Event, Report, number, on_stream, span, step

_NODE = "_kernel_time"


def _events(raw: bytes) -> Iterator[Event]:
    found = python_json_of(raw)
    rounds = 0
    for event in found if isinstance(found, list) else ():
        if not isinstance(event, dict):
            continue
        start, length = number(event.get("ts")), number(event.get("dur"))
        if start is None or length is None:
            continue
        name, args = str(event.get("name", "")), event.get("args")
        args = args if isinstance(args, dict) else {}
        if event.get("cat") == "Session" and name == "model_run":
            yield step(rounds, start, length)
            rounds += 1
        elif event.get("cat") == "Node" and name.endswith(_NODE):
            yield span("user_annotation", name.removesuffix(_NODE), start, length)
            inputs = _shapes(args.get("input_type_shape"))
            yield span("cpu_op", str(args.get("op_name") or name), start, length, args=inputs)
        elif event.get("cat") == "Kernel":
            stream = args.get("stream")
            at = stream if isinstance(stream, int) and 0 <= stream < 1 << 20 else 0
            yield on_stream("kernel", name or "kernel", start, length, at)


def _shapes(found: object) -> Event:
    """What a node was given: [{"float": [2, 3]}, ...]."""
    dims, kinds = [], []
    for each in found if isinstance(found, list) else ():
        for kind, shape in each.items() if isinstance(each, dict) else ():
            whole = shape if isinstance(shape, list) else []
            dims.append([size for size in whole if isinstance(size, int)])
            kinds.append(str(kind))
    return {"Input Dims": dims, "Input type": kinds} if dims else {}


REPORTS = (
    Report(
        "onnxruntime",
        re.compile(rb'\s*\[\s*\{\s*"cat"\s*:\s*"(?:Session|Node|Kernel)"'),
        _events,
        Text(
            "ONNX Runtime's profile times nodes where they are called: of a GPU's nodes it says "
            "when they were launched, and of kernels only where the build records them. Memory "
            "over time and transfers are not in it."
        ),
        Text("Run the session at least once before end_profiling()."),
    ),
)
