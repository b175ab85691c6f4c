"""Fit the kernel models of five devices to published operator measurements.

    git clone https://github.com/sitar-lab/NeuSight
    python benchmarks/fit/published_operators.py NeuSight/scripts/asplos/data [--write]

NeuSight (MIT licence; Lee et al. 2025, arXiv:2407.13853) carries times of single float32 operators
in PyTorch: batched products, linear layers, elementwise steps, softmax and layer norms on an MI210
(2.4.1); of its tables of NVIDIA's devices (2.1.0) the products are fitted, since a T4 and an L4
hold half of their clock at 70 W, which no other device tells. Each is the mean of the five shortest
of 25 calls between two events, so it holds the start of a kernel as events see it, the shortest
call of any operator; short calls, which show little else, are left out. Only the fitted constants
are kept here, not the measurements. Its whole models, which `validation/published` predicts, take
no part.

Half of the calls, by a hash of their sizes, are fitted; the other half judges: once with the
constants carried from other devices, once with the fitted ones.
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from matmul import UNIT
from published import figures, fitted
from recorded import Case, Recorded, fit, log_errors, loss, spread, summary, write_toml

from gpuscope.hardware import Device, device
from gpuscope.hardware.calibration import CALIBRATIONS, CalibratedValue, load_calibration
from gpuscope.measurement.calibrate.product_operators import dense, turned
from gpuscope.program.types import Op, TensorSpec

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "published_operators.json"
HOME = "nvidia-h200-sxm"
MEASURED_WITH = "NeuSight's operator measurements (MIT licence, arXiv:2407.13853), {torch}, float32"


@dataclass(frozen=True, slots=True)
class Table:
    """What was measured on a device.

    Attributes:
        device: of the catalogue.
        files: `{name}` of an operator -> its table.
        torch: that ran it.
        products: the same for products, of each run that is taken.
        events_s: the shortest call of any operator between its events.
        unit: of `matmul.<unit>.*`.
        families: of kernels that are fitted.
        every: of each run's products one in so many is taken.
        clock_hz: of the board, where the catalogue's is another; None: the catalogue's.
        only: name of the device where a table holds several; "" where it holds one.
    """

    device: str
    files: str
    torch: str
    products: tuple[str, ...]
    events_s: float
    unit: str
    families: tuple[str, ...] = ("matmul",)
    every: tuple[int, ...] = (1,)
    clock_hz: float | None = None
    only: str = ""

    @property
    def target(self) -> Device:
        """The device that was measured."""
        found = device(self.device)
        return found if self.clock_hz is None else found.replace(clock_hz=self.clock_hz)


def _nvidia(
    device_id: str,
    name: str,
    events_s: float,
    runs: tuple[str, ...] = ("train",),
    every: tuple[int, ...] = (6,),
    clock_hz: float | None = None,
) -> Table:
    files = f"dataset/train/collect/{{name}}/p2.1.0/{name}.csv"
    known = {"train": files, "test": "dataset/test/{name}.csv"}
    products = tuple(known[run] for run in runs)
    return Table(
        device_id,
        files,
        "PyTorch 2.1.0",
        products,
        events_s,
        "fp32",
        every=every,
        clock_hz=clock_hz,
        only=name,
    )


_MI210 = "dataset_amd/{part}/collect/{{name}}/p2.4.1/AMD Instinct MI210.csv"
TABLES = (
    Table(
        "amd-mi210",
        _MI210.format(part="train"),
        "PyTorch 2.4.1",
        (_MI210.format(part="test"),),
        1.2e-5,
        "fp32_matrix",
        ("matmul", "pointwise", "softmax", "normalization"),
    ),
    # Two runs: its clock under 70 W is not that of one day. In the second, linear layers took 17 %
    # less time than constants of the first said.
    _nvidia("nvidia-t4", "Tesla T4", 3.1e-5, ("train", "test"), (24, 6)),
    # The PCIe board's clock (14 TFLOP/s in NVIDIA's data sheet of the V100).
    _nvidia("nvidia-v100-sxm2-32gb", "Tesla V100-PCIE-32GB", 3.9e-5, clock_hz=1.38e9),
    _nvidia("nvidia-a100-pcie-40gb", "NVIDIA A100-PCIE-40GB", 3.0e-5),
    # NeuSight holds this one out of its own fits.
    _nvidia("nvidia-l4", "NVIDIA L4", 3.6e-5, ("test",), every=(4,)),
)

LONGEST_ROW = 16384
"""Products whose operands have longer rows ran at a third to a half of the rate of the others (rows
of 128 KiB and more fall on the same channels of the memory): not modelled, left out."""

PRODUCTS = {"bmm": "aten::bmm", "linear": "aten::addmm"}
ELEMENTWISE = {
    "add": "aten::add",
    "mul": "aten::mul",
    "div": "aten::div",
    "addu": "aten::add",
    "mulu": "aten::mul",
    "gelu": "aten::gelu",
    "tanh": "aten::tanh",
    "relu": "aten::relu",
}
"""Name in the tables -> operator; a last "u" is one tensor and a number."""

START = {
    "efficiency": 0.7,
    "bandwidth_efficiency": 0.8,
    "l2_bytes_per_clock_per_unit": 44.0,
    "tile_s": 5e-7,
    "store_bytes_per_clock_per_unit": 30.0,
    "narrow": 8.0,
    "layout_nt": 1.0,
    "throttle": 0.1,
    "throttle_s": 1e-2,
    "bias_store": 1.0,
    "reach": 1.0,
}
FIXED = ("throttle_s", "bias_store", "reach")
FITTED = tuple(name for name in START if name not in FIXED)
"""`throttle_s` cannot be told from `throttle` in the best five of 25 calls; a bias is copied to the
result beforehand, so adding it costs nothing of its own; `reach` is for constants of other vendors'
devices."""

MEMORY = {
    "pointwise": {
        "bandwidth.read_efficiency": 0.92,
        "bandwidth.write_efficiency": 0.9,
        "bandwidth.turnaround": 0.09,
    },
    "softmax": {
        "softmax.block.forward_cycles": 0.39,
        "softmax.block.forward_row_cycles": 4000.0,
        "softmax.block.forward_shared_cycles": 0.7,
        "softmax.block.forward_shared_row_cycles": 900.0,
    },
    "normalization": {
        "normalization.layer.wide.row_cycles": 40.0,
        "normalization.layer.wide.step_cycles": 345.0,
    },
}
"""Constants by the calls that tell them, in the order of fitting, with their defaults."""


def read(folder: Path, table: Table) -> Iterator[Case]:
    """Every call that is long enough, as the operator that it is."""
    names = [n for n in (*PRODUCTS, *ELEMENTWISE, "softmax", "ln") if _family(n) in table.families]
    for name in names:
        files = table.products if name in PRODUCTS else (table.files,)
        every = table.every if name in PRODUCTS else (1,)
        for file, step in zip(files, every, strict=True):
            yield from _calls(folder / file.format(name=name), name, table, step)


def _calls(path: Path, name: str, table: Table, step: int) -> Iterator[Case]:
    """One in so many calls of one operator in one file."""
    with path.open(newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if table.only in row.get("Device", "")]
    for row in rows[::step]:
        seconds = float(row["Latency"]) * 1e-3 - table.events_s
        sizes = {k: int(row[k]) for k in ("B", "M", "N", "K", "H") if k in row}
        make = _product if name in PRODUCTS else _memory
        case = make(name, sizes, seconds)
        if case is not None:
            yield case


def _case(name: str, sizes: Mapping[str, int], seconds: float, op: Op) -> Case:
    return Case(Recorded(name, sizes, "hot", (("", "", seconds),)), op, ())


def _product(name: str, sizes: Mapping[str, int], seconds: float) -> Case | None:
    b, m, k, n = (sizes[letter] for letter in "BMNK")  # theirs: M x N times N x K
    if not 3e-4 < seconds < 0.5 or k > LONGEST_ROW or m * n >= 2**31:
        return None
    if name == "bmm":
        inputs = _floats(b, m, k), _floats(b, k, n)
        return _case(name, sizes, seconds, _op("aten::bmm", inputs, _floats(b, m, n)))
    inputs = _floats(n), _floats(m, k), turned(_floats(n, k))
    return _case(name, sizes, seconds, _op("aten::addmm", inputs, _floats(m, n)))


def _memory(name: str, sizes: Mapping[str, int], seconds: float) -> Case | None:
    rows, columns = sizes["B"], sizes["H"]
    if seconds < 1e-4:
        return None
    x = _floats(rows, columns)
    if name == "softmax":
        op = _op("aten::_softmax", (x,), x, dim=-1)
    elif name == "ln":
        weight, moment = _floats(columns), _floats(rows, 1)
        op = _op(
            "aten::native_layer_norm",
            (x, weight, weight),
            x,
            moment,
            moment,
            normalized_shape=(columns,),
        )
    else:
        inputs = (x, x) if name in ("add", "mul", "div") else (x,)
        op = _op(ELEMENTWISE[name], inputs, x)
    return _case(name, sizes, seconds, op)


def _op(name: str, inputs: tuple[TensorSpec, ...], *outputs: TensorSpec, **options: object) -> Op:
    return Op(0, name, inputs=inputs, outputs=outputs, args=options)


def _floats(*shape: int) -> TensorSpec:
    return dense(*shape, dtype="float32")


def _family(bench: str) -> str:
    named = {"bmm": "matmul", "linear": "matmul", "softmax": "softmax", "ln": "normalization"}
    return named.get(bench, "pointwise")


def run(folder: Path, write: bool) -> dict[str, dict[str, object]]:
    """Fit every device; return the errors of the halves that judge."""
    return {table.device: _fit_device(folder, table, write) for table in TABLES}


def _fit_device(folder: Path, table: Table, write: bool) -> dict[str, object]:
    """Fit every family of a device; print the errors of the halves that judge."""
    target = table.target
    cases: dict[str, list[Case]] = {}
    for case in read(folder, table):
        cases.setdefault(_family(case.recorded.bench), []).append(case)
    carried = {
        name: entry.value
        for name, entry in load_calibration(CALIBRATIONS / HOME).entries
        if entry.unit in ("1", "s")
    } | {"matmul.fp32_matrix.reach": 0.65}
    known = dict(carried)
    results: dict[str, object] = {}
    sys.stdout.write(f"{table.device}\n")
    for family, own in {"matmul": _start(table, carried), **MEMORY}.items():
        if family not in table.families:
            continue
        names = [n for n in own if n.rsplit(".", 1)[1] in FITTED] if family == "matmul" else own
        train = [c for c in cases[family] if not c.recorded.held_out]
        held = [c for c in cases[family] if c.recorded.held_out]
        before = log_errors(held, target, carried)
        known |= own
        known = fit(known, lambda v, t=train: _loss(t, target, v), list(names), 5)
        after = log_errors(held, target, known)
        results[family] = {
            "points": len(held),
            "carried": figures(before),
            "fitted": figures(after),
        }
        _say(family, held, before, after)
        if write:
            path = CALIBRATIONS / table.device / f"{family}.toml"
            told = MEASURED_WITH.format(torch=table.torch)
            write_toml(path, told, _entries(known, own, after))
    return results


def _loss(cases: list[Case], target: Device, values: Mapping[str, float]) -> float:
    """As `recorded.loss`; no direction of the memory bus exceeds its peak."""
    if max(values["bandwidth.read_efficiency"], values["bandwidth.write_efficiency"]) > 1.0:
        return math.inf
    return loss(log_errors(cases, target, values))


def _start(table: Table, carried: Mapping[str, float]) -> dict[str, float]:
    """What a device's products begin with: for another vendor's matrix units by hand."""
    if table.unit == "fp32_matrix":
        return {f"matmul.fp32_matrix.{name}": value for name, value in START.items()}
    own = {name: f"matmul.{table.unit}.{name}" for name in FITTED}
    found = {own[name]: carried.get(own[name], START[name]) for name in own}
    return found | {own["throttle"]: 0.01}


def _entries(
    known: Mapping[str, float], own: Mapping[str, float], errors: list[float]
) -> dict[str, CalibratedValue]:
    """The constants of a family, the first with the interval that the judging half needs."""
    half = spread(errors)
    out = {}
    for at, name in enumerate(own):
        wide = half if at == 0 else 0.0
        unit = UNIT.get(name.rsplit(".", 1)[1], "1")
        value = known[name]
        out[name] = CalibratedValue(
            value, unit, "calibrated", value * (1 - wide), value * (1 + wide)
        )
    return out


def _say(family: str, held: list[Case], before: list[float], after: list[float]) -> None:
    for name in dict.fromkeys(c.recorded.bench for c in held):
        chosen = [at for at, c in enumerate(held) if c.recorded.bench == name]
        sys.stdout.write(f"{family:14s}{name:8s} carried {summary([before[i] for i in chosen])}\n")
        sys.stdout.write(f"{'':22s} fitted  {summary([after[i] for i in chosen])}\n")
    worst = max(after, key=abs)
    sys.stdout.write(f"{'':22s} worst {math.expm1(worst):+.0%}\n")


if __name__ == "__main__":
    sys.exit(fitted(__doc__, run, RESULTS))
