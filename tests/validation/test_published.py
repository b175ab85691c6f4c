"""Published rows: read whole, expressed or refused with a reason, judged by hand."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

VALIDATION = Path(__file__).resolve().parents[2] / "validation"


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(VALIDATION), *sys.path])


def _row(**changes: object):
    from published.rows import Row

    base = Row(
        id="x",
        source="MosaicML LLM Foundry MPT training benchmarks",
        ref="r",
        kind="training",
        model="MPT-7b",
        hardware="A100-80GB",
        devices=16,
        seq=4096,
        global_batch=128,
        micro_batch=4,
        tp=1,
        pp=1,
        dp=16,
        cp=1,
        sharding="FULL_SHARD",
        precision="amp_bf16",
        recompute="none",
        quantity="tokens_per_s_per_device",
        value=1000.0,
        unit="tokens/s/GPU",
    )
    return replace(base, **changes)


def test_every_row_has_a_source_and_is_expressed_or_refused_with_a_reason() -> None:
    from published.express import Expressed, express
    from published.rows import read_rows

    rows = read_rows()
    made = [express(row) for row in rows]
    assert len(rows) > 450
    assert all(row.ref and row.source and row.value > 0 for row in rows)
    expressed = [each for each in made if isinstance(each, Expressed)]
    assert len(expressed) > 250
    assert all(each.step_s > 0 and each.tokens > 0 for each in expressed)
    assert all(each.why for each in made if not isinstance(each, Expressed))


def test_a_line_that_is_no_row_is_refused(tmp_path: Path) -> None:
    from published.rows import read_rows

    good = {
        "id": "a",
        "source": "s",
        "ref": "r",
        "kind": "training",
        "model": "m",
        "hardware": "h",
        "quantity": "q",
        "value": 1,
        "unit": "u",
    }
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(good) + "\n" + json.dumps(good) + "\n")
    with pytest.raises(ValueError, match="twice"):
        read_rows(path)
    path.write_text(json.dumps({**good, "mfu": 0.5}) + "\n")
    with pytest.raises(ValueError, match="mfu"):
        read_rows(path)


def test_a_row_becomes_the_plan_that_it_states() -> None:
    from published.express import Expressed, express

    made = express(_row())
    assert isinstance(made, Expressed)
    plan = made.options.parallel
    assert plan is not None
    assert (plan.world, plan.fsdp, plan.microbatch, plan.global_batch) == (16, "full", 4, 128)
    assert made.tokens == 128 * 4096
    assert made.step_s == pytest.approx(128 * 4096 / (16 * 1000))
    assert made.workload.context == 4096  # the table of positions grows with the sequence


def test_precision_sharding_and_recomputation_follow_the_row() -> None:
    from published.express import Expressed, express

    made = express(_row(precision="amp_fp8", sharding="SHARD_GRAD_OP", recompute="full (x)"))
    assert isinstance(made, Expressed)
    plan = made.options.parallel
    assert plan is not None
    assert (plan.fsdp, plan.recompute, plan.software.matmul) == ("zero2", "full", "float8")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"quantity": "MFU"}, "no time"),
        ({"hardware": "Abacus"}, "catalogue"),
        ({"tp": 3}, "divide"),
        ({"model": "Llama-2-70B LoRA"}, "adapters"),
        ({"model": "MysteryLM"}, "no ready-made"),
    ],
)
def test_what_cannot_be_expressed_says_why(changes: dict[str, object], why: str) -> None:
    from published.express import NotExpressed, express

    made = express(_row(**changes))
    assert isinstance(made, NotExpressed)
    assert why in made.why


def test_printed_flops_are_turned_back_by_the_source_s_own_formula() -> None:
    """96 B s l h^2 (1 + s / 6h + V / 16 l h) for a step with recomputation."""
    from published.express import Expressed, express

    row = _row(
        source="Megatron-LM SC21 weak scaling",
        model="GPT-1.7B",
        global_batch=512,
        seq=2048,
        hardware="A100-SXM-80GB (Selene)",
        devices=32,
        quantity="achieved_TFLOPs_per_device",
        value=137.0,
        sharding="none",
        micro_batch=16,
    )
    made = express(row)
    assert isinstance(made, Expressed)
    layers, hidden = 24, 2304
    flops = (
        96
        * 512
        * 2048
        * layers
        * hidden**2
        * (1 + 2048 / (6 * hidden) + 51200 / (16 * layers * hidden))
    )
    assert made.step_s == pytest.approx(flops / (32 * 137e12))


def test_many_microbatches_follow_from_one_and_two(monkeypatch: pytest.MonkeyPatch) -> None:
    from published import predict_rows, steps
    from published.express import Expressed, express

    asked = []

    def recost(made: Expressed, programs: object) -> tuple[float, float, float]:
        count = steps.microbatches(made)
        asked.append(count)
        step_s = 0.5 + 2.0 * count
        return step_s, 0.9 * step_s, 1.1 * step_s

    monkeypatch.setattr(steps, "step_of", lambda made: None)
    monkeypatch.setattr(steps, "_recost", recost)
    made = express(_row(global_batch=16 * 4 * 7))
    assert isinstance(made, Expressed)
    found = predict_rows.predict(made)
    assert asked == [1, 2]
    assert found["predicted_s"] == pytest.approx(14.5, rel=0.02)  # and a little for stragglers
    assert found["predicted_s"] > 14.5
    assert found["state"] == predict_rows.state()
    assert not predict_rows.is_old(found, made)
    assert predict_rows.is_old({**found, "state": "before"}, made)
    assert predict_rows.is_old(found, express(_row(global_batch=16 * 4 * 8)))


def test_a_row_of_an_earlier_state_is_marked() -> None:
    """The newest state is that of the prediction made last, however few it made."""
    from published.summary import judged

    base = {
        "source": "s",
        "hardware": "H100-80GB",
        "model": "m",
        "devices": 8,
        "stack": "x",
        "release": "",
        "measured_s": 1.0,
        "predicted_s": 1.0,
        "low_s": 0.9,
        "high_s": 1.1,
        "assumed": [],
    }
    entries = {
        "never stamped": base,
        "a": {**base, "state": "one", "on": "2026-01-01 10:00"},
        "b": {**base, "state": "one", "on": "2026-01-01 10:05"},
        "c": {**base, "state": "two", "on": "2026-01-02 09:00"},
    }
    assert [row.old for row in judged(entries)] == [True, True, True, False]


def _judged(measured_s: float, predicted_s: float, half: float = 0.1):
    from published.summary import Judged

    return Judged(
        "a",
        "s",
        "H100-80GB",
        "m",
        8,
        measured_s,
        predicted_s,
        predicted_s * (1 - half),
        predicted_s * (1 + half),
    )


def test_a_group_by_hand() -> None:
    from published.summary import group

    found = group(("g",), [_judged(1.0, 1.05), _judged(1.0, 0.8), _judged(2.0, 2.2)])
    assert found.median == pytest.approx(0.1)
    assert found.mean == pytest.approx((0.05 + 0.2 + 0.1) / 3)
    assert found.worst == pytest.approx(0.2)
    assert found.bias == pytest.approx(0.05)
    assert found.coverage == pytest.approx(2 / 3)
    assert found.half_width == pytest.approx(0.1)


def test_rows_without_a_prediction_are_counted_by_reason() -> None:
    from published.summary import judged, not_predicted

    entries = {
        "a": {"source": "s", "why_not": "no"},
        "b": {"source": "s", "why_not": "no"},
        "c": {"source": "s", "failed": "broke"},
    }
    assert not_predicted(entries) == {("s", "no"): 2, ("s", "broke"): 1}
    assert judged(entries) == ()


def test_the_page_says_in_both_languages_what_the_results_say() -> None:
    from published.page import DOCS, RESULTS, page, table
    from published.summary import judged

    entries = json.loads(RESULTS.read_text("utf-8"))
    rows = judged(entries)
    assert len(rows) > 40
    for name, lang in (("published.md", "en"), ("published.zh-CN.md", "zh")):
        assert (DOCS / name).read_text("utf-8") == page(entries, lang)
    assert len(table(rows).splitlines()) == len(rows) + 1
    english, chinese = page(entries, "en"), page(entries, "zh")
    assert english.count("%") == chinese.count("%")


def test_results_are_of_rows_that_are_there() -> None:
    from published.page import RESULTS
    from published.rows import read_rows

    entries = json.loads(RESULTS.read_text("utf-8"))
    known = Counter(row.id for row in read_rows())
    assert set(entries) <= set(known)
