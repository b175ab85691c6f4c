"""What cuDNN borrows for convolutions, against what an H200's allocator recorded."""

from __future__ import annotations

import csv
import gzip
import re
from dataclasses import replace
from pathlib import Path

import pytest
from matmul_work import dense

from gpuscope.cost.convolution.workspace import convolution_bytes
from gpuscope.cost.workspace import with_workspaces
from gpuscope.hardware import device
from gpuscope.program.types import Op, Program, TensorSpec

H200 = device("h200")
MEMORY = Path(__file__).parents[3] / "validation/recordings/h200/micro/memory.csv.gz"


def image(n: int, c: int, side: int, dtype: str, last: bool = False) -> TensorSpec:
    spec = dense(n, c, side, side, dtype=dtype)
    return replace(spec, stride=(c * side * side, 1, side * c, c)) if last else spec


def convolution(
    n=16,
    c=64,
    side=56,
    k=64,
    window=3,
    stride=1,
    groups=1,
    dtype="bfloat16",
    last=False,
    backward=False,
) -> Op:
    x, y = image(n, c, side, dtype, last), image(n, k, side // stride, dtype, last)
    w = image(k, c // groups, window, dtype)
    args = {"groups": groups, "stride": (stride, stride)}
    if backward:
        return Op(0, "aten::convolution_backward", "default", (y, x, w), (x, w), args)
    return Op(0, "aten::convolution", "default", (x, w), (y,), args)


def recorded() -> list[tuple[str, Op, int]]:
    """Channels-first passes with a window, and what each borrowed."""
    found = []
    shape = r"(\w+):n(\d+)c(\d+)hw(\d+)k(\d+)r(\d+)s(\d+)g(\d+):torch\.(\w+):torch\.(\w+)"
    with gzip.open(MEMORY, "rt", newline="") as stream:
        for row in csv.DictReader(stream):
            match = re.fullmatch(shape, row["name"])
            if row["group"] != "conv" or match is None:
                continue
            which, *sizes, dtype, layout = match.groups()
            n, c, side, k, window, stride, groups = map(int, sizes)
            if layout != "contiguous_format" or window == 1 or groups > 1:
                continue
            op = convolution(n, c, side, k, window, stride, dtype=dtype, backward=which != "fwd")
            borrowed = int(row["peak_extra_bytes"]) - int(row["allocated_bytes"])
            found.append((row["name"], op, borrowed))
    return found


def test_most_recorded_passes_borrow_copies_of_their_tensors() -> None:
    rows = recorded()
    close = [b for _, op, b in rows if convolution_bytes(op, H200) == pytest.approx(b, rel=0.2)]
    assert len(rows) == 24
    assert len(close) >= 19, [(name, b, convolution_bytes(op, H200)) for name, op, b in rows]


def test_by_hand() -> None:
    x = 16 * 64 * 56 * 56 * 2
    assert convolution_bytes(convolution(), H200) == 2 * x + 64 * 64 * 9 * 2
    few = convolution(64, 3, 224, 64, 7, 2)
    assert convolution_bytes(few, H200) == (64 * 224**2 + 64 * 49) * 8 * 2 + 64 * 64 * 112**2 * 2


@pytest.mark.parametrize(
    "op",
    [
        convolution(window=1),
        convolution(last=True),
        convolution(c=96, k=96, groups=96),
        convolution(dtype="float64"),
        Op(0, "aten::mm", inputs=(dense(4, 4),) * 2),
    ],
)
def test_nothing_to_copy_nothing_borrowed(op: Op) -> None:
    assert convolution_bytes(op, H200) == 0


def test_few_channels_are_padded_in_channels_last_too() -> None:
    op = convolution(64, 3, 224, 64, 7, 2, last=True)
    # Recorded: 52.4 MB, 1 MB more.
    assert convolution_bytes(op, H200) == (64 * 224**2 + 64 * 49) * 8 * 2


def test_who_borrows() -> None:
    assert convolution_bytes(convolution(), device("mi300x")) == 0
    op = convolution(dtype="float32")
    assert convolution_bytes(op, H200, tf32=False) == 0
    assert convolution_bytes(op, H200) > 0


def test_it_lives_for_the_call() -> None:
    made = with_workspaces(Program("test", (convolution(),)), H200)
    (borrowed,) = made.storages
    assert (borrowed.category, borrowed.born, borrowed.died) == ("workspace", 0, 1)


@pytest.mark.parametrize(
    ("sizes", "mib"),
    [
        # Recorded on an H200 (micro/cases.jsonl.gz).
        ({"c": 3, "side": 256, "dtype": "bfloat16"}, 0.0),
        ({"c": 3, "side": 256, "dtype": "float32"}, 0.0),
        ({"c": 3, "side": 256, "dtype": "float32", "backward": True}, 0.0),
        ({"c": 3, "side": 256, "dtype": "bfloat16", "backward": True}, 144.0),
        ({"c": 3, "side": 256, "dtype": "float32", "last": True}, 12.0),
        ({"c": 3, "side": 256, "dtype": "bfloat16", "last": True}, 16.0),
    ],
)
def test_few_channels_first_are_read_as_they_lie(sizes: dict[str, object], mib: float) -> None:
    assert convolution_bytes(convolution(**sizes), H200) / 2**20 == pytest.approx(mib, abs=0.2)


def test_volumes_with_a_filter_of_one_tap_are_copied() -> None:
    x, y = dense(2, 32, 96, 96, 96), dense(2, 4, 96, 96, 96)
    weight = dense(4, 32, 1, 1, 1)
    op = Op(0, "aten::convolution_backward", "default", (y, x, weight), (x, weight))
    assert convolution_bytes(op, H200) / 2**20 == pytest.approx(135.6, rel=0.02)


def volume_gradient(positions: tuple[int, int, int], k: int, wants: tuple[bool, bool]) -> Op:
    x, y = (dense(8, c, *positions, dtype="float32") for c in (32, k))
    weight = dense(k, 32, 1, 1, 1, dtype="float32")
    args = {"groups": 1, "stride": (1, 1, 1), "output_mask": (*wants, False)}
    return Op(0, "aten::convolution_backward", "default", (y, x, weight), (x, weight), args)


def test_large_volumes_are_turned_for_the_weights_of_one_tap_alone() -> None:
    large, small = (72, 72, 72), (8, 8, 8)
    turned = volume_gradient(large, 128, (True, True))
    assert convolution_bytes(turned, H200) == 8 * (32 + 128) * 72**3 * 4
    assert convolution_bytes(volume_gradient(large, 128, (True, False)), H200) == 0
    # A product an image, whose partial sums are added up.
    partial = volume_gradient(small, 128, (True, True))
    assert convolution_bytes(partial, H200) == 4 * 8 * 32 * 128
    # One result is a product of a matrix and a vector.
    assert convolution_bytes(volume_gradient(large, 1, (True, True)), H200) == 4 * 8 * 32


def test_rows_of_odd_channels_are_padded() -> None:
    op = convolution(8, 203, 25, 141, 3, dtype="bfloat16", last=True)
    padded = 8 * 25**2 * (208 + 144) * 2
    assert convolution_bytes(op, H200) == pytest.approx(padded + 141 * 208 * 9 * 2, rel=1e-6)


def test_without_tensor_cores_channels_last_are_turned() -> None:
    op = convolution(4, 64, 30, 96, 3, dtype="float32", last=True)
    sizes = sum(t.nbytes for t in (*op.inputs, *op.outputs))
    assert convolution_bytes(op, H200, tf32=False) == sizes
