from __future__ import annotations

import pytest
from memory_work import dense, median_error, one, run

N = 2**24


def test_dropout_reads_the_input_and_writes_output_and_mask() -> None:
    x = dense(N, dtype="bfloat16", at=0)
    results = dense(N, dtype="bfloat16", at=1), dense(N, dtype="bool", at=2)
    made = one("native_dropout", (x,), results, p=0.1, train=True)
    assert (made.read_bytes, made.written_bytes) == (2 * N, 3 * N)


def test_random_numbers_of_16_bit_data_are_bound_by_instructions() -> None:
    x = dense(N, dtype="bfloat16")
    assert one("randn_like", (x,), (x,)).limiter == "issue"
    assert one("randn_like", (x,), (x,)).read_bytes == 0


def test_dropout_in_evaluation_copies() -> None:
    x = dense(N)
    made = run("native_dropout", (x,), (x, dense(N, dtype="bool")), p=0.1, train=False)
    assert [k.kind for k in made] == ["copy"]


def test_a_permutation_sorts_random_keys() -> None:
    names = [k.name for k in run("randperm", (), (dense(10**5, dtype="int64"),))]
    assert names.count("radix_sort_onesweep") == 4


def test_recorded_calls() -> None:
    assert median_error("native_dropout", "randn_like", "bernoulli_") < 0.25


def test_each_thread_of_dropout_seeds_its_generator() -> None:
    """A thread an element up to what fits at once: 1.9 us for 110,592 elements, 2.9 for 524,288 and
    14.9 for 8.4 million of 16 bits on an H200."""
    for count, us in ((110592, 1.9), (524288, 2.9), (8388608, 14.9)):
        x = dense(count, dtype="bfloat16")
        made = one("native_dropout", (x,), (x, dense(count, dtype="bool")), hot=True, p=0.1)
        assert made.duration_s == pytest.approx(us * 1e-6, rel=0.15)
        assert made.grid == min(count // 256, 132 * 8)
