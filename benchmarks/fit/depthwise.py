"""Fit the kernels of depthwise convolutions: `python benchmarks/fit/depthwise.py [--write FILE]`.

Reads single kernels, by name, of every depthwise call that may be fitted to: the bench's own
(`micro/convolution.csv.gz`), random ones (`wide.jsonl.gz`), cases apart and calls of other people's
models, of the seen families. Prints errors by form, and the constants as TOML.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT), str(ROOT / "validation")]

from benchmarks.harvest.calls import read as read_calls  # noqa: E402
from benchmarks.harvest.judge import CALLS, TIMES, held_out  # noqa: E402
from recorded import MEASURED_WITH, MICRO, fit, loss, read, summary, write_toml  # noqa: E402

from gpuscope.cost.convolution import depthwise_forms as forms  # noqa: E402
from gpuscope.hardware import device  # noqa: E402
from gpuscope.hardware.calibration import CalibratedValue  # noqa: E402

H200 = device("h200")
CLOCK_S = 1.0 / float(H200.clock_hz or 0)
UNITS = H200.compute_units or 1
CYCLE_S = CLOCK_S / UNITS
HALF = frozenset({"bf16", "bfloat16", "fp16", "float16"})
START = {
    "floor_s": 1.8e-6,
    "cycles": 0.5,
    "tap_cycles": 0.1,
    "chain_cycles": 30.0,
    "bandwidth_efficiency": 0.6,
}
ROLLED = 150.0
"""Clocks of a tap where the walk over them is not unrolled, to start from."""

NATIVE = {"floor_s": 2e-6, "step_cycles": 13.0, "chain_cycles": 200.0, "begin_cycles": 2000.0}
LONGEST_FLOOR_S = 4e-6
PRIOR = 0.02
"""Loss that a constant costs which is e times what it starts from: few points leave it there."""


@dataclass(frozen=True)
class Point:
    """A recorded kernel of a depthwise convolution."""

    kernel: str
    seconds: float
    hot: bool
    half: bool
    images: int
    channels: int
    sizes_in: tuple[int, ...]
    sizes_out: tuple[int, ...]
    window: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def strided(self) -> bool:
        return math.prod(self.stride) > 1

    @property
    def taps(self) -> float:
        """Inside the image, a result of the forward pass."""
        return forms.inside(
            self.sizes_in, self.sizes_out, self.window, self.stride, self.padding, self.dilation
        )

    @property
    def positions(self) -> tuple[int, int]:
        return math.prod(self.sizes_in), math.prod(self.sizes_out)

    @property
    def memory_s(self) -> float:
        moved = (2.0 if self.half else 4.0) * self.images * self.channels * sum(self.positions)
        share = forms.HOT_SHARE if self.hot and moved < (H200.l2_bytes or 0) / 2 else 1.0
        return share * moved / H200.memory_bandwidth_bytes_per_s


def benched() -> Iterator[Point]:
    """Of the bench's own calls."""
    for r in read(MICRO / "convolution.csv.gz"):
        p: Mapping[str, Any] = r.params
        if p["groups"] != p["c"] or p["c"] == 1:
            continue
        out = (p["hw"] + 2 * p["pad"] - p["r"]) // p["stride"] + 1
        pairs = [(v, v) for v in (p["hw"], out, p["r"], p["stride"], p["pad"], 1)]
        for name, _, took in r.kernels:
            yield Point(name, took, r.state == "hot", p["dtype"] in HALF, p["n"], p["c"], *pairs)


def drawn() -> Iterator[Point]:
    """Of random calls."""
    with gzip.open(MICRO / "wide.jsonl.gz", "rt") as lines:
        for row in map(json.loads, lines):
            p = row.get("params", {})
            if row.get("kind") != "convolution" or p["form"] != "depthwise" or "us" not in row:
                continue
            pad, n = p["dilation"] * (p["kernel"] // 2), p["dims"]
            out = (p["side"] + 2 * pad - p["dilation"] * (p["kernel"] - 1) - 1) // p["stride"] + 1
            sizes = (p["side"], out, p["kernel"], p["stride"], pad, p["dilation"])
            for name, _, _, _, us in row["kernels"]:
                yield Point(
                    name,
                    us * 1e-6,
                    row["state"] == "hot",
                    p["dtype"] in HALF,
                    p["n"],
                    p["cin"],
                    *((v,) * n for v in sizes),
                )


def harvested() -> Iterator[Point]:
    """Of other people's models (seen families) and cases apart."""
    calls, families = read_calls(CALLS)
    for path in (TIMES, MICRO / "cases.jsonl.gz"):
        with gzip.open(path, "rt") as lines:
            for row in map(json.loads, lines):
                if row.get("kind") != "convolution" or "us" not in row:
                    continue
                if "params" not in row and held_out(families[row["call"]]):
                    continue
                args = (row["params"] if "params" in row else calls[row["call"]].params)["args"]
                back = isinstance(args[2], dict) and len(args[2]["shape"]) > 1
                y, x, w = args[:3] if back else (None, *args[:2])
                stride, pad, dilation, _, _, groups = args[4 if back else 3 :][:6]
                if groups == 1 or groups != x["shape"][1]:
                    continue
                window, size = w["shape"][2:], x["shape"][2:]
                stride, pad, dilation = (
                    v * len(size) if len(v) < len(size) else v for v in (stride, pad, dilation)
                )
                out = [
                    (a + 2 * p - d * (k - 1) - 1) // s + 1
                    for a, p, d, k, s in zip(size, pad, dilation, window, stride, strict=True)
                ]
                for name, _, _, count, us in row["kernels"]:
                    if count == 1:
                        yield Point(
                            name,
                            us * 1e-6,
                            row["state"] == "hot",
                            x["dtype"] in HALF,
                            *x["shape"][:2],
                            *map(tuple, (size, out, window, stride, pad, dilation)),
                        )


def form_of(p: Point) -> str:
    """The form that a kernel's name says it is; "" for others."""
    width = "half" if p.half else "single"
    side = p.window[0] if len(set(p.window)) == 1 and len(p.window) == 2 else 0
    own = str(side) if side in (3, 5) else "any"
    strided = ".strided" if p.strided else ""
    # ATen's own compute in float32 whatever they read; those for any window have constants by hand.
    if "conv_depthwise2d" in p.kernel and "grad_weight" not in p.kernel and own == "any":
        return ""
    if "conv_depthwise2d_forward_kernel" in p.kernel:
        return f"native.forward.{own}"
    if "conv_depthwise2d_backward_kernel" in p.kernel:
        return f"native.data_gradient.{own}{strided}"
    if "conv_depthwise2d_grad_weight_kernel" in p.kernel:
        return "native.weight_gradient"
    three = "3" if side == 3 else "any"
    if p.kernel.startswith("conv2d_c1_k1_nhwc"):
        return f"nhwc.forward.{three}.{width}"
    if p.kernel.startswith("dgrad2d_c1_k1_nhwc"):
        return f"nhwc.data_gradient.{three}{strided}.{width}"
    if "nchw_shmem_tiling" in p.kernel:
        return "tiled"
    if p.kernel.startswith("wgrad2d_c1_k1_nhwc") and "reduce" not in p.kernel:
        return "nhwc.weight_gradient.half"
    return ""


def predicted_s(name: str, p: Point, v: Mapping[str, float]) -> float:
    """What a form's kernel takes with these constants."""
    size_in, size_out = p.positions
    if name.startswith("native.weight"):
        weights = p.channels * math.prod(p.window)
        form = forms.WeightForm(**v)
        return form.floor_s + forms.native_weight_s(
            form, p.images, size_out, weights, UNITS, CLOCK_S
        )
    form_ = forms.Form(**v)
    if name.startswith("nhwc.weight"):
        taps = math.prod(p.window)
        rows = forms.rows_weight_s(
            form_, p.images, p.channels, size_out, taps, p.memory_s, CYCLE_S, CLOCK_S
        )
        return form_.floor_s + rows
    back = "data_gradient" in name
    # ATen's strided gradient asks all taps, of which few have an output; so does cuDNN's.
    taps_ = p.taps if not back else math.prod(p.window) if p.strided else p.taps
    results = p.images * p.channels * (size_in if back else size_out)
    return form_.floor_s + forms.seconds(form_, results, taps_, p.memory_s, CYCLE_S, CLOCK_S)[0]


def fitted(
    name: str, points: list[Point], held: Mapping[str, float]
) -> tuple[dict[str, float], list[float]]:
    """Constants of a form and its log errors; `held` are given."""
    start = NATIVE if name.startswith("native.weight") else START
    if ".any" in name:
        start = {**start, "chain_cycles": ROLLED}

    def errors(v: Mapping[str, float]) -> list[float]:
        return [math.log(predicted_s(name, p, {**v, **held}) / p.seconds) for p in points]

    def score(v: Mapping[str, float]) -> float:
        if v.get("bandwidth_efficiency", 0.5) > 1.0 or v.get("floor_s", 0.0) > LONGEST_FLOOR_S:
            return math.inf
        moved = sum(abs(math.log(v[k] / start[k])) for k in v)
        return loss(errors(v)) + PRIOR * moved * min(1.0, 4 / len(points))

    starts = [start]
    if "tap_cycles" in start:
        starts = [{**start, "cycles": a, "tap_cycles": b} for a in (0.1, 1.5) for b in (0.05, 0.2)]
    starts = [{k: v for k, v in s.items() if k not in held} for s in starts]
    found = min((fit(dict(s), score, list(s), 7) for s in starts), key=score)
    return {**found, **held}, errors(found)


def main() -> int:
    """Fit all forms, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--write", type=Path, default=None, help="calibration file to write")
    args = parser.parse_args()
    groups: dict[str, list[Point]] = defaultdict(list)
    sources: tuple[Callable[[], Iterator[Point]], ...] = (benched, drawn, harvested)
    for source in sources:
        for point in source():
            groups[form_of(point)].append(point)
    groups.pop("", None)
    entries = {}
    cycles: dict[str, float] = {}
    for name in sorted(groups):
        # Nearly all large filters are of 7 x 7, which cannot tell a result's cost from its taps'.
        near = name.replace(".any", ".3")
        held = {"cycles": cycles[near]} if name.startswith("nhwc") and near != name else {}
        found, errors = fitted(name, groups[name], held)
        cycles[name] = found.get("cycles", 0.0)
        sys.stdout.write(f"{name:36s} {summary(errors)}  ")
        sys.stdout.write(" ".join(f"{k} {v:.3g}" for k, v in found.items()) + "\n")
        for key, value in found.items():
            unit = "s" if key.endswith("_s") else "1"
            entries[f"convolution.depthwise.{name}.{key}"] = CalibratedValue(
                value, unit, "calibrated", value, value
            )
    if args.write:
        write_toml(args.write, MEASURED_WITH, entries)
    return 0


if __name__ == "__main__":
    sys.exit(main())
