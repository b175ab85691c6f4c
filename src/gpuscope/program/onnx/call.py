"""One node's call: its inputs as tensors or as known values, its attributes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.program.onnx.graph import Node
from gpuscope.registry import Registry

if TYPE_CHECKING:
    from gpuscope.program.onnx.network import Network

__all__ = ["OPERATORS", "Call", "Quantized", "dtype_of", "onnx_operator"]


@dataclass(frozen=True, slots=True)
class Quantized:
    """What DequantizeLinear gives: the integers, until something wants real numbers."""

    integers: torch.Tensor
    dtype: torch.dtype


class Call:
    """What an operator is given.

    Attributes:
        node: the node, for its kind and attributes.
        values: its inputs: NumPy arrays where the values are known, tensors, `Quantized`, or None.
        network: whose node it is.
    """

    def __init__(self, node: Node, values: list[Any], network: Network) -> None:
        self.node, self.values, self.network = node, values, network

    @property
    def opset(self) -> int:
        """Version of the standard operators."""
        return self.network.graph.opset

    def given(self, index: int) -> bool:
        """Whether an input is there."""
        return index < len(self.values) and self.values[index] is not None

    def tensor(self, index: int = 0) -> torch.Tensor:
        """An input as a tensor on the device."""
        return self.network.on_device(self.values[index])

    def optional(self, index: int) -> torch.Tensor | None:
        """The same, None where it is absent."""
        return self.tensor(index) if self.given(index) else None

    def scalar_or_tensor(self, index: int) -> Any:
        """A known single number as a number (an engine has it in the kernel), else the tensor."""
        value = self.values[index]
        if isinstance(value, np.ndarray) and value.size == 1:
            return value.item()
        return self.tensor(index)

    def known(self, index: int) -> np.ndarray[Any, Any] | None:
        """An input's values; None where it is absent.

        Raises:
            InvalidValueError: they depend on data.
        """
        if not self.given(index):
            return None
        value = self.values[index]
        if isinstance(value, np.ndarray):
            return value
        raise InvalidValueError(
            Text(
                "'{node}' ({kind}) takes a size from data.",
                node=self.node.name,
                kind=self.node.kind,
            ),
            Text("What it makes has no shape before the model runs."),
            Text("Export with fixed sizes, or without that part."),
        )

    def ints(self, index: int, attribute: str = "") -> list[int] | None:
        """Whole numbers of an input, or of the attribute that older versions had for it."""
        found = self.known(index) if index >= 0 else None
        if found is None:
            found = self.node.attributes.get(attribute)
        return None if found is None else [int(v) for v in np.atleast_1d(np.asarray(found))]

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute's value."""
        return self.node.attributes.get(name, default)


Operator = Callable[[Call], Any]

OPERATORS = Registry[Operator](Text("ONNX operator"), "gpuscope.program.onnx.operators")


def onnx_operator(*names: str) -> Callable[[Operator], Operator]:
    """Register what computes nodes of these kinds; those of another domain are "domain::Kind"."""

    def register(operator: Operator) -> Operator:
        for name in names:
            OPERATORS.add(name, operator)
        return operator

    return register


def dtype_of(name: str) -> torch.dtype:
    """The dtype of that name."""
    found = getattr(torch, name, torch.float32)
    return found if isinstance(found, torch.dtype) else torch.float32


def fused(
    call: Call,
    inputs: list[torch.Tensor],
    made: list[tuple[torch.Size, torch.dtype]],
    columns: int = 1,
) -> list[torch.Tensor]:
    """One kernel of the engine's own: reads the inputs, writes tensors of these shapes and dtypes.

    Args:
        call: whose node it is.
        inputs: what it reads.
        made: what it writes.
        columns: values that it reduces for each row; 1: elementwise.
    """
    shapes, dtypes = [tuple(shape) for shape, _ in made], [dtype for _, dtype in made]
    return call.network.opaque(f"{call.node.kind}|{columns}", inputs, shapes, dtypes)


def positive_axis(axis: int, dims: int) -> int:
    """An axis counted from the front."""
    return axis + dims if axis < 0 else axis


def count(shape: Any) -> int:
    """Elements of a shape."""
    return math.prod(int(size) for size in shape)
