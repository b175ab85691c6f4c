"""A graph on a processor, predicted: its nodes one after the other, as in an engine's profile.

The run has the form that `gpuscope.loading` makes of ONNX Runtime's own profile (operators on the
host, no device), so that both can be compared node by node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpuscope.analysis import analyze
from gpuscope.capturing import capture
from gpuscope.cost.processor import NodeCost, node_costs
from gpuscope.document.quantities import ByteRate, Flops
from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError
from gpuscope.hardware.processors import Processor
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.program.onnx.engines import Engine, engine_named
from gpuscope.program.onnx.workload import DEFAULT_ENGINE, PROCESSOR
from gpuscope.program.types import Op
from gpuscope.run import Run
from gpuscope.timeline.types import EVENT_KINDS, Events, Lane, Step, Timeline

__all__ = ["predict_on_processor"]

_NS = 1e9


def predict_on_processor(
    workload: object, on: Processor, options: WorkloadOptions | None = None, strict: bool = False
) -> Run:
    """Predict a run of an ONNX graph on all cores of a processor.

    Args:
        workload: the path of an ONNX file.
        on: whose cores.
        options: sizes of its axes, and the engine: "onnxruntime" (the default) or "openvino".
        strict: refuse operators that are not understood.

    Raises:
        UnsupportedError: anything that is no ONNX graph.
    """
    if not isinstance(workload, str) or not workload.lower().endswith(".onnx"):
        raise UnsupportedError(
            Text("On a processor only an ONNX graph is predicted."),
            Text("What PyTorch or JAX does there is measured."),
            Text("Type: gpuscope measure ... --device cpu"),
        )
    options = replace(options or WorkloadOptions(), device=PROCESSOR)
    engine = engine_named(options.engine or DEFAULT_ENGINE, processor=True)
    program = capture(workload, options=options, strict=strict)
    costs = node_costs(program, on, engine.node_s or 0.0)
    timeline = _timeline(costs, engine)
    step_s = timeline.steps[0].end_ns / _NS
    return Run(
        name=program.name,
        target=f"{on.name}, {on.cores} cores",
        device_id="",
        origin="predicted",
        step_time_s=step_s,
        step_time_interval_s=(
            step_s / (1 + engine.spread),
            step_s * (1 + engine.spread) * on.at_base_clock,
        ),
        device_busy_s=float("nan"),
        host_busy_s=step_s,
        peak_memory_bytes=None,
        reserved_memory_bytes=None,
        energy_j=None,
        fits=None,
        timeline=timeline,
        analysis=analyze(timeline, step_time_s=step_s),
        assumptions=(*_said(on), *program.assumptions),
        origins={"step_time_s": "estimated", "host_busy_s": "estimated"},
        samples=program.samples,
    )


def _said(on: Processor) -> Sequence[Text]:
    """What is taken of the processor."""
    flops, rate = Flops(on.flops_per_s["fp32"]), ByteRate(on.memory_bytes_per_s)
    if on.origin == "measured":
        return (
            Text(
                "{name}: {cores} cores reach {flops} a second in float32 and {rate} of memory, as "
                "timed here.",
                name=on.name,
                cores=on.cores,
                flops=flops,
                rate=rate,
            ),
        )
    return (
        Text(
            "{name}: {cores} cores are taken to reach {flops} a second in float32 and {rate} of "
            "memory, from its maker's figures.",
            name=on.name,
            cores=on.cores,
            flops=flops,
            rate=rate,
        ),
    )


def _timeline(costs: Sequence[NodeCost], engine: Engine) -> Timeline:
    names = tuple(dict.fromkeys(each.kind for each in costs))
    place = {name: number for number, name in enumerate(names)}
    lengths = np.array([round(each.duration_s * _NS) for each in costs], np.int64)
    head = round(engine.run_s * _NS)
    ends = head + np.cumsum(lengths)
    count = len(costs)
    none = np.full(count, -1, np.int64)
    events = Events(
        start_ns=ends - lengths,
        duration_ns=lengths,
        name=np.array([place[each.kind] for each in costs], np.int64),
        kind=np.full(count, EVENT_KINDS.index("operator"), np.int64),
        lane=np.zeros(count, np.int64),
        op=np.arange(count, dtype=np.int64),
        kernel=none,
        correlation=none,
    )
    return Timeline(
        names=names,
        lanes=(Lane("host main", "host", 0, -1),),
        events=events,
        steps=(Step(0, int(ends[-1]) if count else head),),
        ops=tuple(_op(number, each) for number, each in enumerate(costs)),
    )


def _op(number: int, cost: NodeCost) -> Op:
    """A node as a profile tells it: its operator's name, what it was given, where it stands."""
    return Op(
        number, cost.kind, inputs=cost.ops[0].inputs, outputs=cost.ops[-1].outputs, module=cost.name
    )
