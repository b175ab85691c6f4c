"""Sizes that do not suit the matrix units."""

from __future__ import annotations

import pytest
from builders import TimelineBuilder, find, matmul, spec


def head(vocabulary: int, dtype: str = "bfloat16") -> TimelineBuilder:
    """A vocabulary projection at half of the peak, 40 % of the step."""
    b = TimelineBuilder()
    x, w = spec(8192, 768, dtype=dtype), spec(768, vocabulary, dtype=dtype)
    op = b.op("aten::mm", inputs=(x, w), outputs=(spec(8192, vocabulary, dtype=dtype),))
    b.work(0, 40, cost=matmul(40, 0.5), op=op)
    b.work(40, 100, cost=matmul(60, 0.7), op=b.op("aten::mm", inputs=(x, spec(768, 768))))
    return b


def test_gpt2s_vocabulary_is_named_with_a_better_one() -> None:
    found = find(head(50257), "poor_shapes")
    assert found is not None
    assert "50257" in found.title
    assert "50257 to 50304" in found.hint
    assert found.max_gain_s == pytest.approx(20e-6)


@pytest.mark.parametrize("vocabulary", [50304, 128256, 50264])
def test_aligned_sizes_are_fine(vocabulary: int) -> None:
    assert find(head(vocabulary), "poor_shapes") is None


def test_alignment_is_in_bytes_not_elements() -> None:
    assert find(head(50260, "float32"), "poor_shapes") is None
    assert find(head(50260, "bfloat16"), "poor_shapes") is not None


def test_a_small_odd_size_is_the_users_wish() -> None:
    assert find(head(10), "poor_shapes") is None


def test_a_product_and_the_sum_over_its_slices_are_one_product() -> None:
    b = head(50257)
    op = b.op("aten::mm", inputs=(spec(768, 8192), spec(8192, 50257)), outputs=(spec(768, 50257),))
    b.work(100, 130, cost=matmul(30, 0.5), op=op)
    b.work(130, 140, cost=matmul(10, 0.5), op=op)
    found = find(b, "poor_shapes")
    assert found is not None
    assert len(found.about.events) == 3
    assert "2 matrix products" in found.evidence
