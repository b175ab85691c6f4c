"""Grouped attention by products: what SDPA gives over repeated keys."""

import pytest
import torch

pytest.importorskip("transformers")

from gpuscope.advice.changes.transforms.grouped_query_attention import MOST_QUERIES, grouped


def _inputs(queries=1, heads=8, groups=2, tokens=24):
    torch.manual_seed(0)
    query = torch.randn(2, heads, queries, 16)
    key, value = torch.randn(2, groups, tokens, 16), torch.randn(2, groups, tokens, 16)
    mask = torch.rand(2, 1, queries, tokens) > 0.3
    mask[..., 0] = True
    return query, key, value, mask


def _expected(query, key, value, mask):
    times = query.shape[1] // key.shape[1]
    keys, values = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
    return torch.nn.functional.scaled_dot_product_attention(query, keys, values, mask).transpose(
        1, 2
    )


def _refused(*_, **__):
    raise AssertionError("the usual function was asked")


@pytest.mark.parametrize("queries", [1, 3])
@torch.no_grad()
def test_it_is_attention_over_repeated_keys(queries):
    given = _inputs(queries)
    out, _ = grouped(_refused)(None, *given)
    torch.testing.assert_close(out, _expected(*given), rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_a_mask_of_numbers_is_added():
    query, key, value, mask = _inputs()
    numbers = torch.zeros(mask.shape).masked_fill(~mask, float("-inf"))
    out, _ = grouped(_refused)(None, query, key, value, numbers)
    torch.testing.assert_close(out, _expected(query, key, value, mask), rtol=1e-5, atol=1e-5)


def test_everything_else_is_left_to_the_usual_function():
    query, key, value, mask = _inputs()
    usual = grouped(lambda *_, **__: ("usual", None))
    with torch.no_grad():
        assert usual(None, query, key, value, None)[0] == "usual"
        assert usual(None, query[:, :2], key, value, mask)[0] == "usual"
        many = _inputs(MOST_QUERIES + 1)
        assert usual(None, *many)[0] == "usual"
        assert usual(None, query, key, value, mask, s_aux=torch.ones(1))[0] == "usual"
    assert usual(None, query, key, value, mask)[0] == "usual"
