"""What MaxText's settings change of a captured step, and how much time each is worth."""

from __future__ import annotations

from functools import cache

import pytest

from gpuscope.api import capture, recost, resolve_target
from gpuscope.program.models.parallel.options import ParallelOptions, Software
from gpuscope.program.models.parallel.size import TransformerSize
from gpuscope.program.models.parallel.xla import CORE_ROWS, as_compiled
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.program.types import Op, Program

pytest.importorskip("torch")

SIZE = TransformerSize(
    layers=2, hidden=2048, heads=16, kv_heads=16, head=128, ffn=8192, vocabulary=512, context=4096
)
CHIPS = "16xtpu-v6e"


def _options(**habits: object) -> WorkloadOptions:
    plan = ParallelOptions(
        world=16,
        microbatch=1,
        global_batch=16,
        fsdp="full",
        recompute="full",
        software=Software(**habits),  # type: ignore[arg-type]
    )
    return WorkloadOptions(seq=4096, parallel=plan)


@cache
def _program(**habits: object) -> Program:
    return capture(SIZE, options=_options(**habits))


def _step_s(**habits: object) -> float:
    found = recost(SIZE, resolve_target(CHIPS), options=_options(**habits), memory=False)
    return found.step_time_s


def test_what_is_kept_is_not_computed_again() -> None:
    def again(program: Program, name: str) -> int:
        return sum(op.recomputed and not op.view and op.name == name for op in program.ops)

    plain, kept = _program(), _program(kept=("query", "key", "value"))
    assert again(plain, "aten::mm") - again(kept, "aten::mm") == 3 * SIZE.layers
    assert again(kept, "gpuscope::attention") == SIZE.layers
    assert again(_program(kept=("attention",)), "gpuscope::attention") == 0


def test_keeping_products_saves_their_time() -> None:
    """Three of the products of 2,048 x 2,048, for 4,096 tokens in every block.

    What is computed again has just been written, and the fused kernel after it finds it on the
    chip; what was kept since the forward pass comes back from memory.
    """
    saved = _step_s() - _step_s(kept=("query", "key", "value"))
    products = SIZE.layers * 3 * 2 * 4096 * 2048**2 / 918e12
    back = SIZE.layers * 3 * 2 * 4096 * 2048 / 1.64e12
    assert products - 1.5 * back < saved < 1.6 * products - back


def test_a_sum_holds_up_what_is_computed_next() -> None:
    """By hand: product, sum, copy on its stream, product, product."""
    ops = [
        Op(0, "aten::mm", phase="backward"),
        Op(1, "c10d::_reduce_scatter_base_", phase="backward", stream=4),
        Op(2, "aten::copy_", phase="backward", stream=4),
        Op(3, "aten::mm", phase="backward", waits=(0,)),
        Op(4, "aten::mm", phase="backward"),
    ]
    as_compiled(ops, Software(sums_beside=False))
    assert [op.waits for op in ops] == [(), (), (), (0, 1), ()]


def test_sums_in_line_are_exposed() -> None:
    # All but the last block's, which nothing hides in either case: what remains of its backward
    # pass is the embedding's.
    parameters = (SIZE.layers - 1) * (4 * 2048**2 + 3 * 2048 * 8192)
    exposed = _step_s(sums_beside=False) - _step_s()
    # In float32 over a 4 x 4 slice without closed axes: two links of 100 GB/s, 85 % of them.
    by_hand = 15 / 16 * 4 * parameters / (2 * 100e9 * 0.85)
    assert exposed == pytest.approx(by_hand, rel=0.4)


def test_larger_blocks_of_attention_compute_more_of_what_a_causal_mask_hides() -> None:
    program = _program(attention_rows=2048)
    asked = [op.args[CORE_ROWS] for op in program.ops if op.name.startswith("gpuscope::attention")]
    assert asked
    assert set(asked) == {2048}
    assert _step_s(attention_rows=2048) > _step_s(attention_rows=512) == _step_s()
    # Of 4,096 tokens 3 of 4 blocks of 2,048, or 36 of 64 of 512.


def test_nothing_changes_where_nothing_is_asked() -> None:
    ops = list(_program().ops)
    same = list(ops)
    as_compiled(same, Software())
    assert same == ops
