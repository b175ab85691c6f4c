"""Cases for the tests of changes of graphs: a small model, an engine, a device."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

import gpuscope as gs
import onnx_models as models
from gpuscope.advice.forecast.forecaster import Forecaster

node = helper.make_node


def forecaster(path: Path, on: str = "h200", engine: str | None = None, **axes: int) -> Forecaster:
    """What predicts a graph under changes."""
    options = gs.WorkloadOptions(engine=engine, axes=tuple(axes.items()))
    return Forecaster(str(path), on, options=options)


def layers(path: Path, wide: int = 4096) -> Path:
    """Two products with a ReLU between them; large weights are in a file that is not there."""
    absent = wide > 1024
    weights = {name: models.weight(*((1, 1) if absent else (wide, wide))) for name in ("w1", "w2")}
    models.model(
        path,
        [
            node("MatMul", ["x", "w1"], ["a"], "first"),
            node("Relu", ["a"], ["r"], "relu"),
            node("MatMul", ["r", "w2"], ["y"], "second"),
        ],
        {"x": ["batch", wide]},
        weights,
    )
    if absent:
        proto = onnx.load(path)
        for each in proto.graph.initializer:
            each.ClearField("raw_data")
            each.dims[:] = [wide, wide]
            each.data_location = TensorProto.EXTERNAL
            each.external_data.add(key="location", value="absent.bin")
        onnx.save(proto, path)
    return path


def images(path: Path, channels: int = 64) -> Path:
    """Two convolutions over images with a ReLU between them."""
    return models.model(
        path,
        [
            node("Conv", ["x", "k1"], ["a"], "first", pads=[1, 1, 1, 1]),
            node("Relu", ["a"], ["r"], "relu"),
            node("Conv", ["r", "k2"], ["y"], "second", pads=[1, 1, 1, 1]),
        ],
        {"x": ["batch", channels, 56, 56]},
        {f"k{n}": models.weight(channels, channels, 3, 3) for n in (1, 2)},
    )


def branching(path: Path) -> Path:
    """A branch that data decides."""
    outputs = [helper.make_tensor_value_info("b", TensorProto.FLOAT, ["batch", 8])]
    body = helper.make_graph([node("Relu", ["x"], ["b"])], "body", [], outputs)
    return models.model(
        path,
        [
            node("ReduceSum", ["x"], ["s"], "sum", keepdims=0),
            node("Greater", ["s", "zero"], ["c"], "larger"),
            node("If", ["c"], ["y"], "branch", then_branch=body, else_branch=body),
        ],
        {"x": ["batch", 8]},
        {"zero": np.float32(0)},
    )
