"""A plan's page, of each task: candidates, neighbours, limits, what starts it; both languages."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

import gpuscope as gs
from gpuscope.planning.explanation import explained
from gpuscope.planning.serving.explanation import explained_serving
from gpuscope.planning.tuning.explanation import explained_tuning
from gpuscope.planning.types import Neighbour
from gpuscope.views.html import write_explanation

sys.path.insert(0, str(Path(__file__).parents[2] / "planning"))

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from made import asked, judged, planned

    best = judged(2.0, dp=4, tp=2, microbatch=1)
    second = judged(2.4, "8xh100", dp=8)
    away = replace(best.candidate, plan=replace(best.candidate.plan, tp=1, dp=8))
    near = Neighbour(
        change="tp 2 → 1", candidate=away, more=0.11, peak_bytes=143e9, usable_bytes=140 << 30,
        rank=0,
    )  # fmt: skip
    full = replace(near, change="microbatch 1 → 2", peak_bytes=153.6 * 2**30, rank=3)
    plan = replace(
        planned(), question=asked(limit="time<1h"), best=best, ties=(best,), front=(best, second),
        judged=(best, second), near=(near, full),
    )  # fmt: skip
    path = tmp_path_factory.mktemp("plan") / "plan.html"
    write_explanation(explained(plan), path, "en")
    return path


@pytest.fixture(scope="module")
def tuning_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from test_plan_peft_script import answered, asked, candidates, chosen

    question = asked(on="rtx-4090", seq=1024)
    plan = chosen(question, method="lora")
    other = answered(question, candidates(question)[0][1]).best
    assert plan.best is not None
    assert other is not None
    both = (plan.best, other)
    plan = replace(plan, judged=both, front=both[:1], short=(replace(other, peak_bytes=30 << 30),))
    path = tmp_path_factory.mktemp("tuning") / "tuning.html"
    write_explanation(explained_tuning(plan, "rank=64", "peft"), path, "en")
    return path


@pytest.fixture(scope="module")
def serving_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    load = {"rate": 2, "answer": "64", "slo": "tpot<50ms", "simulate": 2}
    plan = gs.plan("llama-3.1-8b", task="serve", on="h100", devices=1, **load)
    path = tmp_path_factory.mktemp("serving") / "serving.html"
    write_explanation(explained_serving(plan, "kv=fp8", "vllm"), path, "en")  # type: ignore[arg-type]
    return path


def read(opened, lang: str) -> str:  # type: ignore[no-untyped-def]
    """All that the page says, scrolled to its end."""
    if lang == "zh":
        opened.page.click("#language")
    opened.page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    return opened.page.inner_text("body")


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_fine_tuning_has_its_script_and_what_does_not_fit(
    lang: str, tuning_path: Path, browse
) -> None:
    opened = browse(tuning_path)
    text = read(opened, lang)
    said = {
        "en": ("Plans that fit", "What does not fit", "The least short first", "Why not rank=64"),
        "zh": ("放得下", "差得最少的在前", "每个 token", "为什么不用 rank=64"),
    }
    for words in (*said[lang], "def adapted(model):", "python tune.py"):
        assert words in text
    assert "词元" not in text
    assert opened.page.locator("svg, canvas").count() > 0
    assert opened.errors == []


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_server_has_its_line_and_its_limit(lang: str, serving_path: Path, browse) -> None:
    opened = browse(serving_path)
    text = read(opened, lang)
    said = {
        "en": ("TPOT against cost", "What holds the memory", "simulated", "Why not kv=fp8"),
        "zh": ("显存被什么占用", "模拟", "为什么不用 kv=fp8"),
    }
    for words in (*said[lang], "vllm serve llama-3.1-8b"):
        assert words in text
    assert opened.page.locator("svg, canvas").count() > 0
    assert opened.errors == []


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_scatter_neighbours_and_limits(lang: str, page_path: Path, browse) -> None:
    opened = browse(page_path)
    text = read(opened, lang)
    said = {
        "en": ("All against all", "80 % interval", "One decision away", "not on rank 3 by 13.6 GiB",
               "What would have to be true for the runner-up to win", "time<1h"),
        "zh": ("80 % 区间", "13.6 GiB", "time<1h"),
    }  # fmt: skip
    for words in said[lang]:
        assert words in text
    assert ("One decision away" in text) is (lang == "en")
    assert "tp 2 → 1" in text
    assert opened.page.locator("svg, canvas").count() > 0
    assert opened.errors == []
