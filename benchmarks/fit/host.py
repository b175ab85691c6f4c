"""Host constants from the recorded micro-benchmarks: `python benchmarks/fit/host.py`.

Reads validation/recordings/h200/micro/host.csv.gz and launch.csv.gz, writes the calibration's
host.toml. No model is fitted: each constant is the median of one measurement (or a difference of
two, said in its note); intervals are the least and the 90th percentile seen.
"""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "validation" / "recordings" / "h200" / "micro"
OUT = (
    ROOT / "src/gpuscope/hardware/catalogue/calibrations/nvidia-h200-sxm/host.toml"
)

#: operator -> micro-benchmark of the call that is just this operator
OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "div": "div", "neg": "neg", "pow": "pow",
    "exp": "exp", "rsqrt": "rsqrt", "cos": "cos", "eq": "eq_scalar", "where": "where",
    "masked_fill": "masked_fill", "mm": "mm", "bmm": "bmm", "addmm": "addmm",
    "native_layer_norm": "layer_norm", "rms_norm": "rms_norm",
    "native_batch_norm": "batch_norm_train", "native_group_norm": "group_norm",
    "_softmax": "softmax", "_log_softmax": "log_softmax", "gelu": "gelu", "silu": "silu",
    "relu": "relu", "tanh": "tanh", "sigmoid": "sigmoid", "native_dropout": "dropout",
    "sum": "sum", "mean": "mean_last", "amax": "amax", "argmax": "argmax", "topk": "topk",
    "cumsum": "cumsum", "sort": "sort", "linalg_vector_norm": "norm", "cat": "cat",
    "stack": "stack", "clone": "clone", "_to_copy": "to_bf16", "embedding": "embedding",
    "index": "index_tensor", "gather": "gather", "attention": "sdpa_causal",
    "convolution": "conv2d", "max_pool2d_with_indices": "max_pool2d",
    "_adaptive_avg_pool2d": "adaptive_avg_pool2d", "empty": "empty", "zeros": "zeros",
    "ones": "ones", "full": "full", "arange": "arange", "randn": "randn",
    "zeros_like": "zeros_like", "empty_like": "empty_like", "add_": "add_", "mul_": "mul_",
    "fill_": "fill_", "zero_": "zero_", "randint": "randint", "triu": "triu",
    "transpose": "transpose", "permute": "permute", "unsqueeze": "unsqueeze", "expand": "expand",
    "slice": "slice", "select": "select",
}  # fmt: skip


def read(name: str) -> list[dict[str, str]]:
    with gzip.open(DATA / f"{name}.csv.gz", "rt") as file:
        return list(csv.DictReader(file))


def main() -> None:
    rows = {(r["group"], r["name"], r["variant"]): r for r in read("host")}

    def get(group: str, name: str, variant: str) -> tuple[float, float, float]:
        r = rows[(group, name, variant)]
        return tuple(float(r[k]) * 1e-9 for k in ("median_ns", "min_ns", "p90_ns"))

    out: list[tuple[str, float, float, float, str]] = []

    def put(name: str, value: float, low: float, high: float, note: str = "") -> None:
        out.append((name, value, min(low, value), max(high, value), note))

    for op, micro in OPERATORS.items():
        for mode, variant in (("plain", "no_grad"), ("autograd", "grad")):
            if ("op", micro, variant) in rows:
                put(f"host.op.{op}.{mode}_s", *get("op", micro, variant))
    node = get("backward_per_node", "clone", "chain100")
    put("host.backward_node_s", *node,
        "one autograd node without an operator of its own: clone's backward per node")
    view = [get("op", "matmul3d2d", v)[0] - get("op", "mm", v)[0] for v in ("no_grad", "grad")]
    put("host.view.plain_s", view[0] / 2, view[0] / 2 * 0.7, get("op", "view", "no_grad")[0],
        "a view made inside C++: half of matmul3d2d minus mm")
    put("host.view.autograd_s", view[1] / 2, view[1] / 2 * 0.7, get("op", "view", "grad")[0],
        "likewise, recording autograd")
    module = get("module", "nn_linear", "grad")[0] - get("module", "f_linear", "grad")[0]
    put("host.module_call_s", module, get("module", "empty_module", "grad")[0], module * 2,
        "nn.Linear minus F.linear")
    steps = {
        n: {k: get("optimizer_step", k, str(n))[0] for k in ("adamw_foreach", "adamw_fused")}
        for n in (10, 100, 300)
    }
    zero = {n: get("zero_grad", "set_to_none", str(n))[0] for n in (10, 100, 300)}
    per = (steps[300]["adamw_foreach"] - steps[100]["adamw_foreach"]) / 200
    put("host.adamw_foreach.per_parameter_s", per, per * 0.8, per * 1.3, "300 minus 100 tensors")
    per = (steps[300]["adamw_fused"] - steps[100]["adamw_fused"]) / 200
    put("host.adamw_fused.per_parameter_s", per, per * 0.8, per * 1.3, "300 minus 100 tensors")
    per = (zero[300] - zero[100]) / 200
    put("host.zero_grad.per_parameter_s", per, per * 0.8, per * 1.3, "300 minus 100 tensors")
    put("host.item_s", *get("sync", "item", "round_trip"), "of a finished device scalar")
    put("host.synchronize_s", *get("sync", "synchronize_idle", "round_trip"), "nothing to wait for")
    launches = [r for r in read("launch") if r["case"].startswith("saturated:")]
    api = sorted(float(r["api_us"]) for r in launches)
    put("host.launch_s", 2.0e-6, 1.5e-6, api[len(api) // 2] * 1e-6,
        "high: as seen under the profiler; low and value: device-bound queue of add_ without it")
    lines = [
        "# Host costs of one operator call, measured without the profiler on an idle device with",
        "# tiny tensors (torch 2.11, Python 3.12, Intel Xeon 2.1 GHz virtual machine beside an",
        "# H200). Written by benchmarks/fit/host.py from validation/recordings/h200/micro.",
        'measured_with = "PyTorch 2.11, CUDA 13.0, driver 580.159, 2026-11-21"',
        "",
    ]
    for name, value, low, high, note in out:
        lines.append(f"[{name}]")
        lines.append(f"value = {value:.4g}\nlow = {low:.4g}\nhigh = {high:.4g}")
        lines.append('unit = "s"\norigin = "measured"')
        if note:
            lines.append(f'note = "{note}"')
        lines.append("")
    lines += [
        "[host.scale]", "value = 1.0", "low = 0.75", "high = 1.8", 'unit = "1"',
        'origin = "estimated"',
        'note = "other hosts: an eager batch-1 decode differed by 2x between two machines"', "",
    ]  # fmt: skip
    OUT.write_text("\n".join(lines))
    print(f"{len(out)} constants -> {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
