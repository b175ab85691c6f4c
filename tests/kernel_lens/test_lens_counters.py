"""The lens against hardware counters of an H200 (tests/data/lens): equal, not near."""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from lens_examples import EXAMPLES, Seen, needs_triton

import gpuscope as gs
from gpuscope.kernel_lens.requests import bank_passes
from gpuscope.kernel_lens.runner import look
from gpuscope.kernel_lens.types import Launch

sys.path.insert(0, str(EXAMPLES.parents[1] / "benchmarks" / "lens"))
from counted import LAUNCHES

DATA = Path(__file__).resolve().parents[1] / "data" / "lens"

Row = dict[str, str]


def _rows(name: str) -> list[Row]:
    with (DATA / name).open(newline="") as file:
        return list(csv.DictReader(file))


KERNELS = [row for row in _rows("h200_kernels.csv") if "<" not in row["kernel"]]
LOADS = [row for row in _rows("h200_kernels.csv") if "<" in row["kernel"]]
TRITON = _rows("h200_triton.csv")
PLACES = {
    "copy": "coalescing",
    "strided_copy": "coalescing",
    "shifted_copy": "coalescing",
    "naive": "transpose",
    "tiled": "transpose",
    "padded": "transpose",
    "straight": "matmul",
    "product": "matmul",
}


def _counted(launch: Launch, space: str) -> dict[str, int]:
    """The lens's figures under the names of the counters."""
    found: dict[str, int] = {}
    for access in launch.accesses:
        if access.space == space:
            what = f"{space}_{access.kind}"
            second = ("sectors", access.sectors) if space == "global" else ("passes", access.passes)
            for name, value in (("requests", access.requests), second):
                found[f"{what}_{name}"] = found.get(f"{what}_{name}", 0) + value
    return found


def _of(row: Row, space: str) -> dict[str, int]:
    return {
        name: int(value) for name, value in row.items() if name.startswith(space) and int(value) > 0
    }


@pytest.mark.parametrize("row", KERNELS, ids=lambda row: row["kernel"])
def test_examples_in_cuda_c(seen: Seen, row: Row):
    name = row["kernel"]
    launch = seen.one("tiled" if name == "product" else name, PLACES[name])
    for space in ("global", "shared"):
        assert _counted(launch, space) == _of(row, space)


@pytest.mark.parametrize("row", LOADS, ids=lambda row: row["kernel"])
def test_loads_of_shared_memory(row: Row):
    words, step, jump = map(int, re.findall(r"-?\d+", row["kernel"]))
    lane = np.arange(32)
    addresses = (lane * step + np.where(lane >= 16, jump, 0)) * words * 4
    passes, _, _ = bank_passes(addresses[None, :], np.ones((1, 32), bool), words * 4, 32, 4)
    assert passes.tolist() == [int(row["shared_load_passes"])]


def test_there_is_something_to_compare():
    assert len(KERNELS) == len(PLACES)
    assert len(LOADS) > 30
    assert len(TRITON) == 3


@needs_triton
def test_triton():
    seen = Seen(look(str(EXAMPLES / "triton_copies.py")))
    for row in TRITON:
        assert _counted(seen.one(row["kernel"]), "global") == _of(row, "global")


COUNTED = json.loads((DATA / "h200_counted.json").read_text("utf-8"))["counts"]
TEXTBOOK = {row["kernel"]: row for row in _rows("h200_textbook.csv")}


@pytest.fixture(scope="module")
def textbook(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Launch]:
    """The kernels of textbook.cu under the lens, as `benchmarks/lens/counted.py` launches them."""
    pytest.importorskip("pycparser")
    lines = [
        "from pathlib import Path",
        "from gpuscope.kernel_lens.cuda_launch import CudaLaunch, launcher",
        "def launch():",
    ]
    for name, (grid, block, shared, n) in LAUNCHES.items():
        given = {} if n is None else {"n": str(n)}
        how = f"CudaLaunch({grid}, {block}, {given}, {shared})"
        lines.append(f"    launcher(Path({str(EXAMPLES / 'textbook.cu')!r}), {name!r}, {how})()")
    file = tmp_path_factory.mktemp("textbook") / "all.py"
    file.write_text("\n".join(lines), "utf-8")
    return {launch.kernel: launch for launch in gs.lens(f"{file}:launch").launches}


def test_kernels_that_count_themselves(textbook: dict[str, Launch]):
    for row in COUNTED:
        launch = textbook[row["kernel"]]
        mine = [a for a in launch.accesses if (a.array, a.kind) == (row["array"], row["kind"])]
        assert sum(access.requests for access in mine) == row["requests"], row
        if row["kind"] != "atomic":  # its sectors follow from the keys
            assert sum(access.sectors for access in mine) == row["sectors"], row


@pytest.mark.parametrize("name", sorted(TEXTBOOK))
def test_textbook_kernels_in_hardware_counters(textbook: dict[str, Launch], name: str):
    counted = _counted(textbook[name], "global")
    for key, value in _of(TEXTBOOK[name], "global").items():
        assert counted[key] == value, key
