"""A ladder told: every figure shown is one of the ladder's, and what failed is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuscope.advice.results import Compared, Forecast, Ladder, Measured, Parity, Target, Trial
from gpuscope.advice.trial.host_pace import BENCHED, SAVED
from gpuscope.advice.trial.ladder_explanation import explain_ladder
from gpuscope.advice.trial.ladder_figures import (
    best_parity,
    failed,
    pace,
    predicted_step_s,
    quantity,
    untried,
)
from gpuscope.advice.trial.outcomes import stopped_words
from gpuscope.advice.trial.rungs import rungs
from gpuscope.document.blocks import Bars, Code, Explanation, Paragraph, Table
from gpuscope.document.text import Text, recorded, render
from gpuscope.views.explanation_terminal import render_explanation
from gpuscope.views.terminal import make_console

AGREES = Parity("agrees", "bf16", (Compared("loss", 0.0031, 0.02, 8),))
DIFFERS = Parity("differs", "fp16", (Compared("loss", float("nan"), 0.02, 8),))
PATCH = "--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n"
PATCH += "-opt = AdamW(p)\n+opt = AdamW(p, fused=True)\n"


def _measured(step_s: float) -> Measured:
    low_s, high_s, held = step_s * 0.99, step_s * 1.01, int(2**34 * step_s)
    return Measured(step_s, low_s, high_s, 100, held, 2 * held, 400 * step_s, 10.0)


def ladder() -> Ladder:
    """TF32 and a fused optimizer won; fp16 overflowed; checkpointing was only predicted."""
    best = ("tf32", "fused-optimizer")
    both = Forecast(best, "helps", Text("Fewer passes."), 2.2)
    trials = (
        Trial(
            (*best, "fp16"),
            (*best, "fp16"),
            (),
            "parity",
            None,
            3.0,
            2.9,
            2.8,
            3.0,
            parity=DIFFERS,
            seconds=20.0,
            purpose="jump",
        ),
        Trial(
            best,
            best,
            (),
            "kept",
            both,
            2.2,
            2.0,
            1.96,
            2.04,
            _measured(0.05),
            AGREES,
            seconds=20.0,
            purpose="part",
        ),
        Trial(
            (*best, "fp16"),
            ("fp16",),
            best,
            "parity",
            None,
            1.3,
            parity=DIFFERS,
            why=Text("The loss is not a number."),
            purpose="part",
        ),
        Trial(
            best[:1],
            best[:1],
            (),
            "kept",
            None,
            1.8,
            1.6,
            1.59,
            1.61,
            _measured(0.0625),
            AGREES,
            seconds=15.0,
            purpose="step",
        ),
        Trial(
            best,
            best[1:],
            best[:1],
            "kept",
            None,
            1.22,
            1.25,
            1.24,
            1.26,
            _measured(0.05),
            AGREES,
            seconds=15.0,
            purpose="step",
        ),
        Trial(
            ("recompute",),
            ("recompute",),
            (),
            "skipped",
            None,
            0.75,
            why=recorded({"en": "Recomputes the forward pass.", "zh": "重算前向。"}),
        ),
    )
    return Ladder(
        Target("build", "train.py:build"),
        "NVIDIA H200",
        "time",
        _measured(0.1),
        trials,
        best,
        2.0,
        1.96,
        2.04,
        PATCH,
        None,
        "images",
        64,
        95.0,
        (Text("torch 2.13"),),
    )


def _text(explanation: Explanation, lang: str, width: int) -> str:
    console = make_console()
    console.width = width
    with console.capture() as shown:
        for part in render_explanation(explanation, lang):
            console.print(part)
    return shown.get()


def test_the_summary_has_the_figures_that_matter() -> None:
    story = explain_ladder(ladder(), "patch.diff")
    assert story.title.endswith("2 times as fast")
    text = " ".join(w for w in story.summary)
    assert "50.0 ms instead of 100 ms (640 → 1,280 images/s): 2.00× (1.96–2.04, 95 %)" in text
    assert "loss within 0.31 % (2 % is allowed)" in text
    assert "Predicted beforehand: 2.20×, 10 % more than measured" in text
    assert "fp16: other results" in text
    assert "3 real trials" not in text
    assert "4 real trials" in text
    assert story.commands == ("git apply patch.diff",)


def test_steps_and_failures() -> None:
    found = ladder()
    assert [r.added for r in rungs(found)] == [("tf32",), ("fused-optimizer",)]
    assert [t.added for t in failed(found)] == [("fp16",)]
    assert [t.added for t in untried(found)] == [("recompute",)]
    assert pace(found, found.baseline.step_s) == (640, "images/s")


def test_the_bars_are_the_measured_pace() -> None:
    blocks = [b for s in explain_ladder(ladder()).sections for b in s.blocks]
    bars = next(b for b in blocks if isinstance(b, Bars))
    assert [b.parts[0].value for b in bars.bars] == pytest.approx([640, 1024, 1280])
    first = next(b for b in blocks if isinstance(b, Table))
    assert [row[1] for row in first.rows] == ["", 1.8, 1.22]
    assert [row[2] for row in first.rows] == ["", 1.6, 1.25]
    code = next(b for b in blocks if isinstance(b, Code))
    assert "\n".join(line.text for line in code.lines) + "\n" == PATCH


def test_without_known_work_the_bars_are_step_times() -> None:
    bare = replace(ladder(), unit="", per_step=None)
    blocks = [b for s in explain_ladder(bare).sections for b in s.blocks]
    bars = next(b for b in blocks if isinstance(b, Bars))
    assert [b.parts[0].value for b in bars.bars] == pytest.approx([0.1, 0.0625, 0.05])
    assert bars.unit == "s"


@pytest.mark.parametrize(
    ("step_s", "said"), [(0.05, "2× less"), (0.2, "2× more"), (0.09, ""), (None, "")]
)
def test_a_machine_of_another_pace_than_predicted_is_told(step_s: float | None, said: str) -> None:
    before = ladder()
    forecast = Forecast(("tf32",), "helps", Text(""), 2.0)
    if step_s is not None:  # before: as predicted
        forecast = replace(forecast, step_time_s=step_s / 2)
    trials = (replace(before.trials[1], forecast=forecast), *before.trials[2:])
    for found in (replace(before, trials=trials), replace(before, trials=trials, best=())):
        assert predicted_step_s(found) == step_s
        text = " ".join(w for w in explain_ladder(found).summary)
        assert ("gpuscope bench --quick --save" in text) == bool(said)
        assert said in text


@pytest.mark.parametrize("note", [BENCHED, SAVED])
def test_a_host_that_was_measured_is_not_to_be_measured(note: Text) -> None:
    before = ladder()
    forecast = replace(Forecast(("tf32",), "helps", Text(""), 2.0), step_time_s=0.025)
    trials = (replace(before.trials[1], forecast=forecast), *before.trials[2:])
    found = replace(before, trials=trials, notes=(note,))
    text = " ".join(w for w in explain_ladder(found).summary)
    assert "2× less" in text
    assert "the host was measured" in text
    assert "gpuscope bench" not in text


def test_what_is_good_already_is_told_so() -> None:
    idle = replace(ladder(), trials=ladder().trials[-1:], best=(), speedup=None, patch="")
    story = explain_ladder(idle)
    assert story.title.endswith("nothing to change")
    assert "Leave it as it is." in story.summary[0]
    assert [section.title for section in story.sections] == ["What not to do"]


def test_a_change_that_is_withdrawn_is_marked() -> None:
    """TF32 was the first rung, and then left out again: the way up goes on without it."""
    before = ladder()
    both = ("tf32", "fused-optimizer")
    without = Trial(both[1:], (), both, "even", None, None, 1.0, 0.99, 1.01, purpose="without")
    made = replace(before, trials=(*before.trials, without), best=both[1:])
    table = next(b for s in explain_ladder(made).sections for b in s.blocks if isinstance(b, Table))
    assert "(withdrawn)" in table.rows[1][0]  # type: ignore[union-attr]
    assert "without TF32" in str(table.rows[3][0])
    assert table.marked == (2,)


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("width", [60, 100])
def test_it_is_shown_within_the_width(lang: str, width: int) -> None:
    text = _text(explain_ladder(ladder(), "patch.diff"), lang, width)
    assert "git apply patch.diff" in text
    assert ("重算前向" if lang == "zh" else "Recomputes") in text


@pytest.mark.parametrize("objective", ["time", "memory", "energy", "cost"])
def test_each_objective_has_its_title(objective: str) -> None:
    story = explain_ladder(replace(ladder(), objective=objective))  # type: ignore[arg-type]
    assert ("memory" in story.title) == (objective == "memory")
    assert ("energy" in story.title) == (objective == "energy")
    assert "2 times" in story.title


def test_what_had_no_time_is_not_called_good() -> None:
    late = Trial(("tf32",), ("tf32",), (), "skipped", purpose="part")
    idle = replace(ladder(), trials=(ladder().trials[0], late), best=(), speedup=None, patch="")
    story = explain_ladder(idle)
    assert story.title.endswith("nothing found in this time")
    text = " ".join(w for w in story.summary)
    assert "Leave it as it is." not in text
    assert "1 more trial: give a larger --budget with --resume" in text


def test_good_code_is_called_good_though_doubtful_changes_were_left_out() -> None:
    """Changes of which nothing is expected are tried only in case a prediction is wrong."""
    doubtful = Trial(("tf32",), ("tf32",), (), "skipped", purpose="other")
    good = replace(ladder(), trials=(doubtful,), best=(), speedup=None, patch="")
    story = explain_ladder(good)
    assert story.title.endswith("nothing to change")
    assert "Leave it as it is." in story.summary[0]


def test_nothing_tried_says_why() -> None:
    bare = replace(ladder(), trials=(), best=(), speedup=None, patch="")
    assert "no change that can be made on this device applies" in explain_ladder(bare).summary[0]
    stopped = explain_ladder(replace(bare, interrupted=True))
    assert "the time was over before anything was tried" in stopped.summary[0]
    took = Trial(
        ("tf32",),
        ("tf32",),
        (),
        "skipped",
        purpose="jump",
        seconds=90.0,
        why=stopped_words(90.0, None),
    )
    under_way = explain_ladder(replace(bare, trials=(took,), interrupted=True)).summary[0]
    assert "no trial was over. TF32 for float32 products: Stopped after 90 s" in under_way
    assert "尚未完成计时" in render(under_way, "zh")
    assert stopped.title.endswith("nothing found in this time")
    idle = replace(bare, trials=ladder().trials[-1:])
    assert "no change is expected to gain" in explain_ladder(idle).summary[0]


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("In the source: tf32, fused-optimizer", "It is plain PyTorch"),
        ("When it runs, by gs.apply: tf32", "Made by gs.apply when it runs: TF32"),
        (
            "In the source: tf32, lazy-item\nOf these, with functions of gpuscope: lazy-item",
            "Plain PyTorch: TF32",
        ),
        ("In the source: fused-optimizer\nWhen it runs, by gs.apply: tf32", "Plain PyTorch: fused"),
    ],
)
def test_it_says_which_part_of_the_patch_needs_gpuscope(head: str, said: str) -> None:
    story = explain_ladder(replace(ladder(), patch=f"Written by gpuscope.\n{head}\n\n{PATCH}"))
    last = story.sections[-1].blocks
    told = [b.text for b in last if isinstance(b, Paragraph)]
    assert len(told) == 1
    assert told[0].startswith(said)
    assert render(told[0], "zh") != told[0]
    assert not any(isinstance(b, Paragraph) for b in explain_ladder(ladder()).sections[-1].blocks)


def test_figures_of_different_times_are_told_apart_from_pairs() -> None:
    def drifts(made: Ladder) -> bool:
        return any("took turns" in words for words in explain_ladder(made).summary)

    assert not drifts(ladder())  # 0.1 s over 0.05 s is the 2.0 of the pairs
    slow = replace(ladder(), baseline=_measured(0.12))
    assert drifts(slow)
    assert "60.0 ms instead of 120 ms" in _said(slow)[0]  # 2.00x, as it says beside it
    assert "took 50.0 ms" in _said(slow)[0]


def test_sets_that_broke_are_told_where_no_culprit_is_known() -> None:
    made = ladder()
    assert [t.added for t in failed(made)] == [("fp16",)]  # it explains the broken jump
    alone = replace(made, trials=made.trials[:1], best=())
    assert [t.added for t in failed(alone)] == [("tf32", "fused-optimizer", "fp16")]


def test_a_patch_that_differs_says_nothing_of_what_was_kept() -> None:
    made = ladder()
    patch = replace(made.trials[1], outcome="parity", parity=DIFFERS, purpose="patch")
    assert best_parity(replace(made, trials=(*made.trials, patch))) == AGREES


def test_means_are_named_in_chinese() -> None:
    assert quantity("mean gradient norm").to("zh") == "梯度范数均值"
    assert quantity("loss, first step").to("zh") == "损失，第一步"


def _said(made: Ladder) -> tuple[str, str]:
    told = explain_ladder(made).summary
    return " ".join(each for each in told), "".join(render(each, "zh") for each in told)


def _predicted(step_s: float) -> Ladder:
    """The ladder, with what the code as it is was predicted to take."""
    made = ladder()
    forecast = Forecast(("tf32",), "helps", Text(""), 2.0, step_time_s=step_s / 2)
    return replace(made, trials=(replace(made.trials[0], forecast=forecast), *made.trials[1:]))


def test_a_step_that_waits_for_its_loader_says_so() -> None:
    predicted = 0.01
    made = _predicted(predicted)
    waiting = replace(_measured(6 * predicted), loader_s=5 * predicted)
    english, chinese = _said(replace(made, baseline=waiting))
    assert "were spent waiting for its data loader, after the changes 0" in english
    assert "在等待数据加载器" in chinese
    assert "The code as it was takes" not in english  # the rest takes what was predicted
    slow = replace(waiting, loader_s=2 * predicted)
    english, chinese = _said(replace(made, baseline=slow))
    assert "beside its loader, predicted were" in english
    assert "（不含数据加载）" in chinese


def test_a_loader_that_works_beside_the_device_is_no_error() -> None:
    step_s = 0.01
    made = _predicted(step_s)
    english, _ = _said(replace(made, baseline=replace(_measured(step_s), loader_s=0.5 * step_s)))
    assert "waiting for its data loader" in english
    assert "predicted were" not in english
    english, _ = _said(replace(made, baseline=replace(_measured(step_s), loader_s=0.01 * step_s)))
    assert "data loader" not in english
