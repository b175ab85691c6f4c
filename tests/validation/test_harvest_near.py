"""Convolutions near others: what is varied is a convolution again, of the same sort."""

import gzip
import json
import random
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "validation")]

from benchmarks.harvest import near  # noqa: E402
from benchmarks.harvest.calls import Call, read  # noqa: E402
from benchmarks.harvest.drawn import convolution, tensor  # noqa: E402
from benchmarks.harvest.judge import held_out  # noqa: E402
from benchmarks.harvest.near import MOST_ELEMENTS, random_one, varied  # noqa: E402
from held_out.points import calibration_points  # noqa: E402

NEAR = ROOT / "validation" / "recordings" / "h200" / "near_calls.jsonl.gz"


def some(**more):
    """A forward pass and its two gradients."""
    rng = random.Random(1)
    return [Call("convolution", p) for p in convolution(rng, (4, 24, 14, 14), 24, (3, 3), **more)]


def transposed():
    x, w = tensor("float16", 2, 16, 9, 9), tensor("float16", 16, 8, 4, 4)
    args = [x, w, None, [2, 2], [1, 1], [1, 1], True, [0, 0], 1]
    switches = {"kwargs": {}, "tf32": False, "tf32_cudnn": True}
    return Call("convolution", {"op": "convolution.default", "args": args, **switches})


def runs(params):
    """The call on tensors that hold nothing; its results' shapes are those of its arguments."""
    args = [
        torch.empty_strided(
            a["shape"], a["stride"], dtype=getattr(torch, a["dtype"]), device="meta"
        )
        if isinstance(a, dict)
        else a
        for a in params["args"]
    ]
    name, overload = params["op"].split(".")
    found = getattr(getattr(torch.ops.aten, name), overload)(*args)
    if name == "convolution":
        return args, found
    data, weight, _ = found
    assert data is None or data.shape == args[1].shape
    assert weight is None or weight.shape == args[2].shape
    forward = torch.ops.aten.convolution.default
    assert forward(*args[1:3], None, *params["args"][4:10]).shape == args[0].shape
    return args, found


@pytest.mark.parametrize("groups", [1, 3, 24])
def test_what_is_varied_is_a_convolution_of_the_same_sort(groups):
    for call in [*some(groups=groups), *some(groups=groups, last=True, stride=2)]:
        made = [varied(random.Random(seed), call) for seed in range(9)]
        assert sum(params is not None for params in made) > 4
        for params in filter(None, made):
            assert params["op"] == call.params["op"]
            args, _ = runs(params)
            x, w = args[1:3] if "backward" in params["op"] else args[:2]
            assert list(w.shape[2:]) == [3, 3]
            assert max(x.numel(), w.numel()) <= MOST_ELEMENTS
            many = params["args"][9 if "backward" in params["op"] else 8]
            assert many == 1 or groups > 1
            if groups == 24:
                assert many == x.shape[1], "a filter a channel stays one"


def test_transposed_ones_stay_so():
    for seed in range(10):
        params = varied(random.Random(seed), transposed())
        if params is not None:
            _, result = runs(params)
            assert result.shape[2] >= 2 * params["args"][0]["shape"][2] - 1


def test_variants_differ():
    call = some()[0]
    made = [varied(random.Random(seed), call) for seed in range(30)]
    assert len({Call("convolution", p).mark for p in made if p is not None}) > 15


def test_a_random_point_is_the_call_that_its_module_makes():
    for point in calibration_points(["convolution"], [21])[::12]:
        args, found = runs(random_one(point.params))
        p = point.params
        x = args[1] if p["dir"] != "fwd" else args[0]
        assert list(x.shape) == [p["n"], p["cin"], *[p["side"]] * p["dims"]]
        if p["dir"] == "fwd":
            assert found.shape[1] == p["cout"]


def test_only_seen_families_are_varied(monkeypatch):
    monkeypatch.setattr(near, "SEEDS", ())
    calls = {call.mark: call for call in some()}
    other = next(f for f in map(str, range(20)) if not held_out({f}))
    hidden = next(f for f in map(str, range(20)) if held_out({f}))
    found = list(near.rows(calls, {mark: {other} for mark in calls}))
    assert [row["family"] for row in found] == [other]
    assert len(found[0]["calls"]) > 15
    assert not list(near.rows(calls, {mark: {hidden} for mark in calls}))


def test_the_recording_is_of_the_calls_in_the_repository():
    calls, _ = read(NEAR)
    with gzip.open(NEAR.with_name("near.jsonl.gz"), "rt") as lines:
        timed = [json.loads(line) for line in lines][1:]
    assert len(timed) > 10_000
    assert {row["call"] for row in timed} == calls.keys()
