"""The accuracy pages: say what the results say, every miss with its cause, in both languages."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

VALIDATION = Path(__file__).resolve().parents[2] / "validation"


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(VALIDATION), *sys.path])


def _results() -> dict[str, object]:
    import table

    rows = json.loads(table.RESULTS.read_text())["rows"]
    return table.assembled(rows)


def test_the_pages_and_the_readme_show_the_results() -> None:
    import pages
    import table

    assert pages.write(_results(), table.why(), check=True) == []


def test_every_miss_has_its_cause_in_both_languages() -> None:
    import table
    from targets import without_cause

    results, why = _results(), table.why()
    assert without_cause(results["rows"], why, results["reached"]) == []
    assert all(set(words) == {"en", "zh"} and all(words.values()) for words in why.values())


def test_causes_belong_to_rows_or_targets() -> None:
    import table
    from targets import TARGETS
    from zoo import ZOO

    names = {e.name for e in ZOO} | {f"target:{t.key}" for t in TARGETS}
    assert set(table.why()) <= names


def _row(error: float, **more: object) -> dict[str, object]:
    time = {
        "predicted": 1 + error,
        "measured": 1.0,
        "error": error,
        "low": 0.9,
        "high": 1.1,
        "hit": abs(error) <= 0.1,
    }
    memory = {"predicted": 1.0, "measured": 1.0, "error": 0.0}
    base = {"name": "x", "task": "train", "mode": "eager", "host_bound": False}
    return {**base, "step_time_s": time, "peak_memory_bytes": memory, **more}


def test_rows_count_for_their_target() -> None:
    from targets import row_class

    assert row_class(_row(0.0)) == "train"
    assert row_class(_row(0.0, host_bound=True)) == "host"
    assert row_class(_row(0.0, mode="compiled")) == "compiled"
    assert row_class(_row(0.0, task="decode", host_bound=True)) == "serve"
    assert row_class(_row(0.0, task="inference")) == ""


def test_targets_by_hand() -> None:
    from targets import TARGETS, met, reached

    rows = [_row(0.02), _row(-0.16)]
    got = reached(rows, {}, {})
    train = next(t for t in TARGETS if t.key == "train")
    assert got["train"]["mean"] == pytest.approx(0.09)
    assert got["train"]["coverage"] == 0.5
    assert got["matmul"] is None
    assert not met(train, got["train"])
    assert met(train, {"mean": 0.04, "median": 0.5, "worst": 0.15})


def test_a_miss_without_a_cause_is_named() -> None:
    from targets import reached, without_cause

    rows = [_row(-0.16)]
    assert without_cause(rows, {}, reached(rows, {}, {})) == ["x", "target:train"]
    why = {"x": {"en": "a", "zh": "b"}, "target:train": {"en": "a", "zh": "b"}}
    assert without_cause(rows, why, reached(rows, {}, {})) == []


def test_a_page_without_its_markers_is_refused(tmp_path: Path) -> None:
    from pages import splice

    page = tmp_path / "page.md"
    page.write_text("<!-- a -->\nold\n<!-- /a -->\n")
    assert not splice(page, "a", "new", check=True)
    assert page.read_text() == "<!-- a -->\nold\n<!-- /a -->\n"
    assert not splice(page, "a", "new")
    assert splice(page, "a", "new")
    with pytest.raises(SystemExit, match="b"):
        splice(page, "b", "new")
