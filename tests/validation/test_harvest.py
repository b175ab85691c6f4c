"""Harvested calls: what is taken from a capture comes out of a capture of it again."""

import json
import sys
from pathlib import Path

import torch

import gpuscope as gs

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "validation")]

from benchmarks.harvest.calls import Call, kind_of, read  # noqa: E402
from benchmarks.harvest.collect import cases, listening, step_of  # noqa: E402
from benchmarks.harvest.judge import CALLS, TIMES, held_out  # noqa: E402


def heard_in(build):
    heard = {}
    with listening(heard):
        gs.capture(build)
    return heard


def step():
    table = torch.randn(50, 16, device="cuda")
    weight = torch.randn(24, 16, device="cuda", requires_grad=True)
    ids = torch.randint(0, 50, (4, 8), device="cuda")
    picture = torch.randn(2, 3, 8, 8, device="cuda").contiguous(memory_format=torch.channels_last)
    kernel = torch.randn(5, 3, 3, 3, device="cuda")

    def work():
        x = torch.nn.functional.embedding(ids, table)
        y = (x.transpose(1, 2).contiguous() @ torch.ones(8, 1, device="cuda")).squeeze(-1)
        z = y @ weight.t()
        z.masked_fill(z > 1, float("-inf")).softmax(-1).sum().backward()
        torch.nn.functional.conv2d(picture, kernel, padding=1).mul_(2.0)
        heads = torch.randn(2, 4, 32, 64, device="cuda", dtype=torch.float16)
        torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)

    return work


def test_a_call_made_again_is_the_call():
    heard = heard_in(step)
    assert len(heard) > 12
    kinds = {kind_of(p["op"]) for p in heard.values()}
    assert {"matmul", "attention", "convolution", "softmax", "gather", "copy"} <= kinds
    for text, params in heard.items():
        again = heard_in(Call("any", json.loads(text)).build)
        assert text in again, params["op"]


def test_whole_numbers_stay_below_what_they_index():
    shape = {"dtype": "float32", "shape": [7, 3], "stride": [3, 1], "host": True}
    ids = {"dtype": "int64", "shape": [1000], "stride": [1], "host": True}
    params = {"args": [shape, ids], "kwargs": {}, "tf32": False, "tf32_cudnn": True}
    found = Call("gather", {"op": "embedding.default", **params}).build()()
    assert found.shape == (1000, 3)
    assert len(found.unique(dim=0)) == 7, "all rows are met"


def test_complex_numbers_are_drawn_whole():
    left = {"dtype": "complex64", "shape": [4, 6], "stride": [6, 1], "host": True}
    right = {"dtype": "complex64", "shape": [6, 5], "stride": [5, 1], "host": True}
    params = {"args": [left, right], "kwargs": {}, "tf32": False, "tf32_cudnn": True}
    found = Call("matmul", {"op": "mm.default", **params}).build()()
    assert found.dtype == torch.complex64
    assert found.imag.abs().min() > 0


def test_the_draw_is_the_same_each_time_and_families_are_whole():
    assert cases() == cases()
    task, kind, way = cases()[0]
    assert step_of(task, kind, way)[0] == step_of(task, kind, way)[0]
    assert not held_out({"some", "other", "families", "bert", "gpt2", "llama", "vit"})


def test_the_recording_is_of_the_calls_in_the_repository():
    import gzip

    calls, families = read(CALLS)
    with gzip.open(TIMES, "rt") as lines:
        rows = [json.loads(line) for line in lines][1:]
    assert len(rows) > 1000
    assert all(row["call"] in calls and families[row["call"]] for row in rows)
    assert all(row["least_us"] <= row["us"] <= row["most_us"] for row in rows if "us" in row)
