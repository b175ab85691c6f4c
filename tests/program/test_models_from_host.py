"""A built-in model's batch comes from the host's memory, and its result goes back there."""

from __future__ import annotations

import pytest

from gpuscope.capturing import capture
from gpuscope.errors import InvalidValueError
from gpuscope.program.models.parallel.options import ParallelOptions
from gpuscope.program.models.settings import WorkloadOptions

torch = pytest.importorskip("torch")

BATCH, SEQ, IMAGE = 2, 64, 32


def copies(name: str, **options) -> tuple[list, list]:
    """The program's first and last operators, and the copies from and to the host among all."""
    ops = capture(name, options=WorkloadOptions(batch=BATCH, **options)).ops
    moves = [op for op in ops if op.inputs and op.outputs]
    way = [(op.inputs[-1].device, op.outputs[0].device) for op in moves]
    inward = [op for op, (a, b) in zip(moves, way, strict=True) if (a, b) == ("host", "device")]
    outward = [op for op, (a, b) in zip(moves, way, strict=True) if (a, b) == ("device", "host")]
    return inward, outward


def nbytes(op) -> int:
    tensor, size = op.outputs[0], {"int64": 8, "float32": 4, "bfloat16": 2}
    count = 1
    for side in tensor.shape:
        count *= side
    return count * size[tensor.dtype]


def test_tokens_come_without_a_wait_and_the_loss_goes_back() -> None:
    pytest.importorskip("transformers")
    inward, outward = copies("gpt2", task="train", seq=SEQ, layers=1, from_host=True)
    assert [nbytes(op) for op in inward] == [BATCH * SEQ * 8]
    assert all(op.inputs[-1].pinned and not op.sync for op in inward)
    assert [nbytes(op) for op in outward] == [4]
    assert outward[0].sync  # the host waits for what it reads


def test_images_and_labels_come_and_scores_go_back() -> None:
    inward, outward = copies("resnet18", task="train", image=IMAGE, from_host=True)
    assert [nbytes(op) for op in inward] == [BATCH * 3 * IMAGE**2 * 4, BATCH * 8]
    assert [nbytes(op) for op in outward] == [4]
    inward, outward = copies("resnet18", task="inference", image=IMAGE, from_host=True)
    assert [nbytes(op) for op in inward] == [BATCH * 3 * IMAGE**2 * 2]
    assert [nbytes(op) for op in outward] == [BATCH * 1000 * 2]


def test_nothing_is_copied_unless_it_is_asked_for() -> None:
    assert copies("resnet18", task="train", image=IMAGE) == ([], [])


@pytest.mark.parametrize(
    "other", [{"device": "cpu"}, {"parallel": ParallelOptions(tp=2)}], ids=["cpu", "job"]
)
def test_where_no_way_leads_from_the_host_it_is_refused(other) -> None:
    with pytest.raises(InvalidValueError, match="from the host"):
        capture("gpt2", options=WorkloadOptions(task="train", from_host=True, **other))
