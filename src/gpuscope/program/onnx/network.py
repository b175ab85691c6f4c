"""A graph as a PyTorch module: each node a module that calls PyTorch's operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError, InputFileError, WorkloadError
from gpuscope.program.onnx.call import OPERATORS, Call, Quantized, dtype_of
from gpuscope.program.onnx.engines import Engine
from gpuscope.program.onnx.folding import folded
from gpuscope.program.onnx.graph import Constant, Graph, Input, Node

__all__ = ["OPAQUE", "Network"]

OPAQUE = "gpuscope_onnx::node"
"""Operator that stands for a node of which PyTorch has none."""

_MOST_ROUNDS = 1000

_FEW = 2
"""Elements from which a known real tensor is a weight."""

_LIBRARY: Any = None


def _define() -> None:
    global _LIBRARY
    if _LIBRARY is None:
        namespace, _, name = OPAQUE.partition("::")
        _LIBRARY = torch.library.Library(namespace, "DEF")  # type: ignore[no-untyped-call]
        _LIBRARY.define(
            f"{name}(Tensor[] inputs, str kind, int[] sizes, int[] ranks, "
            "ScalarType[] dtypes) -> Tensor[]"
        )
        _LIBRARY.impl(name, _made, "Meta")


def _made(inputs: Any, kind: str, sizes: Any, ranks: Any, dtypes: Any) -> list[torch.Tensor]:
    made, at = [], 0
    for rank, dtype in zip(ranks, dtypes, strict=True):
        made.append(inputs[0].new_empty(sizes[at : at + rank], dtype=dtype))
        at += rank
    return made


class _Step(nn.Module):
    """One node, so that reports tell what it did under its name."""

    def forward(self, run: Callable[[], Any]) -> Any:
        return run()


class Network(nn.Module):
    """The graph with its weights.

    Args:
        graph: with a number for every size.
        engine: what runs it.
        real: dtype in which float32 is computed.
        channels_last: what convolutions read is NHWC, their filters turned when it is loaded.
    """

    def __init__(
        self, graph: Graph, engine: Engine, real: torch.dtype, channels_last: bool = False
    ) -> None:
        super().__init__()
        _define()
        self.graph, self.engine, self.real = graph, engine, real
        self.channels_last = channels_last
        self.notes: dict[Text, None] = {}
        self._kept: dict[object, Any] = {}
        self._tensors: dict[str, nn.Parameter] = {}
        self._weights: dict[int, nn.Parameter] = {}
        self._steps: dict[int, nn.Module] = {}
        self._place(graph)

    def _place(self, graph: Graph) -> None:
        """A module for every node, in the tree that the names of nodes make; weights go to the
        first node that reads them."""
        for node in graph.nodes:
            step = type(node.kind or "Node", (_Step,), {})()
            self._steps[id(node)] = step
            parent: nn.Module = self
            *path, name = [p.replace(".", "_") for p in node.name.split("/") if p] or [node.kind]
            for part in path:
                child = parent._modules.get(part)
                if child is None:
                    child = nn.Module()
                    parent.add_module(part, child)
                parent = child
            while hasattr(parent, name):
                name += "_"
            parent.add_module(name, step)
            for label in node.inputs:
                self._own(graph, label, step)
            for body in node.bodies.values():
                self._place(body)

    def _own(self, graph: Graph, label: str, step: nn.Module) -> None:
        constant = graph.constants.get(label)
        if constant is None or label in self._tensors or constant.dtype == "string":
            return
        known = constant.values
        if known is not None and (known.size < _FEW or "float" not in constant.dtype):
            return  # numbers that kernels hold, shapes, indices
        weight = torch.empty(constant.shape, dtype=self._dtype(constant.dtype), device="cuda")
        weight = self.laid(weight) if weight.dim() == 4 else weight
        self._tensors[label] = made = nn.Parameter(weight, requires_grad=False)
        if known is not None:
            self._weights[id(known)] = made
        name = label.rpartition("/")[2].replace(".", "_") or "weight"
        while hasattr(step, name):
            name += "_"
        step.register_parameter(name, made)

    def _dtype(self, name: str) -> torch.dtype:
        return self.float_as(dtype_of(name))

    def float_as(self, dtype: torch.dtype) -> torch.dtype:
        """What a dtype is computed in."""
        return self.real if dtype is torch.float32 else dtype

    def laid(self, images: torch.Tensor) -> torch.Tensor:
        """Images or filters, 4-D, in the layout that convolutions have."""
        if not self.channels_last:
            return images
        return images.contiguous(memory_format=torch.channels_last)

    def note(self, text: Text) -> None:
        """Something that a reader of the result should know; once."""
        self.notes[text] = None

    # -- values ------------------------------------------------------------------------------------

    def on_device(self, value: Any) -> torch.Tensor:
        """Any value as a tensor on the device; constants are there before the step."""
        if isinstance(value, torch.Tensor):
            return value
        if isinstance(value, Quantized) and self.engine.pointwise:
            return value.integers.to(self.float_as(value.dtype))
        if isinstance(value, Quantized):
            return self.opaque(
                "DequantizeLinear|1",
                [value.integers],
                [tuple(value.integers.shape)],
                [self.float_as(value.dtype)],
            )[0]
        if id(value) in self._weights:
            return self._weights[id(value)]
        if isinstance(value, np.ndarray):
            key = value.tobytes(), value.shape, str(value.dtype)
            return self._once(key, tuple(value.shape), self._dtype(str(value.dtype)))
        raise _unusable("?", Text("It is absent, or no tensor."))

    def stand_in(self, value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """A tensor of that shape and another dtype in the same place."""
        return self._once((id(value), dtype), tuple(value.shape), dtype)

    def _once(self, key: object, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        made: torch.Tensor = self.made_once(
            key, lambda: torch.empty(shape, dtype=dtype, device="cuda")
        )
        return made

    def made_once(self, key: object, make: Callable[[], Any]) -> Any:
        """What is made in the first step and stays."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def copied(self, view: torch.Tensor) -> torch.Tensor:
        """What an engine without strides makes of a view."""
        return view.contiguous() if self.engine.copies_views else view

    def opaque(
        self,
        kind: str,
        inputs: Sequence[torch.Tensor],
        shapes: Sequence[tuple[int, ...]],
        dtypes: Sequence[torch.dtype],
    ) -> list[torch.Tensor]:
        """Call a kernel of the engine's own that reads these and writes those."""
        sizes = [size for shape in shapes for size in shape]
        made: list[torch.Tensor] = torch.ops.gpuscope_onnx.node(
            list(inputs), kind, sizes, [len(shape) for shape in shapes], list(dtypes)
        )
        return made

    # -- running -----------------------------------------------------------------------------------

    def forward(self, given: Mapping[str, Any]) -> list[Any]:
        """Run all nodes.

        Args:
            given: tensors by the name of the graph's input.
        """
        return self._run(self.graph, dict(given))

    def _run(self, graph: Graph, values: dict[str, Any]) -> list[Any]:
        for name, constant in graph.constants.items():
            known = constant.values
            values[name] = self._tensors.get(name, constant) if known is None else known
        last = {name: n for n, node in enumerate(graph.nodes) for name in _read(node)}
        wanted = {*graph.outputs}
        for number, node in enumerate(graph.nodes):
            found = self._call(graph, node, values)
            made = found if isinstance(found, tuple) else (found,)
            values.update({o: v for o, v in zip(node.outputs, made, strict=False) if o})
            del found, made
            for name in _read(node):
                if last[name] == number and name not in wanted:
                    values.pop(name, None)
        return [values.get(name) for name in graph.outputs]

    def _call(self, graph: Graph, node: Node, values: dict[str, Any]) -> Any:
        inputs = [values.get(name) if name else None for name in node.inputs]
        for value in inputs:
            if isinstance(value, Constant):
                raise _unusable(node.name, _absent(value))
        known = folded(node, inputs, self.graph.opset)
        if known is not None:
            return known
        if node.kind in ("If", "Loop"):
            return self._control(node, inputs, values)
        call = Call(node, inputs, self)
        operator = OPERATORS.find(f"{node.domain}::{node.kind}" if node.domain else node.kind)
        try:
            if operator is None:
                return self._steps[id(node)](lambda: self._unknown(graph, call))
            return self._steps[id(node)](lambda: operator(call))
        except GpuscopeError:
            raise
        except Exception as error:
            raise WorkloadError(
                Text("Node '{node}' ({kind}) cannot run.", node=node.name, kind=node.kind),
                str(error).strip().split("\n")[0][:200],
                Text('Check the model: python -c "import onnx; onnx.checker.check_model(PATH)"'),
            ) from error

    def _control(self, node: Node, inputs: list[Any], values: dict[str, Any]) -> Any:
        if node.kind == "If":
            known = isinstance(inputs[0], np.ndarray)
            branch = "then_branch" if not known or inputs[0].item() else "else_branch"
            if not known:
                self.note(Text("'{node}' is taken to run its first branch.", node=node.name))
            return tuple(self._run(node.bodies[branch], dict(values)))
        body, rounds = node.bodies["body"], 1
        if isinstance(inputs[0], np.ndarray):
            rounds = min(int(inputs[0].item()), _MOST_ROUNDS)
        else:
            self.note(Text("'{node}' is a loop without a known end: one round.", node=node.name))
        state, scanned = inputs[2:], []
        for number in range(rounds):
            names = [each.name for each in body.inputs]
            start = dict(zip(names, [np.array(number), np.array(True), *state], strict=False))
            found = self._run(body, {**values, **start})
            state = found[1 : 1 + len(state)]
            scanned.append(found[1 + len(state) :])
        stacked = [
            torch.stack([self.on_device(each) for each in column])
            for column in zip(*scanned, strict=True)
        ]
        return (*state, *stacked)

    def _unknown(self, graph: Graph, call: Call) -> Any:
        """Reads its inputs and writes its outputs, as far as their shapes are known."""
        node = call.node
        inputs = [call.tensor(i) for i in range(len(call.values)) if call.given(i)]
        if not inputs:
            raise _unusable(node.name, Text("'{kind}' is not known.", kind=node.kind))
        shapes, dtypes = [], []
        for name in node.outputs:
            known = graph.shapes.get(name)
            if known is None or not all(isinstance(size, int) for size in known.shape):
                self.note(
                    Text(
                        "The result of '{kind}' is taken to have the shape of its first input.",
                        kind=node.kind,
                    )
                )
                known = Input(name, "", tuple(inputs[0].shape))
            shapes.append(tuple(int(size) for size in known.shape))
            dtypes.append(self._dtype(known.dtype) if known.dtype else inputs[0].dtype)
        kind = f"{node.domain}.{node.kind}" if node.domain else node.kind
        return tuple(self.opaque(kind, inputs, shapes, dtypes))


def _read(node: Node) -> set[str]:
    """Names that a node reads, in its subgraphs, too."""
    names = {name for name in node.inputs if name}
    for body in node.bodies.values():
        for inner in body.nodes:
            names |= _read(inner)
        names |= set(body.outputs)
    return names


def _absent(constant: Constant) -> Text:
    if constant.missing:
        return Text("Its values are in {file}, which is not there.", file=constant.missing)
    return Text("It needs values that are too many to read.")


def _unusable(name: str, why: Text) -> InputFileError:
    return InputFileError(
        Text("'{name}' cannot be used.", name=name),
        why,
        Text("Keep the model's files together, or export it again."),
    )
