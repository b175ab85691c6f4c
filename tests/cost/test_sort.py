from __future__ import annotations

from memory_work import dense, median_error, run, seconds


def topk(rows: int, columns: int, k: int) -> list[str]:
    out = (dense(rows, k), dense(rows, k, dtype="int64"))
    return [kernel.name for kernel in run("topk", (dense(rows, columns),), out, dim=-1)]


def test_a_pass_for_each_byte_of_the_key() -> None:
    def passes(dtype: str) -> int:
        x, index = dense(10**6, dtype=dtype), dense(10**6, dtype="int64")
        return sum(k.name == "radix_sort_onesweep" for k in run("sort", (x,), (x, index)))

    assert passes("float32") == 4
    assert passes("bfloat16") == 2


def test_long_rows_are_searched_by_several_blocks() -> None:
    assert topk(12288, 128, 50) == ["topk_rows", "sort_rows_in_place"]
    assert topk(8192, 768, 50).count("topk_digit_counts") == 4


def test_the_single_largest_needs_no_sort() -> None:
    assert topk(64, 100, 1) == ["topk_rows"]


def test_time_grows_with_the_number_of_keys() -> None:
    times = [
        seconds(run("sort", (dense(n),), (dense(n), dense(n, dtype="int64"))))
        for n in (10**4, 10**6, 10**8)
    ]
    assert times == sorted(times)


def test_sampling_ends_in_the_largest() -> None:
    kernels = run("multinomial", (dense(64, 50257),), (dense(64, 1, dtype="int64"),), num_samples=1)
    assert kernels[-1].name == "reduce_argmax"


def test_recorded_calls() -> None:
    assert median_error("sort", "topk") < 0.25
