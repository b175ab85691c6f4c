"""Operators whose launches recorded programs showed (h200/corpus.jsonl.gz), by their inputs."""

from __future__ import annotations

from dataclasses import replace

from matmul_work import dense, run, turned

FLOAT, WHOLE = "float32", "int64"


def names(*given: object, **args: object) -> list[str]:
    return [kernel.name for kernel in run(*given, **args)]  # type: ignore[arg-type]


def test_a_draw_checks_its_probabilities_before() -> None:
    """proximal-policy: 14 kernels for 128 rows of 4."""
    drawn = names("aten::multinomial", (dense(128, 4, dtype=FLOAT),), (dense(128, 1, dtype=WHOLE),))
    assert len(drawn) == 14
    assert drawn.count("assert_async") == 2


def test_more_than_four_dimensions_are_concatenated_by_a_copy_each() -> None:
    """gptj: two copies for a stack of pairs; dense-network: a single input is copied."""
    part = dense(8, 128, 2, 32, 1, dtype=FLOAT)
    found = names("aten::cat", (part, part), (dense(8, 128, 2, 32, 2, dtype=FLOAT),), dim=4)
    assert len(found) == 2
    assert "cat" not in found
    flat = dense(8, 128, 2, 32, dtype=FLOAT)
    assert len(names("aten::cat", (flat, flat), (dense(8, 128, 2, 64, dtype=FLOAT),), dim=3)) == 1
    assert names("aten::cat", (flat,), (flat,), dim=0) == ["memcpy_d2d"]


def test_what_counts_for_concatenation_is_what_is_given() -> None:
    """phi-3-prefill: an empty cache and new keys are one `cat`; held-out stacks: cats of rank 4."""
    keys = dense(4, 32, 64, 96, dtype=FLOAT)
    assert "memcpy_d2d" not in names("aten::cat", (dense(0, dtype=FLOAT), keys), (keys,), dim=2)
    pair = dense(4, 32, 2, 64, 96, dtype=FLOAT)
    assert len(names("aten::stack", (keys, keys), (pair,), dim=2)) == 1
    last = dense(4, 32, 64, 96, 2, dtype=FLOAT)
    assert len(names("aten::stack", (keys, keys), (last,), dim=-1)) == 2


def test_gradients_of_an_embedding_are_laid_out_first() -> None:
    """cross-network: a column of indices, and rows cut from wider ones, are copied."""
    table = (dense(100, 8, dtype=FLOAT),)
    grad, index = dense(32, 8, dtype=FLOAT), dense(32, dtype=WHOLE)
    plain = names("aten::embedding_dense_backward", (grad, index), table)
    apart = replace(index, stride=(4,)), turned(dense(8, 32, dtype=FLOAT))
    copied = names("aten::embedding_dense_backward", apart[::-1], table)
    assert len(plain) == 2
    assert copied[2:] == plain


def test_the_first_power_is_a_copy() -> None:
    """granite: the gradient of a square raises to the first power, a copy by the driver."""
    x = dense(8, 128, 512, dtype=FLOAT)
    assert names("aten::pow", (x,), (x,), exponent=1) == ["memcpy_d2d"]
    assert names("aten::pow", (x,), (x,), exponent=2) != ["memcpy_d2d"]


def test_a_few_sought_values_are_compared_with_all() -> None:
    """gptj: a fill, a comparison and a reduction for each token, then a copy by the driver."""
    tokens, ends = dense(8, 1, dtype=WHOLE), dense(1, dtype=WHOLE)
    found = names("aten::isin", (tokens, ends), (dense(8, 1, dtype="bool"),))
    assert len(found) == 4
    assert found[-1] == "memcpy_d2d"
    assert len(names("aten::isin", (ends, ends), (dense(1, dtype="bool"),))) == 3
    many = dense(10**6, dtype=WHOLE)
    assert "eq" not in names("aten::isin", (many, many), (dense(10**6, dtype="bool"),))
