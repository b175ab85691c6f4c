"""Buckets: the best sizes by brute force, what padding costs by hand, wrong input."""

from itertools import combinations

import pytest

import gpuscope as gs
import onnx_models as models
from gpuscope.advice.forecast.buckets import advise_buckets, best_buckets, candidates, with_sequence
from gpuscope.advice.forecast.buckets_explanation import bucket_section
from gpuscope.errors import InvalidValueError


def test_one_and_two_buckets_by_hand():
    lengths = (10, 10, 10, 100)
    one, two = best_buckets(lengths, [(10, 1.0), (100, 8.0)])
    assert one.sizes == (100,)
    assert one.mean_step_s == 8
    assert one.padding == pytest.approx(1 - 130 / 400)
    assert two.sizes == (10, 100)
    assert two.mean_step_s == pytest.approx((3 * 1 + 8) / 4)
    assert two.padding == 0


def test_no_choice_is_better():
    lengths = tuple(sorted((n * 37) % 97 + 1 for n in range(60)))
    steps = [(size, 1 + size**1.5 / 50) for size in (12, 31, 48, 60, 83, 97)]
    times = dict(steps)
    for count, found in enumerate(best_buckets(lengths, steps), start=1):
        tried = [
            sum(times[next(s for s in (*some, 97) if s >= n)] for n in lengths) / len(lengths)
            for some in combinations([size for size, _ in steps[:-1]], count - 1)
        ]
        assert found.mean_step_s == pytest.approx(min(tried))
        assert len(found.sizes) == count


def test_candidates_hold_the_longest():
    assert candidates((500,) * 10, 4) == (512,)
    sizes = candidates(tuple(range(1, 1001)), 4)
    assert sizes == (256, 512, 768, 1024)
    assert candidates((3, 5, 7), 3) == (3, 5, 7)


def test_long_sequences_gain_by_buckets(tmp_path):
    path = str(models.attention(tmp_path / "m.onnx"))
    found = advise_buckets(path, (512, 512, 512, 8192))
    assert found.best.sizes == (512, 8192)
    assert found.gain > 2
    assert found.choices[0].padding == pytest.approx(1 - (3 * 512 + 8192) / (4 * 8192))
    steps = dict(found.steps)
    assert steps[8192] > 10 * steps[512]
    text = str(bucket_section(found).blocks[0].text)
    assert "512, 8192" in text


def test_graphs_without_an_axis_are_refused(tmp_path):
    with pytest.raises(InvalidValueError, match="no dynamic axis for --lengths"):
        with_sequence(str(models.mlp(tmp_path / "m.onnx")), gs.WorkloadOptions(), 64)
    path = str(models.attention(tmp_path / "a.onnx"))
    sized = with_sequence(path, gs.WorkloadOptions(axes=(("seq", 8),), seq=8), 64)
    assert sized.axes == (("seq", 64),)
    assert sized.seq is None
    assert with_sequence("gpt2", gs.WorkloadOptions(batch=2), 64).seq == 64
