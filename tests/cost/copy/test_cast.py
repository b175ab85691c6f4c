from __future__ import annotations

from memory_work import dense, run

from gpuscope.hardware import device

N = 8192


def _made(on: str = "h200"):
    wide = dense(N, N, dtype="bfloat16", at=0)
    outs = (dense(N, N, dtype="float8_e4m3fn", at=1), dense(N, N, dtype="float8_e4m3fn", at=2))
    return run("gpuscope::cast_transpose", (wide,), outs, on)


def test_it_reads_two_bytes_and_writes_two_an_element() -> None:
    (made,) = _made()
    assert (made.read_bytes, made.written_bytes) == (2 * N * N, 2 * N * N)
    assert made.flops == 0


def test_it_is_bound_by_memory_and_never_quicker_than_the_bytes() -> None:
    for name in ("h200", "a100", "b200"):
        (made,) = _made(name)
        least_s = 4 * N * N / device(name).require("memory_bandwidth_bytes_per_s")
        assert least_s < made.duration_s < 2.5 * least_s


def test_nothing_for_an_empty_tensor() -> None:
    empty = dense(0, N, dtype="bfloat16", at=0)
    out = dense(0, N, dtype="float8_e4m3fn", at=1)
    assert run("gpuscope::cast_transpose", (empty,), (out, out)) == ()


def test_four_bits_are_read_three_times_and_written_twice_with_their_scales() -> None:
    wide = dense(N, N, dtype="bfloat16", at=0)
    outs = (dense(N, N, dtype="float4_e2m1fn", at=1), dense(N, N, dtype="float4_e2m1fn", at=2))
    made = run("gpuscope::cast_transpose", (wide,), outs, "b200")
    assert [k.name for k in made] == ["hadamard_amax", "cast_rows", "hadamard_cast_columns"]
    assert sum(k.read_bytes for k in made) == 3 * 2 * N * N
    assert sum(k.written_bytes for k in made) == 2 * (0.5 + 1 / 16) * N * N
