"""An ONNX file as plain data: nodes, constants, inputs; weights stay in their file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuscope.document.printable import harmless
from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text
from gpuscope.errors import InputFileError, UnsupportedError, require_package

__all__ = ["Constant", "Graph", "Input", "Node", "check_file", "read"]

LARGEST_BYTES = (1 << 31) - 1
"""What protobuf parses."""

KNOWN_ELEMENTS = 4096
"""Constants up to this many elements are read: shapes, indices, scales."""

OLDEST_OPSET = 7


@dataclass(frozen=True, slots=True)
class Node:
    """One node: `attributes` are plain values, `bodies` its subgraphs by attribute."""

    name: str
    kind: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    bodies: Mapping[str, Graph] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Constant:
    """A weight or another fixed tensor.

    Attributes:
        shape, dtype: as in `TensorSpec`.
        values: a NumPy array where it is small, else None.
        missing: the file that should hold its values and is not there.
    """

    shape: tuple[int, ...]
    dtype: str
    values: Any = None
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Input:
    """What a run is given: each size a number, or the name of a dynamic axis."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph in the order of its nodes.

    Attributes:
        opset: version of the standard operators.
        shapes: shape and dtype of what nodes make, as far as the file or shape inference says.
    """

    nodes: tuple[Node, ...]
    constants: Mapping[str, Constant]
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]
    opset: int = 0
    shapes: Mapping[str, Input] = field(default_factory=dict)


def read(path: Path) -> Graph:
    """Read a model; weights are not loaded.

    Raises:
        MissingPackageError: the package `onnx` is not installed.
        InputFileError: no such file, above 2 GB, or no ONNX model.
        UnsupportedError: its operators are of a version that is too old or too new.
    """
    proto = _proto(path)
    opset = _opset(path, proto)
    import onnx

    try:
        inferred = onnx.shape_inference.infer_shapes(proto).graph if len(proto.graph.node) else None
    except Exception:  # what is not inferred is found when the nodes are run
        inferred = None
    return _graph(proto.graph, path, opset, inferred)


def check_file(path: Path) -> None:
    """Refuse what cannot be a model, without reading it; raises as `read`."""
    if not path.is_file():
        raise InputFileError(
            Text("There is no file {path}.", path=path),
            "",
            Text("Give the path of an ONNX model: gpuscope predict model.onnx"),
        )
    size = path.stat().st_size
    if size > LARGEST_BYTES:
        raise InputFileError(
            Text("{path} is {size}: no ONNX file can be.", path=path, size=Bytes(size)),
            Text("Above 2 GB the weights lie in a file of their own."),
            Text("Export it with external data: torch.onnx.export(..., external_data=True)"),
        )
    require_package("onnx", Text("Reading an ONNX model"), "onnx")


def _proto(path: Path) -> Any:
    check_file(path)
    import onnx

    try:
        proto = onnx.load(str(path), load_external_data=False)
    except Exception as error:
        raise _broken(path, str(error)) from error
    if not proto.graph.node:
        raise _broken(path, Text("It holds no graph."))
    return proto


def _broken(path: Path, why: str) -> InputFileError:
    return InputFileError(
        Text("{path} is not a whole ONNX model.", path=path),
        harmless(str(why).strip().split("\n")[0][:200]) if not isinstance(why, Text) else why,
        Text("Export or download it again."),
    )


def _opset(path: Path, proto: Any) -> int:
    import onnx

    versions = {each.domain: each.version for each in proto.opset_import}
    opset = int(versions.get("", versions.get("ai.onnx", 0)))
    newest = onnx.defs.onnx_opset_version()
    if not OLDEST_OPSET <= opset <= newest:
        raise UnsupportedError(
            Text("{path} is written for operators of version {opset}.", path=path, opset=opset),
            Text("{oldest} to {newest} are known.", oldest=OLDEST_OPSET, newest=newest),
            Text("Update: pip install -U onnx")
            if opset > newest
            else Text("Export it again with opset_version=18."),
        )
    return opset


def _graph(proto: Any, path: Path, opset: int, inferred: Any = None) -> Graph:
    constants = {each.name: _constant(each, path) for each in proto.initializer}
    for sparse in proto.sparse_initializer:
        constants[sparse.values.name] = _constant(sparse.values, path)
    nodes = []
    for number, node in enumerate(proto.node):
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
            constants[node.output[0]] = _constant_node(node, path)
        else:
            nodes.append(_node(node, number, path, opset))
    known = inferred or proto
    return Graph(
        nodes=_ordered(nodes),
        constants=constants,
        inputs=tuple(_input(each) for each in proto.input if each.name not in constants),
        outputs=tuple(each.name for each in proto.output),
        opset=opset,
        shapes={
            each.name: _input(each)
            for each in (*known.value_info, *known.output)
            if each.type.tensor_type.HasField("shape")
        },
    )


def _ordered(nodes: list[Node]) -> tuple[Node, ...]:
    """The nodes, each after those whose results it reads: some tools append theirs at the end."""
    maker = {name: at for at, node in enumerate(nodes) for name in node.outputs if name}
    done: set[int] = set()
    made: list[Node] = []
    for first in range(len(nodes)):
        waiting = [first]
        while waiting:
            at = waiting[-1]
            before = {maker.get(name, at) for name in _reads(nodes[at])} - done - {*waiting}
            if before:
                waiting.append(min(before))
                continue
            waiting.pop()
            if at not in done:
                done.add(at)
                made.append(nodes[at])
    return tuple(made)


def _reads(node: Node) -> set[str]:
    """Names that a node reads, in its subgraphs, too."""
    inner = (each for body in node.bodies.values() for each in body.nodes)
    return {*node.inputs}.union(*map(_reads, inner))


def _node(node: Any, number: int, path: Path, opset: int) -> Node:
    import onnx

    attributes: dict[str, Any] = {}
    bodies: dict[str, Graph] = {}
    for each in node.attribute:
        if each.type == onnx.AttributeProto.GRAPH:
            bodies[each.name] = _graph(each.g, path, opset)
        elif each.type == onnx.AttributeProto.TENSOR:
            attributes[each.name] = _constant(each.t, path)
        else:
            value = onnx.helper.get_attribute_value(each)
            attributes[each.name] = (
                value.decode("utf-8", "replace") if isinstance(value, bytes) else value
            )
    return Node(
        harmless(node.name or f"{node.op_type}_{number}"),
        harmless(node.op_type),
        harmless("" if node.domain == "ai.onnx" else node.domain),
        tuple(node.input),
        tuple(node.output),
        attributes,
        bodies,
    )


def _constant_node(node: Any, path: Path) -> Constant:
    import numpy as np
    import onnx

    attribute = node.attribute[0]
    value = onnx.helper.get_attribute_value(attribute)
    if attribute.type == onnx.AttributeProto.TENSOR:
        return _constant(value, path)
    real = attribute.name in ("value_float", "value_floats")
    made = np.asarray(value, dtype=np.float32 if real else np.int64)
    return Constant(made.shape, str(made.dtype), made)


def _constant(tensor: Any, path: Path) -> Constant:
    """A tensor's shape, and its values where they are few."""
    import onnx

    shape, dtype = tuple(map(int, tensor.dims)), dtype_name(tensor.data_type)
    if any(size < 0 for size in shape):
        raise _broken(path, Text("A weight has a negative size."))
    outside = {each.key: each.value for each in tensor.external_data}
    missing = ""
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        file = path.parent / outside.get("location", "")
        missing = "" if file.is_file() else harmless(outside.get("location", "?"))
    if math.prod(shape) > KNOWN_ELEMENTS or missing or dtype == "string":
        return Constant(shape, dtype, None, missing)
    try:
        values = onnx.numpy_helper.to_array(tensor, str(path.parent))
    except Exception as error:
        raise _broken(path, str(error)) from error
    return Constant(shape, dtype, values)


def _input(value: Any) -> Input:
    kind = value.type.tensor_type
    shape: list[int | str] = []
    for number, size in enumerate(kind.shape.dim):
        if size.HasField("dim_value"):
            shape.append(int(size.dim_value))
        else:
            shape.append(harmless(size.dim_param) or f"{harmless(value.name)}_{number}")
    return Input(value.name, dtype_name(kind.elem_type), tuple(shape))


_DTYPES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    8: "string",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    21: "uint8",
    22: "int8",
}
"""By `TensorProto.DataType` (onnx/onnx.proto); 4-bit integers take a byte each here."""


def dtype_name(number: int) -> str:
    """Torch's name of an ONNX data type; "float32" where it is undefined."""
    return _DTYPES.get(int(number), "float32")
