"""Fusion against what Inductor is known to generate, and properties of random programs."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from fusion_programs import Steps, check_order, moved_bytes
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuscope.program.fusion import FUSED, fuse
from gpuscope.program.types import Op, Phase, Program, TensorSpec

ROWS, COLUMNS = 8192, 768
FULL = ROWS * COLUMNS


def kernels(program: Program) -> list[Op]:
    return [op for op in program.ops if op.name == FUSED]


def storages_of(specs: tuple[TensorSpec, ...]) -> set[int]:
    return {t.storage for t in specs}


def test_a_chain_of_elementwise_operators_is_one_kernel() -> None:
    s = Steps()
    x = s.tensor(ROWS, COLUMNS)
    out = s.call("mul", s.call("add", s.call("relu", x), x), x)
    s.keep(out)
    fused = fuse(s.program())
    (kernel,) = fused.ops
    assert storages_of(kernel.inputs) == {x.storage}
    assert storages_of(kernel.outputs) == {out.storage}
    assert moved_bytes(fused) == 2 * 4 * FULL  # read once, written once
    assert {st_.id for st_ in fused.storages} == {x.storage, out.storage}
    assert kernel.args["count"] == 3


def test_residual_layer_norm_and_cast_are_one_kernel() -> None:
    s = Steps()
    x, y, w, b = (
        s.tensor(ROWS, COLUMNS),
        s.tensor(ROWS, COLUMNS),
        *(s.tensor(COLUMNS) for _ in range(2)),
    )
    weight = s.tensor(COLUMNS, COLUMNS, dtype="bfloat16")
    total = s.call("add", x, y)
    normal = s.call("native_layer_norm", total, w, b, more=((ROWS, 1), (ROWS, 1)))
    cast = s.call("_to_copy", normal, dtype="bfloat16")
    s.keep(s.call("mm", cast, weight), total)
    fused = fuse(s.program())
    (kernel,) = kernels(fused)
    assert kernel.args["reduction"] == "inner"
    assert (kernel.args["rows"], kernel.args["columns"]) == (ROWS, COLUMNS)
    # Read: two addends, weight and bias. Written: the sum (others read it) and the cast;
    # the normalized rows and their statistics never reach memory.
    assert sum(t.nbytes for t in kernel.inputs) == 2 * 4 * FULL + 2 * 4 * COLUMNS
    assert sum(t.nbytes for t in kernel.outputs) == (4 + 2) * FULL
    assert fused.ops[-1].name == "aten::mm"


def test_softmax_reads_its_input_once() -> None:
    s = Steps()
    x = s.tensor(4096, 1000, dtype="bfloat16")
    out = s.call("_softmax", s.call("mul", x), args={"dim": -1})
    s.keep(out)
    (kernel,) = fuse(s.program()).ops
    assert storages_of(kernel.inputs) == {x.storage}
    assert storages_of(kernel.outputs) == {out.storage}
    assert kernel.args["passes"] == 2


def test_a_library_call_parts_kernels() -> None:
    s = Steps()
    x, w = s.tensor(512, 512), s.tensor(512, 512)
    a = s.call("relu", x)
    product = s.call("mm", a, w)
    out = s.call("add", product, a)
    s.keep(out)
    names = [op.name for op in fuse(s.program()).ops]
    assert names == [FUSED, "aten::mm", FUSED]


def test_cross_entropy_never_stores_the_log_probabilities() -> None:
    rows, words = 8192, 50264
    s = Steps()
    logits, target = s.tensor(rows, words, dtype="bfloat16"), s.tensor(rows, dtype="int64")
    wide = s.call("_to_copy", logits, dtype="float32")
    scores = s.call("_log_softmax", wide, args={"dim": 1})
    loss = s.call("nll_loss_forward", scores, target, shape=(), more=((),))
    s.keep(loss)
    count = TensorSpec((), (), "float32", "device", loss.storage + 1)
    one = s.call("ones_like", loss)
    grad = s.call(
        "nll_loss_backward", one, scores, target, count, shape=(rows, words), phase="backward"
    )
    grad = s.call("_log_softmax_backward_data", grad, scores, args={"dim": 1}, phase="backward")
    s.keep(s.call("_to_copy", grad, dtype="bfloat16", phase="backward"))
    fused = fuse(s.program())
    check_order(fused, {logits.storage, target.storage})
    full = rows * words * 2
    # Three times the bfloat16 logits (read, read, gradient written), and small change.
    assert 3 * full < moved_bytes(fused) < 3.01 * full
    assert max(st_.nbytes for st_ in fused.storages) == full


def test_the_backward_pass_computes_an_activation_again() -> None:
    """tanh(x w) y: the backward pass needs what the forward pass only has in registers."""
    s = Steps()
    x, w, y = (s.tensor(1024, 1024) for _ in range(3))
    product = s.call("mm", x, w)
    half = s.call("mul", product)
    curve = s.call("tanh", half)
    out = s.call("mul", curve, y)
    s.keep(s.call("mm", out, w))
    grad = s.call("mul", y, s.tensor(1024, 1024), phase="backward")
    back = s.call("tanh_backward", grad, curve, phase="backward")
    s.keep(s.call("mm", back, w, phase="backward"))
    fused = fuse(s.program())
    check_order(fused, {t.storage for t in s.specs.values() if s.born[t.storage] < 0})
    ids = {st_.id for st_ in fused.storages}
    assert curve.storage not in ids
    assert half.storage not in ids
    backward = [op for op in kernels(fused) if op.phase == "backward"]
    assert product.storage in storages_of(backward[0].inputs)
    saved = next(st_ for st_ in fused.storages if st_.id == product.storage)
    assert saved.died == backward[0].index + 1


def test_random_numbers_are_saved() -> None:
    s = Steps()
    x, w = s.tensor(1024, 1024), s.tensor(1024, 1024)
    product = s.call("mm", x, w)
    dropped = s.call("native_dropout", product, more=((1024, 1024),))
    mask = TensorSpec((1024, 1024), (1024, 1), "float32", "device", dropped.storage + 1)
    s.keep(s.call("mm", dropped, w))
    grad = s.call("native_dropout_backward", x, mask, phase="backward")
    s.keep(s.call("mm", grad, w, phase="backward"))
    fused = fuse(s.program())
    first = kernels(fused)[0]
    assert mask.storage in storages_of(first.outputs)
    assert first.args["random"] is True


def test_tables_of_what_is_put_together_are_computed_again() -> None:
    """Rotary embeddings: cosines and sines come anew of the angles that a `cat` laid in memory.

    As recorded of Llama 3.2 1B on an H200: `cos` and `sin` are in the names of the backward pass'
    kernels.
    """
    s = Steps()
    half, x, w = s.tensor(2048, 32), s.tensor(64, 2048, 64), s.tensor(64, 64)
    angles = s.call("cat", half, half, shape=(2048, 64))
    tables = [s.call("_to_copy", s.call(f, angles), dtype="bfloat16") for f in ("cos", "sin")]
    turned = s.call("add", *(s.call("mul", x, t) for t in tables))
    out = s.call("mm", turned, w)
    grad = s.call("mm", out, w, phase="backward")
    s.keep(
        s.call("add", *(s.call("mul", grad, t, phase="backward") for t in tables), phase="backward")
    )
    *_, last = kernels(fuse(s.program()))
    assert {"cos", "sin"} <= set(last.args["operators"])
    assert storages_of(last.inputs) == {grad.storage, angles.storage}


def test_what_a_library_call_of_the_backward_pass_reads_is_saved() -> None:
    s = Steps()
    x, w = s.tensor(1024, 1024), s.tensor(1024, 1024)
    active = s.call("relu", s.call("mm", x, w))
    s.keep(s.call("mm", active, w))
    s.keep(s.call("mm", active, x, phase="backward"))
    fused = fuse(s.program())
    assert active.storage in storages_of(kernels(fused)[0].outputs)


def test_a_split_reduction_reads_what_the_loop_before_it_wrote() -> None:
    """As recorded on an H200: the gradient of GELU is one kernel, the bias's sum of it another."""
    s = Steps()
    grad, x, w = s.tensor(ROWS, 3072), s.tensor(ROWS, 3072), s.tensor(3072, COLUMNS)
    made = s.call("gelu_backward", grad, x, phase="backward")
    product = s.call("mm", made, w, shape=(ROWS, COLUMNS), phase="backward")
    s.keep(product, s.call("sum", made, shape=(3072,), args={"dim": (0,)}, phase="backward"))
    loop, total = kernels(fuse(s.program()))
    assert storages_of(loop.outputs) == {made.storage}
    assert storages_of(total.inputs) == {made.storage}
    assert total.args["reduction"] == "outer"
    assert total.args["splits"] == 64  # [1, 3072, 64] partial sums


def test_a_sum_before_the_product_that_needs_a_buffer_computes_it_itself() -> None:
    """The gradient of a bias that is added by itself comes before the products."""
    s = Steps()
    grad, x, w = s.tensor(ROWS, 3072), s.tensor(ROWS, 3072), s.tensor(3072, COLUMNS)
    made = s.call("gelu_backward", grad, x, phase="backward")
    bias = s.call("sum", made, shape=(3072,), args={"dim": (0,)}, phase="backward")
    s.keep(s.call("mm", made, w, shape=(ROWS, COLUMNS), phase="backward"), bias)
    loop, total = kernels(fuse(s.program()))
    assert storages_of(loop.outputs) == {made.storage}
    assert storages_of(total.inputs) == {grad.storage, x.storage}
    assert "gelu_backward" in total.args["operators"]


def test_gradients_of_layer_norm_mix_both_directions_where_the_tensor_is_large() -> None:
    for rows, mixed in ((8192, True), (1024, False)):
        s = Steps()
        dy, x = s.tensor(rows, 768), s.tensor(rows, 768)
        mean, rstd, w, b = s.tensor(rows, 1), s.tensor(rows, 1), s.tensor(768), s.tensor(768)
        dx = s.call(
            "native_layer_norm_backward",
            dy,
            x,
            mean,
            rstd,
            w,
            b,
            more=((768,), (768,)),
            phase="backward",
        )
        s.keep(dx)
        s.kept |= {dx.storage + 1, dx.storage + 2}
        fused = fuse(s.program())
        found = kernels(fused)
        assert (len(found) == 1) == mixed
        assert (found[0].args["reduction"] == "both") == mixed
        # One partial sum for 16 rows, added up by two calls of sum.
        sums = [op for op in fused.ops if op.name == "aten::sum"]
        assert [op.inputs[0].shape for op in sums] == [(512, 768)] * (2 * mixed)


def test_equal_casts_are_made_once() -> None:
    s = Steps()
    x = s.tensor(4096, 1024)
    weights = [s.tensor(1024, 1024, dtype="bfloat16") for _ in range(3)]
    for w in weights:
        s.keep(s.call("mm", s.call("_to_copy", x, dtype="bfloat16"), w))
    fused = fuse(s.program())
    assert len(kernels(fused)) == 1
    sources = {op.inputs[0].storage for op in fused.ops if op.name == "aten::mm"}
    assert len(sources) == 1


def test_operators_on_memory_that_changes_are_not_merged() -> None:
    s = Steps()
    x = s.tensor(4096, 1024)
    before = s.call("exp", x)
    s.in_place("add", x, s.tensor(4096, 1024))
    after = s.call("exp", x)
    s.keep(before, after)
    fused = fuse(s.program())
    written = [t.storage for op in fused.ops for t in op.outputs]
    assert before.storage in written
    assert after.storage in written


def test_embedding_reads_the_rows_it_looks_up() -> None:
    s = Steps()
    table, words = s.tensor(50257, 768), s.tensor(8, 1024, dtype="int64")
    out = s.call("embedding", table, words, shape=(8, 1024, 768))
    s.keep(out)
    (kernel,) = fuse(s.program()).ops
    rows = next(t for t in kernel.inputs if t.storage == table.storage)
    assert rows.nbytes == 8 * 1024 * 768 * 4


@pytest.mark.parametrize(("vocabulary", "padded"), [(50257, 50264), (50264, 50264)])
def test_vocabulary_is_padded_to_eight(vocabulary: int, padded: int) -> None:
    s = Steps()
    x = s.tensor(8192, 768, dtype="bfloat16")
    w = s.tensor(768, vocabulary, dtype="bfloat16")
    s.keep(s.call("mm", x, w, shape=(8192, vocabulary)))
    fused = fuse(s.program())
    product = fused.ops[-1]
    assert product.outputs[0].shape == (8192, padded)
    assert product.inputs[1].shape == (768, padded)
    assert len(kernels(fused)) == (padded != vocabulary)
    check_order(fused, {x.storage, w.storage})


def test_small_products_are_not_padded() -> None:
    s = Steps()
    x, w = s.tensor(8, 768, dtype="bfloat16"), s.tensor(768, 1001, dtype="bfloat16")
    s.keep(s.call("mm", x, w, shape=(8, 1001)))
    assert fuse(s.program()).ops[0].outputs[0].shape == (8, 1001)


def test_the_optimizer_stays_as_it_was() -> None:
    s = Steps()
    p, g = s.tensor(1024, 1024), s.tensor(1024, 1024)
    s.keep(s.call("mul", s.call("add", p, g), g, phase="forward"))
    s.in_place("mul", p, g, phase="optimizer")
    s.in_place("add", p, g, phase="optimizer")
    names = [op.name for op in fuse(s.program()).ops]
    assert names == [FUSED, "aten::mul_", "aten::add_"]


def test_a_wait_of_the_host_parts_graphs() -> None:
    s = Steps()
    x = s.tensor(1024, 1024)
    a = s.call("relu", x)
    s.ops.append(Op(len(s.ops), "aten::_local_scalar_dense", inputs=(a,), sync="item"))
    s.keep(s.call("exp", a))
    fused = fuse(s.program())
    assert [op.name for op in fused.ops] == [FUSED, "aten::_local_scalar_dense", FUSED]
    assert any("graph break" in sentence for sentence in fused.assumptions)


@pytest.mark.parametrize("compiled", ["", "cudagraphs"])
def test_without_inductor_nothing_changes(compiled: str) -> None:
    s = Steps()
    s.keep(s.call("relu", s.tensor(1024)))
    program = s.program(compiled)
    assert fuse(program) is program


def test_fusing_twice_is_fusing_once() -> None:
    s = Steps()
    s.keep(s.call("relu", s.call("exp", s.tensor(1024))))
    once = fuse(s.program())
    assert fuse(once) is once


_ELEMENTWISE = ("add", "mul", "relu", "exp", "where")


@st.composite
def programs(draw: st.DrawFn, training: bool = True) -> tuple[Steps, Program]:
    """Random steps of elementwise operators, sums, products and writes in place."""
    s = Steps()
    rows, columns = 64, 32
    full = [s.tensor(rows, columns) for _ in range(2)]
    small = [s.tensor(columns)]
    phases: tuple[Phase, ...] = ("forward", "backward") if training else ("forward",)
    for phase in phases:
        for _ in range(draw(st.integers(1, 12))):
            kind = draw(st.integers(0, 9))
            a, b = draw(st.sampled_from(full)), draw(st.sampled_from(full))
            if kind < 5:
                extra = (draw(st.sampled_from(small)),) if draw(st.booleans()) else (b,)
                full.append(s.call(draw(st.sampled_from(_ELEMENTWISE)), a, *extra, phase=phase))
            elif kind == 5:
                full.append(s.call("sort", a, phase=phase))
            elif kind == 6:
                full.append(s.call("bernoulli", a, phase=phase))
            elif kind == 7 and training:
                s.in_place("mul", a, b, phase=phase)
            elif kind == 8:
                small.append(s.call("sum", a, shape=(columns,), args={"dim": (0,)}, phase=phase))
            else:
                row = s.call("mean", a, shape=(rows, 1), args={"dim": (1,)}, phase=phase)
                full.append(s.call("sub", a, row, phase=phase))
        for spec in draw(st.lists(st.sampled_from(full), max_size=2)):
            s.keep(spec)
    s.keep(full[-1])
    return s, s.program()


@settings(max_examples=60, deadline=None)
@given(programs())
def test_random_steps_stay_in_order(made: tuple[Steps, Program]) -> None:
    s, program = made
    fused = fuse(program)
    resident = {number for number, born in s.born.items() if born < 0}
    check_order(fused, resident)
    final = {t.storage for op in fused.ops for t in op.outputs}
    for number in s.kept - resident:
        assert number in final, "a result that outlives the step is written"
    libraries = [op.name for op in program.ops if op.name == "aten::sort"]
    assert len([op for op in fused.ops if op.name == "aten::sort"]) == len(libraries)


@settings(max_examples=50, deadline=None)
@given(programs(training=False))
def test_fusion_never_moves_more_bytes(made: tuple[Steps, Program]) -> None:
    _, program = made
    fused = fuse(program)
    seeds = sum(op.name == "aten::randint" for op in fused.ops)
    assert moved_bytes(fused) <= moved_bytes(program) + 8 * seeds
    assert len(fused.ops) <= len(program.ops) + seeds


def test_thousands_of_operators_take_little_time() -> None:
    s = Steps()
    x, w = s.tensor(512, 512), s.tensor(512, 512)
    for number in range(8000):
        x = s.call("mm", x, w) if number % 8 == 0 else s.call("add", x, w)
    s.keep(x)
    program = s.program()
    began = time.process_time()
    fuse(program)
    assert time.process_time() - began < 2.0


def test_streams_wait_for_the_same_work_under_the_new_numbers() -> None:
    s = Steps()
    x, w = s.tensor(1024, 1024), s.tensor(1024, 1024)
    a = s.call("exp", s.call("relu", x))
    product = s.call("mm", a, w)
    s.keep(s.call("mm", product, w))
    ops = list(s.ops)
    ops[-1] = replace(ops[-1], waits=(2, -1))  # the first product, and the end of the step before
    fused = fuse(replace(s.program(), ops=tuple(ops)))
    assert [op.name for op in fused.ops] == [FUSED, "aten::mm", "aten::mm"]
    assert fused.ops[-1].waits == (-1, 1)


def test_modes_of_the_compiler_share_what_it_makes() -> None:
    """They differ in how kernels are brought to the device, and in what is told."""
    s = Steps()
    x = s.tensor(ROWS, COLUMNS)
    s.keep(s.call("mul", s.call("relu", x), x))
    program = s.program()
    default, replayed = (
        fuse(replace(program, compiled=mode)) for mode in ("default", "reduce-overhead")
    )
    assert replayed.ops is default.ops
    assert (default.compiled, replayed.compiled) == ("default", "reduce-overhead")
    assert "default" in default.assumptions[0]
    assert "reduce-overhead" in replayed.assumptions[0]
    anew = fuse(replace(program, ops=(*program.ops,)))
    assert anew.ops is not default.ops
    assert anew.ops == default.ops
