"""Single nodes by ONNX Runtime's CPU provider, one thread: `python benchmarks/processor_nodes.py`.

What `gpuscope/cost/processor.toml` holds comes from here: how much of the vector units' peak
products and convolutions reach by their sizes, and the clocks of an element of other operators.
None of the graphs of `validation/onnx_processors.py` is among them. Prints a line a case: the
shortest of many runs, seconds, and what follows from it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

Case = tuple[str, str, dict[str, Any], list[tuple[int, ...]], list[tuple[int, ...]], float]
"""Name, operator, attributes, shapes of inputs, of weights, FLOPs."""


def products() -> Iterator[Case]:
    for m, n, k in (
        (1, 1024, 1024), (4, 1024, 1024), (16, 1024, 1024), (64, 1024, 1024), (512, 1024, 1024),
        (96, 96, 96), (96, 384, 96), (32, 96, 384), (200, 48, 48), (256, 256, 64), (1000, 1000, 32),
        (6, 64, 64), (33, 200, 300),
    ):  # fmt: skip
        yield f"mm {m}x{n}x{k}", "MatMul", {}, [(m, k)], [(k, n)], 2.0 * m * n * k
    for b, m, n, k in ((8, 100, 100, 64), (8, 100, 64, 100), (4, 40, 40, 32), (12, 256, 256, 64)):
        flops = 2.0 * b * m * n * k
        yield f"bmm {b}x{m}x{n}x{k}", "MatMul", {}, [(b, m, k), (b, k, n)], [], flops


def convolutions() -> Iterator[Case]:
    for name, x, w, more in (
        ("3x3", (1, 48, 40, 40), (48, 48, 3, 3), {"pads": [1, 1, 1, 1]}),
        ("3x3 wide", (1, 192, 20, 20), (192, 192, 3, 3), {"pads": [1, 1, 1, 1]}),
        ("3x3 deep", (1, 384, 8, 8), (384, 384, 3, 3), {"pads": [1, 1, 1, 1]}),
        ("3x3 stride", (1, 96, 40, 40), (96, 96, 3, 3), {"pads": [1] * 4, "strides": [2, 2]}),
        ("1x1", (1, 96, 40, 40), (192, 96, 1, 1), {}),
        ("1x1 small", (1, 32, 20, 20), (160, 32, 1, 1), {}),
        ("1x1 few", (1, 480, 8, 8), (96, 480, 1, 1), {}),
        ("first 5x5", (1, 3, 160, 160), (32, 3, 5, 5), {"pads": [2] * 4, "strides": [2, 2]}),
        ("patches", (1, 3, 160, 160), (192, 3, 8, 8), {"strides": [8, 8]}),
        ("depthwise", (1, 96, 60, 60), (96, 1, 3, 3), {"pads": [1] * 4, "group": 96}),
        ("depthwise 7x7", (1, 96, 30, 30), (96, 1, 7, 7), {"pads": [3] * 4, "group": 96}),
        ("depthwise small", (1, 480, 10, 10), (480, 1, 3, 3), {"pads": [1] * 4, "group": 480}),
        ("grouped", (1, 96, 30, 30), (96, 24, 3, 3), {"pads": [1] * 4, "group": 4}),
        ("1-D", (1, 80, 1000), (256, 80, 3), {"pads": [1, 1]}),
        ("1-D stride", (1, 96, 1000), (96, 96, 3), {"strides": [2]}),
    ):  # fmt: skip
        strides = more.get("strides", [1] * (len(x) - 2))
        out = [
            (s + sum(more.get("pads", [0] * 4)[i :: len(x) - 2]) - k) // d + 1
            for i, (s, k, d) in enumerate(zip(x[2:], w[2:], strides, strict=True))
        ]
        yield f"conv {name}", "Conv", dict(more), [x], [w], 2.0 * x[0] * prod(out) * prod(w)


def others() -> Iterator[Case]:
    for rows in (60, 1000):
        x = (rows, 600)
        for kind in (
            "Relu", "Sigmoid", "Erf", "Tanh", "Exp", "Sqrt", "Neg", "Reciprocal", "Clip",
            "Softmax", "Log", "Abs", "Sin",
        ):  # fmt: skip
            yield f"{kind} {rows}", kind, {}, [x], [], 0.0
        for kind in ("Add", "Mul", "Div", "Sub", "Pow"):
            yield f"{kind} {rows}", kind, {}, [x, x], [], 0.0
        yield f"Add row {rows}", "Add", {}, [x], [(600,)], 0.0
        yield f"Gelu {rows}", "com.microsoft::Gelu", {}, [x], [], 0.0
        yield f"FastGelu {rows}", "com.microsoft::FastGelu", {}, [x], [], 0.0
        yield f"QuickGelu {rows}", "com.microsoft::QuickGelu", {}, [x], [], 0.0
        yield f"LayerNorm {rows}", "LayerNormalization", {}, [x], [(600,), (600,)], 0.0
        skip = "com.microsoft::SkipLayerNormalization"
        yield f"SkipNorm {rows}", skip, {}, [x, x], [(600,), (600,)], 0.0
        yield f"Transpose {rows}", "Transpose", {"perm": [1, 0]}, [x], [], 0.0
        heads = (1, rows, 10, 60)
        yield f"Transpose heads {rows}", "Transpose", {"perm": [0, 2, 1, 3]}, [heads], [], 0.0
        yield f"Concat {rows}", "Concat", {"axis": 1}, [x, x], [], 0.0
        yield f"ReduceMean {rows}", "ReduceMean", {"keepdims": 1}, [x], [], 0.0
        image = (1, 60, rows // 10, 100)
        pool = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1] * 4}
        yield f"MaxPool {rows}", "MaxPool", pool, [image], [], 0.0
        yield f"InstanceNorm {rows}", "InstanceNormalization", {}, [image], [(60,), (60,)], 0.0
        yield f"Cast {rows}", "Cast", {"to": TensorProto.FLOAT16}, [x], [], 0.0
        yield f"Expand {rows}", "Expand", {"shape": (4, *x)}, [x], [], 0.0
        yield f"Gather {rows}", "Gather", {"rows": rows}, [], [(5000, 600)], 0.0
        yield f"Split {rows}", "Split", {"num_outputs": 2, "axis": 1}, [x], [], 0.0
        yield f"Slice {rows}", "Slice", {"ends": 300}, [x], [], 0.0


def session(case: Case, chain: int = 1, threads: int = 1, prefix: str = "") -> tuple[Any, Any]:
    _, kind, attributes, inputs, weights, _ = case
    domain, _, kind = kind.rpartition("::")
    given, stored, more = [], [], dict(attributes)
    for i, shape in enumerate(inputs):
        given.append(helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, shape))
    for i, shape in enumerate(weights):
        made = np.random.default_rng(i).uniform(0.01, 0.05, shape).astype(np.float32)
        stored.append(numpy_helper.from_array(made, f"w{i}"))
    names = [*(v.name for v in given), *(t.name for t in stored)]
    if "shape" in more:
        stored.append(numpy_helper.from_array(np.array(more.pop("shape"), np.int64), "s"))
        names.append("s")
    if "rows" in more:
        given.append(helper.make_tensor_value_info("i", TensorProto.INT64, (more.pop("rows"),)))
        names.append("i")
    if "ends" in more:
        for label, value in (("a", 0), ("b", more.pop("ends")), ("c", 1)):
            stored.append(numpy_helper.from_array(np.array([value], np.int64), label))
            names.append(label)
    nodes, last = [], names[0]
    outs = ["y0"] if kind != "Split" else ["y0", "z0"]
    for i in range(chain):
        made = [o.replace("0", str(i)) for o in outs]
        given_names = [last, *names[1:]]
        nodes.append(helper.make_node(kind, given_names, made, f"n{i}", domain=domain, **more))
        last = made[0]
    dtype = TensorProto.FLOAT16 if kind == "Cast" else TensorProto.FLOAT
    results = [helper.make_tensor_value_info(nodes[-1].output[0], dtype, None)]
    graph = helper.make_graph(nodes, "g", given, results, stored)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.log_severity_level = 3
    if prefix:
        settings.enable_profiling = True
        settings.profile_file_prefix = prefix
    made = ort.InferenceSession(
        model.SerializeToString(), settings, providers=["CPUExecutionProvider"]
    )
    rng = np.random.default_rng(0)
    feeds = {
        v.name: np.zeros(v_shape(v), np.int64) if v.name == "i"
        else rng.uniform(0.1, 1.0, v_shape(v)).astype(np.float32)
        for v in given
    }  # fmt: skip
    return made, feeds


def v_shape(value: Any) -> tuple[int, ...]:
    return tuple(d.dim_value for d in value.type.tensor_type.shape.dim)


def best(case: Case, chain: int = 1, threads: int = 1, runs_s: float = 0.15) -> float:
    """The shortest run, seconds; inputs and outputs bound, so that nothing is copied."""
    made, feeds = session(case, chain, threads)
    binding = made.io_binding()
    for name, value in feeds.items():
        binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(value))
    for each in made.get_outputs():
        binding.bind_output(each.name)
    for _ in range(3):
        made.run_with_iobinding(binding)
    found, end = [], time.perf_counter() + runs_s
    while time.perf_counter() < end or len(found) < 5:
        start = time.perf_counter()
        made.run_with_iobinding(binding)
        found.append(time.perf_counter() - start)
    return min(found)


def main() -> None:
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    tiny: Case = ("chain", "Relu", {}, [(4,)], [], 0.0)
    one, many = best(tiny, 1, threads), best(tiny, 401, threads)
    print(f"run {one * 1e6:.1f} us, a node more {(many - one) / 400 * 1e6:.2f} us")
    for case in (*products(), *convolutions(), *others()):
        try:
            seconds = best(case, 1, threads) - one
        except Exception as error:
            print(case[0], type(error).__name__, str(error)[:150])
            continue
        elements = max(prod(shape) for shape in (*case[3], (1,)))
        row = {"case": case[0], "us": round(seconds * 1e6, 2)}
        if case[5]:
            row["gflops"] = round(case[5] / seconds / 1e9, 1)
        else:
            row["ns_per_element"] = round(seconds / elements * 1e9, 4)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
