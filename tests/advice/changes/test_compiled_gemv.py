"""Products of one row by the compiler: library calls go, with compilation only; the switch is put
back."""

import torch
from changed_cases import case_of
from decoding_builds import count, decoding, prompts
from live_runs import results

from gpuscope.advice.registry import find

_PRODUCTS = ("mm", "addmm", "bmm")


def test_products_become_reductions_where_it_is_compiled():
    eager = case_of(decoding(), "static-cache", "compiled-gemv")
    compiled = case_of(decoding(), "static-cache", "compiled-gemv", "compile")
    assert count(compiled, *_PRODUCTS) < count(eager, *_PRODUCTS)
    assert find("compiled-gemv").fits(case_of(decoding())).applies
    assert not find("compiled-gemv").fits(case_of(prompts())).applies


def test_the_switch_is_put_back():
    import torch._inductor.config as config

    before, linear = config.coordinate_descent_tuning, torch.nn.functional.linear
    torch.testing.assert_close(results(decoding("cpu"), "compiled-gemv"), results(decoding("cpu")))
    assert config.coordinate_descent_tuning is before
    assert torch.nn.functional.linear is linear
