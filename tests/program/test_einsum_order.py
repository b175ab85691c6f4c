"""The order of products of three or more tensors."""

from __future__ import annotations

import pytest
import torch

import gpuscope as gs
from gpuscope.program.capture.einsum_order import as_if_installed, order_of


def test_a_chain_of_matrices_begins_where_it_is_narrow() -> None:
    # (10 x 1000)(1000 x 10)(10 x 1000): the first two leave 100 values, the last two a million.
    assert order_of("ab,bc,cd->ad", [(10, 1000), (1000, 10), (10, 1000)]) == [0, 1, 0, 1]
    assert order_of("ab,bc,cd->ad", [(1000, 10), (10, 1000), (1000, 10)]) == [1, 2, 0, 1]


def test_every_order_makes_the_same_numbers() -> None:
    made = [torch.randn(4, 5), torch.randn(5, 6, 4), torch.randn(6, 7), torch.randn(7, 3)]
    for equation in ("ab,bca,cd,de->ae", "ab,bca,cd,de", "ab,bca,cd,de->"):
        path = order_of(equation, [t.shape for t in made])
        found = torch._C._VariableFunctions.einsum(equation, made, path=path)
        torch.testing.assert_close(found, torch.einsum(equation, made), rtol=1e-4, atol=1e-4)


def test_many_tensors_take_the_pair_that_leaves_the_least() -> None:
    letters = "abcdefghi"
    terms = [letters[i : i + 2] for i in range(8)]
    path = order_of(",".join(terms) + "->ai", [(9, 9)] * 8)
    assert path is not None
    assert len(path) == 14


def test_an_ellipsis_is_left_to_pytorch() -> None:
    assert order_of("...a,ab,bc->...c", [(2, 3), (3, 4), (4, 5)]) is None


def _step():  # type: ignore[no-untyped-def]
    x, y = torch.randn(512, 64, 9, device="cuda"), torch.randn(512, 9, device="cuda")
    couple = torch.randn(9, 9, 9, device="cuda")
    return lambda: torch.einsum("ecb,ea,abd->ecd", x, y, couple)


@pytest.mark.skipif(torch.backends.opt_einsum.is_available(), reason="opt_einsum is here")
def test_a_capture_says_in_which_order_it_multiplied() -> None:
    from_left = gs.capture(_step)
    (said,) = [a for a in from_left.assumptions if "einsum" in a]
    assert "pip install opt-einsum" in said
    with as_if_installed():
        ordered = gs.capture(_step)
    assert not any("einsum" in a for a in ordered.assumptions)
    # From left: every edge's 64 x 9 x 9 products are written; ordered: its 9 x 9 coupling first.
    written = [max(t.nbytes for op in p.ops for t in op.outputs) for p in (from_left, ordered)]
    assert written[0] == 512 * 64 * 9 * 9 * 4
    assert written[1] == 512 * 64 * 9 * 4


def test_two_tensors_need_no_order() -> None:
    def build():  # type: ignore[no-untyped-def]
        x = torch.randn(8, 8, device="cuda")
        return lambda: torch.einsum("ab,bc->ac", x, x)

    assert not any("einsum" in a for a in gs.capture(build).assumptions)
