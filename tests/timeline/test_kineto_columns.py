"""Columns that are kept narrow and given whole."""

import json
import tracemalloc

import numpy as np
import pytest

from gpuscope.timeline.kineto.decode import typed
from gpuscope.timeline.kineto.table import Columns, Table

WIDE = 1 << 40


@pytest.mark.parametrize("values", [[0, 127], [-129], [1 << 15], [-(1 << 31)], [WIDE], []])
def test_a_column_comes_back_in_64_bits_with_its_values(values: list[int]):
    columns = Columns()
    columns.add(value=np.array([1], np.int64))
    columns.add(value=np.array(values, np.int64))
    found = columns.column("value")
    assert found.dtype == np.int64
    assert found.tolist() == [1, *values]


def test_small_numbers_take_a_byte_each_and_large_ones_eight():
    columns = Columns()
    columns.add(small=np.arange(100), large=np.arange(100) + WIDE)
    assert columns.parts["small"][0].nbytes == 100
    assert columns.parts["large"][0].nbytes == 800


def test_what_was_taken_is_kept_no_more():
    columns = Columns()
    columns.add(value=np.arange(3), grid=np.ones((3, 3), np.int64), share=np.ones(3))
    assert columns.take("value").tolist() == [0, 1, 2]
    assert len(columns.take("value")) == 0
    assert columns.column("grid").shape == (3, 3)
    assert columns.column("share").dtype == np.float64


def test_a_name_of_a_process_keeps_no_more_than_its_own_text():
    named = {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}
    long = {"ph": "X", "name": "a", "ts": 1, "dur": 1, "args": {"text": "." * 1_000_000}}
    table = Table()
    tracemalloc.start()
    for _ in range(8):
        parsed = typed(json.dumps([named, long]).encode())
        assert parsed is not None
        table.add(parsed)
    del parsed
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [bytes(event.args) for event in table.metadata] == [b'{"name": "python"}'] * 8
    assert kept < 500_000
