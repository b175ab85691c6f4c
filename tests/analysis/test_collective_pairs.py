"""Sends and receives without a word on who talks to whom."""

from __future__ import annotations

import numpy as np

from gpuscope.analysis.collective_pairs import match_pairs


def pairs(rows: list[tuple[int, int, int, int, int]]) -> list[int]:
    """Rows of (start, end, rank, is_send, elements)."""
    columns = np.array(rows, np.int64).reshape(-1, 5).T
    return match_pairs(*columns).tolist()


def test_a_send_and_its_receive() -> None:
    assert pairs([(0, 20, 0, 1, 8), (10, 20, 1, 0, 8)]) == [0, 0]


def test_two_candidates_are_no_pair() -> None:
    assert pairs([(0, 20, 0, 1, 8), (10, 20, 1, 0, 8), (5, 20, 2, 1, 8)]) == [-1, -1, -1]


def test_another_size_another_time_and_oneself_are_no_candidates() -> None:
    assert pairs([(0, 20, 0, 1, 8), (10, 20, 1, 0, 9)]) == [-1, -1]
    assert pairs([(0, 20, 0, 1, 8), (20, 30, 1, 0, 8)]) == [-1, -1]
    assert pairs([(0, 20, 0, 1, 8), (10, 20, 0, 0, 8)]) == [-1, -1]
    assert pairs([]) == []
