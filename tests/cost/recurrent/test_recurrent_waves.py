from __future__ import annotations

import pytest

from gpuscope.cost.recurrent.waves import (
    BESIDE_GAP_S,
    Piece,
    backward_order,
    forward_order,
    piece_steps,
)
from gpuscope.cost.types import Kernel


def kernel(name: str, seconds: float = 1.0) -> Kernel:
    return Kernel(name, "recurrent", 0, seconds, seconds, seconds)


def pieces(layers: int, count: int, ways: int = 1) -> list[Piece]:
    return [
        Piece((kernel(f"whole {layer}{way}{cut}", 0.0),), (kernel(f"step {layer}{way}{cut}"),) * 2)
        for layer in range(layers)
        for way in range(ways)
        for cut in range(count)
    ]


def both(layers: int, count: int) -> tuple[tuple[Kernel, ...], tuple[Kernel, ...]]:
    """Forward and backward."""
    clear, end = (kernel("clear"),), (kernel("end"),)
    return (
        forward_order(pieces(layers, count), layers, 1),
        backward_order(clear, pieces(layers, count), end, layers, 1),
    )


def span(kernels: tuple[Kernel, ...]) -> float:
    """When all are done, gaps aside."""
    free: dict[int, float] = {}
    end: list[float] = []
    for each in kernels:
        begin = max([free.get(each.stream, 0.0), *(end[place] for place in each.after)])
        free[each.stream] = begin + each.duration_s
        end.append(free[each.stream])
    return max(end)


@pytest.mark.parametrize(("layers", "count"), [(1, 1), (2, 4), (3, 4), (4, 1), (2, 16)])
def test_layers_follow_each_other_piece_by_piece(layers: int, count: int) -> None:
    """Two seconds a piece: (pieces + layers - 1) of them, not pieces x layers."""
    made = forward_order(pieces(layers, count), layers, 1)
    assert len(made) == 3 * layers * count
    assert span(made) == pytest.approx(2.0 * (count + layers - 1))
    clear = (kernel("clear", 0.0),)
    back = backward_order(clear, pieces(layers, count), (kernel("end"),), layers, 1)
    assert span(back) == pytest.approx(2.0 * (count + layers - 1) + 1.0)


def test_directions_run_beside_each_other_and_layers_after_both() -> None:
    made = forward_order(pieces(3, 1, ways=2), 3, 2)
    assert span(made) == pytest.approx(6.0)
    assert made[-1].stream == 0
    assert {made[place].name for place in made[-1].after} == {"step 210"}  # the other direction's


def test_what_waits_was_launched_before() -> None:
    for made in both(3, 5):
        for place, each in enumerate(made):
            assert all(0 <= before < place for before in each.after)


def test_the_operators_own_stream_begins_and_ends_it() -> None:
    for made in both(2, 3):
        assert (made[0].stream, made[-1].stream) == (0, 0)
        sides = {k.stream for k in made} - {0}
        assert min(sides, default=0) >= 1000


def test_one_layer_alone_has_neither_streams_nor_longer_gaps() -> None:
    made = forward_order(pieces(1, 1), 1, 1)
    assert {(k.stream, k.gap_s) for k in made} == {(0, 0.0)}
    several = forward_order(pieces(2, 2), 2, 1)
    assert max(k.gap_s for k in several) == BESIDE_GAP_S


@pytest.mark.parametrize(
    ("seq", "batch", "backward", "steps"),
    [
        # As recorded on an H200, two layers.
        (32, 16, False, 8),
        (32, 64, False, 8),
        (32, 128, False, 4),
        (96, 16, False, 24),
        (32, 16, True, 8),
        (32, 32, True, 4),
        (32, 64, True, 4),
        (32, 128, True, 2),
        (32, 8, True, 16),
        (96, 16, True, 8),
    ],
)
def test_sequences_are_cut_as_recorded(seq: int, batch: int, backward: bool, steps: int) -> None:
    assert piece_steps(2, 1, seq, batch, backward) == steps


def test_a_lone_layer_and_two_directions_are_not_cut() -> None:
    assert piece_steps(1, 1, 512, 64, False) == 512
    assert piece_steps(2, 2, 512, 64, True) == 512
