"""The tools by themselves: parts of results, names, what goes when more come."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuscope.errors import GpuscopeError, InvalidValueError, UnknownNameError
from gpuscope.mcp import digests
from gpuscope.mcp.results import KEPT, LONGEST, Result, Results, details
from gpuscope.mcp.tools import NAMES, Tools, folder

TRACE = Path(__file__).resolve().parents[1] / "data/traces/h200/pageable_copies"


def test_every_tool_says_what_it_takes() -> None:
    for name in NAMES:
        tool = getattr(Tools, name)
        assert tool.__doc__
        assert set(tool.__annotations__) > {"return"}


def test_parts_are_told_before_they_are_long() -> None:
    results = Results()
    long = [{"text": "x" * 100}] * 1000
    name = results.keep("run", Result({"rows": long, "n": {"a": None, "b": [1, 2]}}))
    top = details(results, name, "", 5)
    assert top.keys == ("rows (1000 rows)", "n (2 parts)")
    assert json.loads(details(results, name, "n.b.1", 1).value) == 2
    part = details(results, name, "rows", 900)
    assert len(part.value) <= LONGEST
    assert len(json.loads(part.value)) + part.left == 1000
    with pytest.raises(InvalidValueError, match="nothing below: null"):
        details(results, name, "n.a.x", 5)
    for path in ("rows.1000", "n.c", "rows.-1"):
        with pytest.raises(UnknownNameError):
            details(results, name, path, 5)
    with pytest.raises(InvalidValueError):
        details(results, name, "n", 0)
    with pytest.raises(InvalidValueError, match="is no run"):
        results.run(name)


def test_the_oldest_results_go() -> None:
    results = Results()
    names = [results.keep("run", Result({})) for _ in range(KEPT + 1)]
    assert names[0] not in results
    assert names[1] in results
    with pytest.raises(UnknownNameError):
        results.get(names[0])


def test_a_recording_in_short() -> None:
    tools = Tools()
    told = tools.analyze(str(TRACE))
    assert told.origin == "measured"
    assert told.figures["step_time"].value
    assert told.figures["energy"].value is None
    assert told.figures["energy"].shown == "not available"
    assert len(told.findings) <= digests.MOST_FINDINGS
    for path in told.more:
        tools.details(told.id, path)
    same = tools.compare(told.id, told.id)
    assert same.difference.value == 0


def test_a_served_load_in_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[1] / "serving" / "client"))
    from fake_server import Server, running

    tools, server = Tools(), Server()
    ask = {"concurrency": 4, "requests": 12, "input_tokens": "24", "output_tokens": "6"}
    with running(server):
        told = tools.load(server.url, **ask)
    (load,) = told.loads
    assert load["finished"].value == 12
    assert load["ttft_p50"].origin == "measured"
    assert load["ttft_p50"].value > 0
    assert load["ttft_p99"].value is None  # of so few
    assert load["ttft_p99"].origin == ""
    assert len(json.loads(tools.details(told.id, "runs.0.served.sent_s").value)) == 12
    with pytest.raises(GpuscopeError, match="rate"):
        tools.load(server.url, rate=1.0, concurrency=1)


def test_an_explanation_in_short() -> None:
    tools = Tools()
    told = tools.explain("occupancy", [], {"threads": 256, "registers": 64, "on": "h200"})
    assert told.summary
    assert tools.details(told.id, told.more[0]).value
    with pytest.raises(UnknownNameError):
        tools.explain("occupation")


def test_an_unknown_option_or_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="batch"):
        Tools().predict("gpt2", options={"bach": 3})
    with pytest.raises(InvalidValueError, match="no folder"):
        folder(str(tmp_path / "none"))
