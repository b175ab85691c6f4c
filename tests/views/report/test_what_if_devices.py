"""The same step on other devices: times as predicted, and what a device cannot do."""

from __future__ import annotations

from gpuscope import api
from gpuscope.document.blocks import Bars, Block, Table
from gpuscope.hardware import Cluster, device
from gpuscope.program.types import Op, Program, Storage, TensorSpec
from gpuscope.views.report.what_if_devices import DEVICES, device_blocks
from gpuscope.views.report.what_if_machines import Workload

H200 = device("h200")


def program(dtype: str, held_bytes: int = 0) -> Program:
    def spec(m: int, n: int) -> TensorSpec:
        return TensorSpec((m, n), (n, 1), dtype)

    op = Op(0, "aten::mm", inputs=(spec(4096, 4096), spec(4096, 4096)), outputs=(spec(4096, 4096),))
    held = (Storage(0, held_bytes, "parameter", -1, None),) if held_bytes else ()
    return Program("p", (op,), storages=held)


def _blocks(step: Program) -> tuple[Block, ...]:
    workload = Workload(step, Cluster.of(H200))
    return device_blocks(workload, workload.step(interval=True, memory=True))


def test_all_are_in_the_catalogue() -> None:
    assert len({device(name).id for name in DEVICES}) == len(DEVICES)


def test_times_are_those_of_a_prediction() -> None:
    step = program("bfloat16")
    bars, table = _blocks(step)
    assert isinstance(bars, Bars)
    assert isinstance(table, Table)
    times = {row[0]: row[1] for row in table.rows}
    for name in ("nvidia-a100-sxm-80gb", "amd-mi300x"):
        assert times[device(name).name] == api.predict(step, name).step_time_s
    assert bars.limit == times[H200.name]


def test_what_does_not_fit_is_said() -> None:
    step = program("bfloat16", held_bytes=60 << 30)
    bars, table = _blocks(step)
    assert isinstance(table, Table)
    fits = {row[0]: row[5] for row in table.rows}
    assert fits[device("nvidia-a10").name] == "no"
    assert fits[H200.name] == "yes"
    assert isinstance(bars, Bars)
    assert {bar.label for bar in bars.bars if bar.note} == {n for n, f in fits.items() if f == "no"}


def test_devices_without_the_dtype_are_left_out() -> None:
    step = program("float8_e4m3fn")
    _, table = _blocks(step)
    assert isinstance(table, Table)
    assert device("nvidia-a100-sxm-80gb").name not in {row[0] for row in table.rows}
