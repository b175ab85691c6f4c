"""The JSON document: complete, strict, stable, and readable again."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from run_builders import bare_run, gpt_run

from gpuscope.analysis.compare import compare
from gpuscope.atomic import write_document
from gpuscope.document.plain import dumps, plain
from gpuscope.document.text import render
from gpuscope.errors import InputFileError
from gpuscope.run.document import comparison_document, run_document, runs_document, sweep_document
from gpuscope.run.reader import load_document, load_runs, read_run
from gpuscope.run.timeline_document import EVENT_COLUMNS

TOP_LEVEL = {
    "schema",
    "version",
    "gpuscope_version",
    "name",
    "target",
    "device_id",
    "origin",
    "step_time_s",
    "step_time_interval_s",
    "device_busy_s",
    "host_busy_s",
    "peak_memory_bytes",
    "reserved_memory_bytes",
    "energy_j",
    "fits",
    "ranks",
    "assumptions",
    "origins",
    "samples",
    "tokens",
    "figures",
    "program",
    "analysis",
    "timeline",
}
"""Frozen: what a reader of version 2 relies on. A name may be added, none may go."""


def test_fields_of_version_2() -> None:
    document = run_document(gpt_run())
    assert document["schema"] == "gpuscope.run"
    assert document["version"] == 2
    assert set(document) >= TOP_LEVEL
    assert set(document["analysis"]) >= {
        "step_s",
        "time",
        "classes",
        "operators",
        "kinds",
        "phases",
        "modules",
        "roofline",
        "tasks",
        "memory",
        "energy",
        "utilisation",
        "findings",
    }
    assert set(document["timeline"]["events"]) == set(EVENT_COLUMNS)


def test_texts_come_back_in_every_language() -> None:
    run = gpt_run()
    document = json.loads(json.dumps(run_document(run)))
    back = read_run(document)
    assert back.analysis == run.analysis
    for lang in ("zh", "qps"):
        assert [render(f.title, lang) for f in back.analysis.findings] == [
            render(f.title, lang) for f in run.analysis.findings
        ]
    titles = [render(finding.title, "zh") for finding in back.analysis.findings]
    assert all(re.search("[一-鿿]", title) for title in titles)


def test_a_text_that_is_none_is_refused() -> None:
    document = {**run_document(gpt_run()), "texts": {"English": {"unknown": "form"}}}
    with pytest.raises(InputFileError, match="unknown form"):
        read_run(document)


def test_a_document_of_version_1_speaks_chinese_too() -> None:
    document = run_document(gpt_run())
    del document["texts"]
    finding = {**document["analysis"]["findings"][0], "title": "Old", "title_zh": "旧"}
    document["analysis"]["findings"] = [finding]
    (old,) = read_run({**document, "version": 1}).analysis.findings
    assert (old.title, render(old.title, "zh")) == ("Old", "旧")


def test_figures_follow_from_the_run() -> None:
    run = gpt_run()
    document = run_document(run)
    figures = document["figures"]
    assert figures["tokens_per_s"] == pytest.approx(8 * 1024 / run.step_time_s)
    price = run.analysis.energy.cost_usd
    assert figures["usd_per_million_tokens"] == pytest.approx(price / (8 * 1024) * 1e6)
    assert sum(c["time_s"] for c in document["analysis"]["classes"]) == pytest.approx(
        document["step_time_s"]
    )


def test_to_dict_is_the_document() -> None:
    assert gpt_run().to_dict() == run_document(gpt_run())


def test_strict_json_without_nan() -> None:
    run = gpt_run()
    broken = replace(run, energy_j=float("nan"))
    text = dumps(run_document(broken))
    document = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in the JSON"))
    assert document["energy_j"] is None
    assert plain({1: (np.int64(2), np.float32("inf"))}) == {"1": [2, None]}


def test_missing_readings_are_null_not_zero() -> None:
    document = run_document(bare_run())
    for field in ("peak_memory_bytes", "energy_j", "host_busy_s", "fits", "tokens"):
        assert document[field] is None
    assert document["figures"]["tokens_per_s"] is None


@pytest.mark.parametrize("run", [gpt_run(), bare_run()], ids=["full", "bare"])
def test_a_saved_run_reads_back_the_same(run, tmp_path) -> None:
    path = tmp_path / "run.json"
    write_document(run_document(run), path)
    (back,) = load_runs(path)
    assert back.analysis == run.analysis
    assert back.step_time_interval_s == run.step_time_interval_s
    again = run_document(back)
    again["program"] = run_document(run)["program"]
    assert again == run_document(run)


def test_the_timeline_reads_back_event_by_event(tmp_path) -> None:
    run = gpt_run()
    write_document(run_document(run), tmp_path / "run.json")
    (back,) = load_runs(tmp_path / "run.json")
    for name in ("start_ns", "duration_ns", "lane", "op", "correlation"):
        assert np.array_equal(
            getattr(back.timeline.events, name), getattr(run.timeline.events, name)
        )
    for row in np.flatnonzero(run.timeline.events.kernel >= 0)[:20]:
        kernels = (t.kernels[t.events.kernel[row]] for t in (back.timeline, run.timeline))
        ours, theirs = (replace(kernel, op=0) for kernel in kernels)
        assert ours == theirs
    before, after = run.timeline.ops[5], back.timeline.ops[5]
    assert (after.name, after.module, after.inputs) == (before.name, before.module, before.inputs)


def test_a_huge_timeline_keeps_its_longest_events_and_says_so() -> None:
    run = gpt_run()
    kept = run_document(run, max_events=50)["timeline"]
    total = len(run.timeline.events)
    assert len(kept["events"]["start_ns"]) == 50
    assert kept["events_total"] == total
    assert kept["truncation"] == f"The 50 longest of {total} events are kept."
    assert min(kept["events"]["duration_ns"]) >= np.sort(run.timeline.events.duration_ns)[-50]
    assert kept["events"]["start_ns"] == sorted(kept["events"]["start_ns"])
    whole = run_document(run)["timeline"]
    assert whole["truncation"] == ""


def test_documents_of_several_runs(tmp_path) -> None:
    run = gpt_run()
    write_document(runs_document([run, run]), tmp_path / "runs.json")
    assert len(load_runs(tmp_path / "runs.json")) == 2
    write_document(sweep_document("batch", [(1.0, run), (2.0, run)]), tmp_path / "sweep.json")
    sweep = load_document(tmp_path / "sweep.json")
    assert [point["value"] for point in sweep["points"]] == [1.0, 2.0]
    assert sweep["points"][0]["run"]["timeline"] is None
    assert len(load_runs(tmp_path / "sweep.json")[0].timeline.events) == 0


def test_comparison_document_adds_up() -> None:
    a, b = gpt_run(), gpt_run(hidden=1024)
    document = comparison_document(compare(a, b))
    assert sum(row["difference_s"] for row in document["classes"]) == pytest.approx(
        document["difference_s"]
    )


@pytest.fixture(scope="module")
def text() -> str:
    return dumps(run_document(gpt_run()))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda text: "", "is empty"),
        (lambda text: text[: len(text) // 2], "cut off"),
        (lambda text: text[:-1], "cut off"),
        (lambda text: "hello", "not strict JSON"),
        (lambda text: "[]", "not a gpuscope run"),
        (lambda text: "{}", "no 'schema'"),
        (lambda text: '{"schema": "other"}', "not a gpuscope run"),
        (lambda text: text.replace('"version":2', '"version":3', 1), "newer gpuscope"),
        (lambda text: text.replace('"version":2', '"version":"x"', 1), "no valid version"),
        (lambda text: text.replace('"step_time_s":', '"step":', 1), "step_time_s: missing"),
        (lambda text: text.replace('"energy_j":', '"energy_j":NaN,"e":', 1), "strict JSON"),
        (lambda text: text.replace('"start_ns":[0,', '"start_ns":[', 1), "not equally long"),
        (lambda text: '{"schema": "gpuscope.sweep", "version": 1}', "points: missing"),
        (lambda text: '{"schema": "gpuscope.runs", "version": 1, "runs": [1]}', r"runs\[0\]: obj"),
    ],
)
def test_what_is_wrong_with_a_file(text, spoil, message, tmp_path) -> None:
    path = tmp_path / "run.json"
    path.write_text(spoil(text), "utf-8")
    with pytest.raises(InputFileError, match=message):
        load_runs(path)


def test_files_that_cannot_be_read(tmp_path) -> None:
    with pytest.raises(InputFileError, match="no file"):
        load_document(tmp_path / "missing.json")
    with pytest.raises(InputFileError, match="is a folder"):
        load_document(tmp_path)
    (tmp_path / "picture").write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(InputFileError, match="not text"):
        load_document(tmp_path / "picture")


def test_writing_is_all_or_nothing(tmp_path) -> None:
    path = tmp_path / "run.json"
    path.write_text("before")
    with pytest.raises(ValueError, match="JSON"):
        write_document({"x": float("nan")}, path)
    assert path.read_text() == "before"
    with pytest.raises(InputFileError, match="does not exist"):
        write_document({}, tmp_path / "no" / "run.json")
    with pytest.raises(InputFileError, match="is a folder"):
        write_document({}, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]


@pytest.mark.parametrize("name", ["json.md", "json.zh-CN.md"])
def test_every_field_is_described(name) -> None:
    """The page names each field of a run and of its parts."""
    described = (Path(__file__).parents[2] / "docs" / name).read_text("utf-8")
    document = run_document(gpt_run())
    wanted = {*document, *document["analysis"], *document["figures"]}
    wanted |= {*EVENT_COLUMNS, *document["timeline"]} - {"origin", "notes"}
    wanted |= set(document["analysis"]["energy"])
    wanted |= {"truncation", "events_total", *document["timeline"]["ops"]["columns"]}
    assert sorted(field for field in wanted if f"{field}`" not in described) == []


def test_every_beginning_of_a_file_is_told_to_be_cut_off(tmp_path) -> None:
    """In the middle of a number, a word or a string as well."""
    text = '{"schema": "x", "a": [1.5e-07, true, null, "he\\u4e2d\\n", -3], "c": 1e+20}'
    path = tmp_path / "run.json"
    for length in range(1, len(text)):
        path.write_text(text[:length])
        with pytest.raises(InputFileError, match="cut off"):
            load_document(path)
