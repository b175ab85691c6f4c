"""Damaged, strange and hostile files: what can be read is read, or the error says what to do."""

import gzip
import json

import numpy as np
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kineto_traces import document, event, training, write

from gpuscope.errors import InputFileError
from gpuscope.timeline.kineto import read_trace
from gpuscope.timeline.types import DEVICE_KINDS, Timeline

WHOLE = json.dumps(document(), indent=1).encode()
EVENTS = sum(1 for e in training() if e["ph"] == "X")


def read(tmp_path, data) -> Timeline:
    return read_trace(write(tmp_path / "t.json", data))


def healthy(timeline: Timeline) -> None:
    """What holds of every timeline, whatever the file was."""
    events, n = timeline.events, len(timeline.events)
    assert (events.duration_ns >= 0).all()
    assert (events.start_ns >= 0).all()
    assert (np.diff(events.start_ns) >= 0).all()
    assert ((events.name >= 0) & (events.name < len(timeline.names))).all()
    assert ((events.lane >= 0) & (events.lane < len(timeline.lanes))).all()
    assert (events.op < len(timeline.ops)).all()
    recorded = timeline.recorded
    assert recorded is not None
    assert np.array_equal(recorded.event, np.flatnonzero(events.kind < DEVICE_KINDS))
    for column in (recorded.launch, recorded.operator):
        assert ((column >= -1) & (column < n)).all()
    assert (recorded.collective < len(timeline.collectives)).all()
    source = timeline.sources[0]
    # Instants and counters are counted but are no events; a spoiled file may call them anything.
    assert len(timeline.steps) <= source.events_read <= sum(source.counts.values())


def attempt(tmp_path, data: bytes) -> Timeline | None:
    """Read: a healthy timeline, or None for an error that says what to do next."""
    failure = None
    try:
        timeline = read(tmp_path, data)
    except InputFileError as error:
        failure = error
    if failure is not None:
        assert failure.what
        assert failure.next_step
        return None
    healthy(timeline)
    return timeline


@pytest.mark.parametrize("part", [0.3, 0.5, 0.9, 0.99])
def test_cut_off_json_gives_what_is_there(tmp_path, part):
    timeline = read(tmp_path, WHOLE[: int(len(WHOLE) * part)])
    healthy(timeline)
    source = timeline.sources[0]
    assert source.cut_off
    assert 0 < source.events_read <= EVENTS
    assert source.rank == 2, "the head is whole"


def test_every_prefix_is_read_or_refused(tmp_path):
    seen = -1
    for length in range(0, len(WHOLE), 37):
        timeline = attempt(tmp_path, WHOLE[:length])
        if timeline is None:
            assert seen <= 0
        else:
            assert timeline.sources[0].cut_off
            assert timeline.sources[0].events_read >= seen, "more of a file never has less in it"
            seen = timeline.sources[0].events_read
    assert seen == EVENTS


def long_trace(count=4000) -> bytes:
    """Enough text that compressors write several blocks."""
    numbers = np.random.default_rng(0).integers(1, 1 << 50, (count, 2)).tolist()
    return json.dumps(
        document([event("cpu_op", f"aten::{n}", ts, 1) for n, ts in numbers])
    ).encode()


def test_cut_off_gzip_and_zstd(tmp_path):
    large = long_trace()
    for name, data in (("a.gz", gzip.compress(large)), ("a.zst", zstandard.compress(large))):
        path = tmp_path / name
        path.write_bytes(data[: len(data) * 2 // 3])
        timeline = read_trace(path)
        healthy(timeline)
        assert timeline.sources[0].cut_off
        assert 0 < timeline.sources[0].events_read < 4000


def test_damage_in_the_middle_of_a_gzip(tmp_path):
    data = bytearray(gzip.compress(long_trace()))
    data[len(data) // 2] ^= 0xFF
    path = tmp_path / "a.gz"
    path.write_bytes(bytes(data))
    timeline = read_trace(path)
    healthy(timeline)
    assert timeline.sources[0].cut_off or timeline.sources[0].events_skipped
    assert timeline.sources[0].events_read > 1000


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"   \n", "empty"),
        (gzip.compress(b"", mtime=0), "empty"),
        (b"hello", "not a trace"),
        (b"\x89PNG\r\n\x1a\n" + bytes(99), "not a trace"),
        (b'{"a": 1}', "not a trace"),
        (b'{"traceEvents": {"a": 1}}', "not a trace"),
        (b'{"traceEvents": null}', "not a trace"),
        (b"[1, 2, 3]", "no events"),
        (b'[{"a": 1}, {"b": 2}]', "no events"),
        (b'["' + b"x" * 1000, "no events"),
        (b"[" * 5000, "no events"),
        (b'{"traceEvents": [' + b"[" * 5000, "no events"),
    ],
)
def test_what_is_no_trace_says_so(tmp_path, data, words):
    with pytest.raises(InputFileError, match=words) as caught:
        read(tmp_path, data)
    assert caught.value.next_step


def test_a_missing_file_and_a_folder(tmp_path):
    with pytest.raises(InputFileError, match="cannot be read"):
        read_trace(tmp_path / "none.json")
    with pytest.raises(InputFileError, match="cannot be read"):
        read_trace(tmp_path)


def test_a_recording_without_events_is_empty(tmp_path):
    timeline = read(tmp_path, document([]))
    healthy(timeline)
    assert len(timeline.events) == 0
    assert timeline.steps == ()
    assert timeline.sources[0].rank == 2


def one(tmp_path, text: bytes) -> Timeline:
    """Read a trace whose second event is given as text, between two good ones."""
    good = json.dumps(event("kernel", "good", 10, 5, pid=0, tid=7, device=0, stream=7)).encode()
    timeline = read(tmp_path, b'{"traceEvents": [' + b",\n".join((good, text, good)) + b"]}")
    healthy(timeline)
    assert timeline.sources[0].counts["kernel"] >= 2
    return timeline


BASE = b'{"ph": "X", "cat": "kernel", "name": "odd", "pid": 0, "tid": 7, '


@pytest.mark.parametrize(
    "text",
    [
        BASE + b'"ts": 1e400, "dur": 1}',
        BASE + b'"ts": 123456789012345678901234567890, "dur": 1}',
        BASE + b'"ts": 1, "dur": 1e300}',
        BASE + b'"ts": 1, "dur": -5}',
        BASE + b'"ts": NaN, "dur": 1}',
        BASE + b'"ts": Infinity, "dur": 1}',
        BASE + b'"ts": "soon", "dur": 1}',
        BASE + b'"ts": null, "dur": 1}',
        BASE + b'"ts": [1], "dur": 1}',
        BASE + b'"dur": 1}',
        BASE + b'"ts": 1}',
        b'{"cat": "kernel"}',
        b'{"ph": 5, "ts": 1, "dur": 1}',
        b'{"ph": "B", "name": "begin", "ts": 1}',
        b"null",
        b"17",
        b'"text"',
        b"[]",
        b'{"ph": "X", "name": }',
        b'{"ph": "X", oops}',
    ],
)
def test_an_unusable_event_is_left_out_and_counted(tmp_path, text):
    timeline = one(tmp_path, text)
    assert timeline.sources[0].counts["kernel"] == 2
    assert timeline.sources[0].events_skipped == 1
    assert not timeline.sources[0].cut_off


@pytest.mark.parametrize(
    "text",
    [
        BASE.replace(b"odd", b"o\x01d\nd") + b'"ts": 20, "dur": 1}',
        BASE.replace(b"odd", b"o\xff\xfed") + b'"ts": 20, "dur": 1}',
        BASE.replace(b"odd", b"o\\ud800d") + b'"ts": 20, "dur": 1}',
        BASE.replace(b"odd", "核心".encode()) + b'"ts": 20, "dur": 1}',
        BASE.replace(b"odd", b'odd }, {\\"ph\\": 1') + b'"ts": 20, "dur": 1}',
        BASE + b'"ts": 5, "ts": 20, "dur": 1, "dur": 1}',
        BASE + b'"ts": "20", "dur": "1.000"}',
        BASE + b'"ts": 2e1, "dur": 1}',
        BASE.replace(b"0, ", b"1.5, ") + b'"ts": 20, "dur": 1}',
        BASE.replace(b'"tid": 7', b'"tid": null') + b'"ts": 20, "dur": 1}',
        BASE + b'"ts": 20, "dur": 1, "args": null}',
        BASE + b'"ts": 20, "dur": 1, "args": [1, 2]}',
        BASE + b'"ts": 20, "dur": 1, "args": {"grid": "big", "block": [1], "stream": "x"}}',
        BASE + b'"ts": 20, "dur": 1, "args": {"correlation": 1e99, "bytes": -1, "stream": {}}}',
        BASE + b'"ts": 20, "dur": 1, "args": {"correlation": 99999999999999999999}}',
        BASE + b'"ts": 20, "dur": 1, "args": {"a": [{"ph": "X"}, {"name": "inner"}, {"ph": 1}]}}',
        BASE + b'"ts": 20, "dur": 1, "more": {"deep": [[[[{"ts": 1}]]]]}}',
    ],
)
def test_an_odd_event_is_read(tmp_path, text):
    timeline = one(tmp_path, text)
    assert timeline.sources[0].counts["kernel"] == 3
    assert timeline.sources[0].events_skipped == 0
    events = timeline.events
    assert (events.start_ns.tolist(), events.duration_ns.tolist()) == (
        [0, 0, 10_000],
        [5000, 5000, 1000],
    )


def test_names_keep_their_text_whatever_the_way(tmp_path):
    text = BASE.replace(b"odd", "核心 ☃".encode()) + b'"ts": 20, "dur": 1}'
    assert "核心 ☃" in one(tmp_path, text).names
    # The same with a control character beside it, which only the slow way reads.
    assert "核心 ☃\x02" in one(tmp_path, text.replace("☃".encode(), "☃\x02".encode())).names


def test_a_gigantic_name(tmp_path):
    name = "k" * 30_000_000
    timeline = read(tmp_path, document([event("kernel", name, 1, 1), event("kernel", "b", 2, 1)]))
    assert {len(text) for text in timeline.names} == {30_000_000, 1}


def test_wrong_types_in_the_header(tmp_path):
    odd = {
        "distributedInfo": [1],
        "deviceProperties": {"id": 0},
        "schemaVersion": {"a": 1},
        "baseTimeNanoseconds": "x",
        "host_name": 5,
        "ERROR": {"a": 1},
        "record_shapes": "yes",
    }
    timeline = read(tmp_path, document(training(), **odd))
    assert timeline.sources[0].events_read == EVENTS
    assert timeline.sources[0].devices == ()
    assert timeline.sources[0].rank == 0


def test_times_far_apart(tmp_path):
    far = [event("kernel", "a", -3.9e15, 1), event("kernel", "b", 3.9e15, 9e14)]
    timeline = read(tmp_path, document(far, schemaVersion=1))
    assert timeline.events.start_ns.tolist() == [0, 7_800_000_000_000_000_000]
    assert timeline.events.end_ns[1] > 0


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_mutated_files_never_break_the_reader(tmp_path, data):
    text = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        way = data.draw(st.sampled_from(("flip", "cut", "insert", "repeat")))
        if way == "flip":
            text[at] = data.draw(st.integers(0, 255))
        elif way == "cut":
            del text[at : at + data.draw(st.integers(1, 200))]
        elif way == "insert":
            piece = data.draw(
                st.sampled_from(
                    (b"}", b"{", b"]", b"[", b'"', b",", b"null", b"1e999", b"\\", b"\xff", b"\0")
                )
            )
            text[at:at] = piece
        else:
            text[at:at] = text[at : at + data.draw(st.integers(1, 400))]
        if not text:
            text = bytearray(b" ")
    attempt(tmp_path, bytes(text))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(("ts", "ph", "name", "a")), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    records=st.lists(
        st.fixed_dictionaries(
            {"ph": st.sampled_from(("X", "i", "C", "M", "s", "?"))},
            optional=dict.fromkeys(("cat", "name", "pid", "tid", "ts", "dur", "args", "id"), JSON),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_values_of_any_type_never_break_the_reader(tmp_path, records):
    attempt(tmp_path, json.dumps({"traceEvents": records, "schemaVersion": 1}).encode())


@pytest.mark.parametrize("number", ["1e9999999", "-1e9999999", "1e-9999999", "9" * 5000])
def test_numbers_beyond_all_arithmetic_are_left_out(tmp_path, number: str) -> None:
    """A time of 1e9999999 in a damaged piece ended in an error of decimal arithmetic."""
    good = '{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":5,"dur":1}'
    text = "".join(
        f',{{"ph":"X","cat":"cpu_op","name":"a","pid":{a},"tid":1,"ts":{b},"dur":{c},"args":{{"x":{d}}}}}'
        for a, b, c, d in (
            (number, 1, 1, 1),
            (1, number, 1, 1),
            (1, 1, number, 1),
            (1, 1, 1, number),
        )
    )
    path = tmp_path / "t.json"
    path.write_text(f'[{good}{text},{{"ph":"X",]')
    timeline = read_trace(path)
    assert len(timeline.events) >= 1
