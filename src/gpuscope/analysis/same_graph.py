"""Whether a profile of ONNX Runtime is one of the graph that was predicted: by names of nodes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.program.types import Op
from gpuscope.timeline.types import EVENT_KINDS

if TYPE_CHECKING:
    from gpuscope.run.types import Run

__all__ = ["check_same_graph"]

LEAST_SHARE = 0.5
"""Of a profile's nodes, so many have a name and an input's size that the graph knows: exporters
number nodes alike, so some agree by chance, and an engine makes some of its own."""

_FORMAT = "onnxruntime"

_FUSION = re.compile(r"[/._]MatMul\w*Fusion.*")
"""What its optimizer appends to the name of a product."""


def check_same_graph(a: Run, b: Run) -> None:
    """Refuse a prediction of one graph beside ONNX Runtime's profile of another.

    Raises:
        InvalidValueError: less than half of the profile's nodes are in what was predicted.
    """
    for predicted, profile in ((a, b), (b, a)):
        if predicted.origin != "predicted" or not _is_profile(profile):
            continue
        own, there = _nodes(predicted), _nodes(profile)
        same = sum(bool(sizes & own.get(name, sizes - sizes)) for name, sizes in there.items())
        if own and there and same < LEAST_SHARE * len(there):
            raise InvalidValueError(
                Text(
                    "{profile} is no profile of {model}: of its {count} nodes {same} are in the "
                    "graph with these sizes.",
                    profile=profile.name,
                    model=predicted.name,
                    count=len(there),
                    same=same,
                ),
                "",
                Text("Compare it with a prediction of the file and the sizes that were profiled."),
            )


def _is_profile(run: Run) -> bool:
    return any(source.format == _FORMAT for source in run.timeline.sources)


def _nodes(run: Run) -> dict[str, frozenset[int]]:
    """Elements of what each node is given, by its name: a prediction's module, a profile's mark."""
    events, names, ops = run.timeline.events, run.timeline.names, run.timeline.ops
    marks = events.kind == EVENT_KINDS.index("other")
    begun = dict(zip(events.start_ns[marks].tolist(), events.name[marks].tolist(), strict=True))
    found: dict[str, frozenset[int]] = {}
    working = (events.op >= 0) & (events.kind == EVENT_KINDS.index("operator"))
    for start, index in zip(
        events.start_ns[working].tolist(), events.op[working].tolist(), strict=True
    ):
        op = ops[index]
        if isinstance(op, Op):
            name = names[begun[start]] if start in begun else op.module
            sizes = frozenset(spec.numel for spec in op.inputs if spec.numel > 1)
            if name and sizes:
                key = _plain(name)
                found[key] = found.get(key, frozenset()) | sizes
    return found


def _plain(name: str) -> str:
    """A node's name however a tree of modules splits it, and without what an optimizer adds."""
    return _FUSION.sub("", name).replace("/", "_").replace(".", "_").strip("_")
