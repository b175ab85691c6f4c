from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_work import dense, on_host, run, seconds

from gpuscope.cost.optimizer import list_launches


def test_launches_hold_320_chunks() -> None:
    """100 million elements in one tensor: 4 full launches and one of 246 chunks (recorded)."""
    launches = list_launches((10**8,), 110)
    assert [launch.blocks for launch in launches] == [320, 320, 320, 320, 246]


def test_launches_end_when_the_table_of_tensors_is_full() -> None:
    assert [x.blocks for x in list_launches((1000,) * 300, 110)] == [110, 110, 80]


@given(st.lists(st.integers(0, 10**7), max_size=60), st.sampled_from([30, 36, 48, 64, 110]))
def test_every_element_is_in_one_launch(sizes: list[int], most: int) -> None:
    launches = list_launches(tuple(sizes), most)
    assert sum(x.elements for x in launches) == sum(sizes)
    assert all(1 <= x.blocks <= 320 and x.largest <= 65536 for x in launches)


def test_steps_on_the_host_launch_nothing() -> None:
    steps = tuple(on_host(dense()) for _ in range(10))
    assert run("_foreach_add_", steps, overload="Scalar") == ()


def test_lists_are_counted_by_the_schema() -> None:
    lists = tuple(dense(10**6) for _ in range(6))
    (made,) = run("_foreach_addcdiv_", lists, overload="Scalar")
    assert made.read_bytes == 2 * 3 * 4 * 10**6
    assert made.written_bytes == 2 * 4 * 10**6


def test_fused_adamw_moves_28_bytes_a_float32_parameter() -> None:
    params = [dense(10**7, at=i) for i in range(4)]
    steps = (dense(at=9),)
    kernels = run("_fused_adamw_", (*params, *steps))
    moved = sum(k.read_bytes + k.written_bytes for k in kernels)
    assert moved == pytest.approx(28 * 10**7)


def test_a_fused_step_beats_the_separate_ones() -> None:
    n = 10**8
    fused = run("_fused_adamw_", (*(dense(n) for _ in range(4)), dense()))
    apart = [
        run("_foreach_mul_", (dense(n),), overload="Scalar"),
        run("_foreach_lerp_", (dense(n), dense(n)), overload="Scalar"),
        run("_foreach_addcmul_", (dense(n),) * 3, overload="Scalar"),
        run("_foreach_sqrt", (dense(n),), (dense(n),)),
        run("_foreach_addcdiv_", (dense(n),) * 3, overload="ScalarList"),
    ]
    assert seconds(fused) < sum(map(seconds, apart))


def test_norms_end_in_a_clean_up() -> None:
    kernels = run("_foreach_norm", tuple(dense(1000) for _ in range(4)), (dense(),) * 4)
    assert kernels[-1].name == "multi_tensor_norm_cleanup"


def test_one_launch_of_320_chunks_takes_what_was_recorded() -> None:
    """21 million float32, one list in place: 45.5 us on an H200."""
    (made,) = run("_foreach_mul_", (dense(320 * 65536),), overload="Scalar")
    assert made.duration_s == pytest.approx(45.5e-6, rel=0.2)


def test_a_list_that_is_given_twice_is_read_once() -> None:
    """Adam's squares: `_foreach_addcmul_(squares, grads, grads)`; 670 us on an H200 for 901."""
    squares = tuple(dense(10**7, at=i) for i in range(2))
    grads = tuple(dense(10**7, at=10 + i) for i in range(2))
    others = tuple(dense(10**7, at=20 + i) for i in range(2))
    once = run("_foreach_addcmul_", squares + grads + grads, overload="Scalar")
    apart = run("_foreach_addcmul_", squares + grads + others, overload="Scalar")
    assert sum(k.read_bytes for k in once) == 2 * 2 * 4 * 10**7
    assert sum(k.read_bytes for k in apart) == 2 * 3 * 4 * 10**7
    assert 0.7 < seconds(once) / seconds(apart) < 0.8


def test_lists_that_outgrow_the_cache_are_not_in_it() -> None:
    """61 MB of 38 tensors, walked again: 36 us on an H200; 16.5 MB stay in the L2."""
    many = tuple(dense(404_000, at=i) for i in range(38))
    (again,) = run("_foreach_mul_", many, overload="Scalar", hot=(True,) * len(many))
    assert again.duration_s == pytest.approx(36e-6, rel=0.15)
    few = many[:10]
    (hot,) = run("_foreach_mul_", few, overload="Scalar", hot=(True,) * len(few))
    (cold,) = run("_foreach_mul_", few, overload="Scalar")
    assert hot.duration_s < 0.9 * cold.duration_s


def test_a_tensor_that_no_wide_access_fits_slows_itself_alone() -> None:
    whole = tuple(dense(65536 * 4, at=i) for i in range(8))
    (even,) = run("_foreach_mul_", whole, overload="Scalar")
    (with_small,) = run("_foreach_mul_", (*whole, dense(3, at=9)), overload="Scalar")
    (with_large,) = run("_foreach_mul_", (*whole, dense(65537, at=9)), overload="Scalar")
    assert with_small.duration_s < 1.05 * even.duration_s
    assert with_large.duration_s > 1.2 * even.duration_s


def test_a_number_of_another_type_takes_a_kernel_a_tensor() -> None:
    tensors = tuple(dense(1000, dtype="bfloat16") for _ in range(20))
    other, same = dense(), dense(dtype="bfloat16")
    assert len(run("_foreach_mul_", (*tensors, other), tensors, overload="Tensor")) == 20
    assert len(run("_foreach_mul_", (*tensors, same), tensors, overload="Tensor")) == 1


def test_sizes_that_are_no_whole_fours_are_walked_one_by_one() -> None:
    """A bfloat16 tensor of 8 bytes more than 16 is a whole number of fours, of 4 it is not."""
    fours, twos = (
        seconds(run("_foreach_add_", (dense(n, dtype="bfloat16"),), (), overload="Scalar"))
        for n in (2**20 + 4, 2**20 + 2)
    )
    assert twos > 1.1 * fours


def test_lists_of_other_shapes_take_a_kernel_a_tensor() -> None:
    """A capturable optimizer divides its tensors by numbers that are tensors."""
    tensors = tuple(dense(64, 8, at=at) for at in range(3))
    numbers = tuple(dense(at=3 + at) for at in range(3))
    made = run("_foreach_div_", tensors + numbers, tensors, overload="List")
    assert len(made) == 3
    assert len(run("_foreach_div_", tensors + tensors, tensors, overload="List")) == 1
