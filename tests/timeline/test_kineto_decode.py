"""Decimal text to nanoseconds, and chunks that are cut anywhere."""

import json
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kineto_traces import document, event, training

from gpuscope.timeline.kineto.chunks import Chunks
from gpuscope.timeline.kineto.decode import Reader
from gpuscope.timeline.kineto.records import UNUSABLE, Parsed, exact_nanoseconds, nanoseconds


def parse(text: bytes, size: int) -> tuple[list[Parsed], Chunks]:
    """Read a document in blocks of `size` bytes."""
    chunks = Chunks([text[i : i + size] for i in range(0, len(text), size)], "t")
    reader = Reader(chunks)
    parsed = [reader.parse(chunk) for chunk in chunks]
    last = reader.last()
    return parsed + ([last] if last else []), chunks


def flat(parsed: list[Parsed]):
    return [
        (e.cat, e.name, e.pid, e.tid, start, duration, json.loads(bytes(e.args)))
        for part in parsed
        for e, start, duration in zip(
            part.events, part.start_ns.tolist(), part.duration_ns.tolist(), strict=True
        )
    ]


@given(st.integers(-(10**15), 10**15), st.integers(0, 999))
def test_exact_text(whole, part):
    text = f"{whole}.{part:03d}"
    assert exact_nanoseconds(text.encode()) == round(Decimal(text) * 1000)
    assert exact_nanoseconds(str(whole).encode()) == whole * 1000


@given(st.integers(0, (1 << 43) - 1), st.integers(0, 999))
def test_doubles_below_two_to_the_43_are_exact(whole, part):
    value = float(f"{whole}.{part:03d}")
    assert nanoseconds(np.array([value])).tolist() == [whole * 1000 + part]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"1.0004", 1000),
        (b"1.0006", 1001),
        (b"-1.5", -1500),
        (b"-0.001", -1),
        (b"2e3", 2_000_000),
        (b'"12.5"', 12_500),
        (b"7.", 7000),
        (b"1e400", UNUSABLE),
        (b"soon", UNUSABLE),
        (b"NaN", UNUSABLE),
        (b"", UNUSABLE),
        (b"9" * 19, UNUSABLE),
    ],
)
def test_odd_numbers(text, value):
    assert exact_nanoseconds(text) == value


def test_fractions_of_large_times_are_not_lost():
    # A double near 1.7e15 steps by 0.25: through one, 0.123 would become 0.0 or 0.25.
    texts = ("1712195495501688.123", "1712195495501688.999", "1712195495501689")
    events = b",".join(
        b'{"ph": "X", "cat": "kernel", "name": "k", "ts": %s, "dur": 0.001}' % t.encode()
        for t in texts
    )
    parsed, _ = parse(b'{"traceEvents": [' + events + b"]}", 1 << 20)
    starts = [s for part in parsed for s in part.start_ns.tolist()]
    assert starts == [1712195495501688123, 1712195495501688999, 1712195495501689000]


@settings(deadline=None, max_examples=60)
@given(size=st.integers(60, 4000), indent=st.sampled_from((None, 2)))
def test_blocks_of_any_size_give_the_same(size, indent):
    text = json.dumps(document(), indent=indent).encode()
    whole, chunks = parse(text, 1 << 20)
    parts, cut = parse(text, size)
    assert flat(parts) == flat(whole)
    assert (cut.ended, cut.head, cut.tail) == (True, chunks.head, chunks.tail)
    assert sum(p.skipped for p in parts) == 0
    assert len(flat(whole)) == sum(1 for e in training() if e["ph"] == "X")


@settings(deadline=None, max_examples=60)
@given(size=st.integers(40, 600))
def test_events_that_hold_what_looks_like_events(size):
    inner = [{"ph": "X", "ts": 1}, {"name": "x", "ts": 2}, {"cat": '}, {"ph":'}]
    listed = [
        {**event("cpu_op", f'op }}, {{"ph": {n}', n, 1), "args": {"inner": inner, "n": n}}
        for n in range(12)
    ]
    parsed, _ = parse(json.dumps(document(listed, schemaVersion=1)).encode(), size)
    got = flat(parsed)
    assert [(row[1], row[4]) for row in got] == [(e["name"], e["ts"] * 1000) for e in listed]
    assert all(row[6] == {"inner": inner, "n": n} for n, row in enumerate(got))
    assert sum(part.skipped for part in parsed) == 0


def test_a_list_of_objects_after_the_events():
    after = {"traceEvents": training(), "more": [{"name": "a"}, {"name": "b"}, {"ph": "X"}]}
    for size in (100, 1 << 20):
        parsed, chunks = parse(json.dumps(after).encode(), size)
        assert len(flat(parsed)) == sum(1 for e in training() if e["ph"] == "X")
        assert json.loads(b"{" + chunks.tail.lstrip(b", ")) == {"more": after["more"]}
