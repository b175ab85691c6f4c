"""One rank's piece of a parameter is what FSDP2 would have cut for it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from gpuscope.program.capture.distributed.chunks import Pieces  # noqa: E402


@given(length=st.integers(1, 20), count=st.integers(1, 24), dim=st.integers(0, 1))
@settings(max_examples=100, deadline=None)
def test_pieces_are_those_of_fsdp2(length: int, count: int, dim: int) -> None:
    from torch.distributed.fsdp._fully_shard._fsdp_common import _chunk_with_empty

    shape = (length, 3) if dim == 0 else (3, length)
    whole = torch.arange(3 * length).reshape(shape)
    real, lazy = _chunk_with_empty(whole, count, dim), Pieces(whole, count, dim)
    assert len(lazy) == len(real)
    for number, piece in enumerate(real):
        assert lazy[number].shape == piece.shape
        assert torch.equal(lazy[number], piece)
        assert lazy[number] is lazy[number]


def test_pieces_end() -> None:
    pieces = Pieces(torch.zeros(4), 2, 0)
    with pytest.raises(IndexError):
        pieces[2]
    assert [piece.shape[0] for piece in pieces] == [2, 2]
