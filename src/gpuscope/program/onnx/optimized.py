"""A graph as ONNX Runtime's own optimizer leaves it for its CPU provider.

Its rules are not written anew here: the installed package loads the graph and saves what it would
run. Weights are not needed for that: large ones are zeros in a file that takes no room on the disk,
so that a model whose external data is absent can be optimized, too. Which blocked layout it gives
convolutions depends on the processor that it is asked on (x86: blocks of 16 or 8 channels).
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import WorkloadError, require_package
from gpuscope.program.onnx.graph import KNOWN_ELEMENTS, Graph, read

__all__ = ["optimized"]

_WEIGHTS = "weights.bin"
_LARGE_BYTES = 4 * KNOWN_ELEMENTS


def optimized(path: Path, sizes: Mapping[str, int]) -> Graph:
    """The graph that ONNX Runtime runs on a processor.

    Args:
        path: the model.
        sizes: of its dynamic axes.

    Raises:
        MissingPackageError: `onnxruntime` is not installed.
        WorkloadError: it cannot load the model.
    """
    require_package("onnxruntime", Text("Predicting an ONNX model on a processor"), "onnx")
    with tempfile.TemporaryDirectory(prefix="gpuscope-") as folder:
        given, made = Path(folder) / "given.onnx", Path(folder) / "made.onnx"
        try:
            _without_weights(path, given)
            _optimize(given, made, sizes)
        except Exception as error:
            raise WorkloadError(
                Text("ONNX Runtime cannot load {path}.", path=path),
                str(error).strip().split("\n")[0][:300],
                Text('Check the model: python -c "import onnx; onnx.checker.check_model(PATH)"'),
            ) from error
        return read(made)


def _without_weights(path: Path, into: Path) -> None:
    """A copy of the model whose large weights are zeros elsewhere."""
    import onnx
    from onnx.external_data_helper import load_external_data_for_tensor

    model = onnx.load(str(path), load_external_data=False)
    end = 0
    for each in model.graph.initializer:
        outside = each.data_location == onnx.TensorProto.EXTERNAL
        nbytes = _nbytes(each)
        if outside and nbytes <= _LARGE_BYTES and (path.parent / _place(each)).is_file():
            load_external_data_for_tensor(each, str(path.parent))
            each.data_location = onnx.TensorProto.DEFAULT
        elif outside or nbytes > _LARGE_BYTES:
            _outside(each, end, nbytes)
            end += -(-nbytes // 4096) * 4096
    with (into.parent / _WEIGHTS).open("wb") as file:
        file.truncate(end)
    onnx.save(model, str(into))


def _place(tensor: Any) -> str:
    return next((str(e.value) for e in tensor.external_data if e.key == "location"), "")


def _nbytes(tensor: Any) -> int:
    import onnx

    if tensor.data_type == onnx.TensorProto.STRING:
        return 0
    whole = math.prod(tensor.dims)
    return int(whole * onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)


def _outside(tensor: Any, offset: int, nbytes: int) -> None:
    """Let a tensor name a place in the file of zeros instead of holding values."""
    import onnx

    kept = tensor.name, tensor.data_type, tuple(tensor.dims)
    tensor.Clear()
    tensor.name, tensor.data_type = kept[:2]
    tensor.dims.extend(kept[2])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", _WEIGHTS), ("offset", offset), ("length", nbytes)):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)


def _optimize(given: Path, made: Path, sizes: Mapping[str, int]) -> None:
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    settings.intra_op_num_threads = 1
    settings.optimized_model_filepath = str(made)
    for name, size in sizes.items():
        settings.add_free_dimension_override_by_name(name, size)
    for key, value in (
        ("session.disable_prepacking", "1"),
        ("session.optimized_model_external_initializers_file_name", "made.bin"),
        ("session.optimized_model_external_initializers_min_size_in_bytes", str(_LARGE_BYTES)),
    ):
        settings.add_session_config_entry(key, value)
    onnxruntime.InferenceSession(str(given), settings, providers=["CPUExecutionProvider"])
