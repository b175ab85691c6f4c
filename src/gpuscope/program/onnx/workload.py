"""An ONNX file as a workload: what `predict model.onnx` captures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.program.models.registry import Step
from gpuscope.program.models.settings import WorkloadOptions, canonical_dtype
from gpuscope.program.onnx.axes import axes_of, sizes_of, with_sizes
from gpuscope.program.onnx.engines import Engine, engine_named
from gpuscope.program.onnx.executing import as_executed
from gpuscope.program.onnx.graph import Graph, Input, read
from gpuscope.program.types import Program

__all__ = ["DEFAULT_ENGINE", "PROCESSOR", "OnnxBuild", "onnx_build"]

DEFAULT_ENGINE = "onnxruntime"

PROCESSOR = "cpu"
"""`WorkloadOptions.device` of a graph that is predicted on a processor."""

_TAKEN = frozenset({"task", "batch", "seq", "dtype", "device", "axes", "engine", "replicas"})
_REAL = {"float32": "float32", "tf32": "float32", "float16": "float16", "bfloat16": "bfloat16"}


@dataclass(frozen=True, slots=True)
class OnnxBuild:
    """A graph with its sizes, ready to be captured.

    Attributes:
        path: the file.
        model: as the file has it, sizes open.
        sizes: of its dynamic axes, by name.
        engine: what runs it.
        real: dtype in which float32 is computed.
        channels_last: convolutions read and write NHWC.
        replayed: a run is one CUDA graph.
        notes: filled by the capture.
    """

    path: Path
    model: Graph
    sizes: Mapping[str, int]
    engine: Engine
    real: str = "float32"
    channels_last: bool = False
    replayed: bool = False
    notes: list[Text] = field(default_factory=list, compare=False)

    @property
    def graph(self) -> Graph:
        """The model with a number for every size."""
        return with_sizes(self.model, self.sizes)

    @property
    def batch(self) -> int | None:
        """The first size of the first input, where that has several."""
        inputs = self.graph.inputs
        first = inputs[0].shape if inputs else ()
        return int(first[0]) if len(first) > 1 else None

    @property
    def title(self) -> str:
        """What runs, in one line."""
        sizes = " x ".join(f"{tuple(each.shape)} {each.dtype}" for each in self.graph.inputs)
        return f"{self.path.stem}, {sizes}, {self.engine.called}"

    @property
    def __name__(self) -> str:
        """The file's."""
        return self.path.stem

    def __call__(self) -> Step:
        """Make the weights and the inputs; the step runs the graph."""
        import torch

        from gpuscope.program.onnx.call import dtype_of
        from gpuscope.program.onnx.fusing import fused_graph
        from gpuscope.program.onnx.network import Network

        graph = fused_graph(self.graph, self.engine.fusions)
        network = Network(graph, self.engine, dtype_of(self.real), self.channels_last)

        def make(given: Input) -> Any:
            dtype = network.float_as(dtype_of(given.dtype))
            sizes = [int(size) for size in given.shape]
            made = torch.zeros(sizes, dtype=dtype, device="cuda")
            return network.laid(made) if len(sizes) == 4 else made

        inputs = {each.name: make(each) for each in graph.inputs}

        def step() -> object:
            with torch.no_grad():
                made = network(inputs)
            self.notes[:] = network.notes
            return made

        return step

    def executed(self, program: Program) -> Program:
        """What was captured, as the engine runs it."""
        return as_executed(program, self.engine, self.notes, self.replayed)


def onnx_build(path: Path, options: WorkloadOptions) -> OnnxBuild:
    """Read a model and give its axes their sizes.

    Raises:
        MissingPackageError, InputFileError, UnsupportedError: see `graph.read`.
        InvalidValueError, UnknownNameError: see `axes.sizes_of`; an option that a graph cannot
            take.
    """
    _refuse(path, options)
    processor = options.device == PROCESSOR
    engine = engine_named(options.engine or DEFAULT_ENGINE, processor)
    dtype = canonical_dtype(options.dtype) if options.dtype else "float32"
    if dtype not in _REAL:
        raise InvalidValueError(
            Text("A graph is not run in {dtype}.", dtype=dtype),
            Text("Its own integers say where it is quantized."),
            Text("Type: --dtype float16, or give a quantized model."),
        )
    if processor and dtype != "float32":
        raise InvalidValueError(
            Text("On a processor a graph is not run in {dtype}.", dtype=dtype),
            Text("What is written in the file is what its engines compute."),
            Text("Leave out --dtype."),
        )
    model = read(path)
    sizes = sizes_of(model, path, dict(options.axes), options.batch, options.seq)
    if engine.optimizer:
        from gpuscope.program.onnx.optimized import optimized

        model = optimized(path, sizes)
        sizes = {axis: sizes[axis] for axis in axes_of(model)}
    return OnnxBuild(path, model, sizes, engine, _REAL[dtype])


def _refuse(path: Path, options: WorkloadOptions) -> None:
    for each in fields(options):
        if each.name not in _TAKEN and getattr(options, each.name) not in (None, each.default):
            option = each.name.replace("_", "-")
            raise InvalidValueError(
                Text("{path} is a graph: it takes no --{option}.", path=path, option=option),
                Text("What it computes is fixed in the file."),
                Text("Leave out --{option}; sizes: --set batch=8", option=option),
            )
    if options.task not in (None, "inference", "prefill", "decode"):
        raise InvalidValueError(
            Text(
                "{path} is a graph for inference: it cannot {task}.", path=path, task=options.task
            ),
            "",
            Text("Leave out --task."),
        )
