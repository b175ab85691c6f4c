"""Whatever is wrong anywhere in a saved run ends in one error that names the place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache, reduce
from operator import getitem
from typing import Any

import pytest
from run_builders import gpt_run
from test_document_recorded import measured_run

from gpuscope.errors import InputFileError
from gpuscope.run.document import run_document
from gpuscope.run.reader import read_run

NOT_READ = re.compile(
    r"(figures|program|gpuscope_version|schema|version|texts)\b"
    r"|timeline\.(kinds|events_total|kernels\.\d+\.(group|op)$)"
)
"""What a reader makes anew, or does without."""


@cache
def _saved(name: str) -> str:
    run = gpt_run(layers=1, hidden=128) if name == "predicted" else measured_run()
    return json.dumps(run_document(run, max_events=20))


def _places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """One place of each sort: of lists the last entry alone."""
    if path and not NOT_READ.match(".".join(map(str, path))):
        yield path
    rows = enumerate(data) if isinstance(data, list) else getattr(data, "items", tuple)()
    for key, value in list(rows)[-1:] if isinstance(data, list) else rows:
        yield from _places(value, (*path, key))


def _other(value: Any, turn: int) -> Any:
    """A value of another type, but null: it may stand for what is not known."""
    of_all: list[Any] = [{"no": "such"}, ["none", {}], "word", 7.5, True]
    alike = int | float if type(value) is float else type(value)
    others = [each for each in of_all if not isinstance(each, alike)]
    return others[turn % len(others)]


def _refused(document: Any) -> str:
    """Why a document is refused; "" where it is not."""
    try:
        read_run(document)
    except InputFileError as error:
        return error.why
    return ""


@pytest.mark.parametrize("name", ["predicted", "measured"])
def test_a_value_of_a_wrong_type_is_named_wherever_it_stands(name: str) -> None:
    whole = json.loads(_saved(name))
    places, wrong = list(_places(whole)), []
    assert len(places) > 200
    for turn, (*way, last) in enumerate(places):
        holder = reduce(getitem, way, whole)
        value = holder[last]
        if value is None:
            continue
        holder[last] = _other(value, turn)
        said = _refused(whole).replace("[", ".").replace("]", "")
        if not said.startswith(".".join(map(str, [*way, last][:2]))):
            wrong.append((way, last, holder[last], said))
        holder[last] = value
    assert wrong == []
    assert _refused(whole) == ""


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("timeline", "events", "name", 2), 10**6, r"timeline\.events\.name\[2\]: 1000000 points"),
        (("timeline", "events", "kind", 0), 99, r"timeline\.events\.kind\[0\]"),
        (("timeline", "events", "lane", 0), -1, r"timeline\.events\.lane\[0\]"),
        (("timeline", "events", "op", 1), 10**6, r"timeline\.events\.op\[1\]"),
        (("timeline", "events", "duration_ns", 1), -5, r"timeline\.events\.duration_ns\[1\]"),
        (("timeline", "events", "start_ns", 1), 2**70, r"timeline\.events\.start_ns\[1\]"),
        (("timeline", "kernels", 1, "duration_s"), "2", r"kernels\[1\]\.duration_s: number expect"),
        (("timeline", "kernels", 1, "limiter"), "luck", r"kernels\[1\]\.limiter: 'luck' is not"),
        (("timeline", "ops", "columns", "module", 0), 10**6, r"ops\.columns\.module\[0\]"),
        (("timeline", "ops", "columns", "phase", 0), "night", r"ops\.columns\.phase\[0\]"),
        (("timeline", "counters", 0, "value"), [1.0], r"counters\[0\]\.value: 1 rows"),
        (("analysis", "critical_path", "segment_name", 0), 10**6, r"segment_name\[0\]"),
        (("analysis", "memory", "allocated_bytes"), [1], r"memory\.allocated_bytes: 1 rows"),
        (("analysis", "time", "0", "span_s"), [], r"analysis\.time\[0\]\.span_s: number expected"),
        (("origin",), "dreamt", r"origin: 'dreamt' is not"),
    ],
)
def test_a_wrong_value_is_named(path: tuple[Any, ...], value: object, said: str) -> None:
    document = json.loads(_saved("predicted"))
    *way, last = path
    reduce(getitem, way, document)[last] = value
    with pytest.raises(InputFileError, match=said):
        read_run(document)


def test_what_is_missing_is_named() -> None:
    document = json.loads(_saved("predicted"))
    del document["analysis"]["classes"][0]["time_s"]
    with pytest.raises(InputFileError, match=r"analysis\.classes\[0\]\.time_s: missing"):
        read_run(document)
