"""Facts against a baseline: what is worse, what did it, and the file that holds them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuscope.analysis.types import Share
from gpuscope.errors import InputFileError
from gpuscope.guarding.baseline import Baseline, read_baseline, write_baseline
from gpuscope.guarding.facts import Facts
from gpuscope.guarding.judge import Report, judge
from gpuscope.guarding.settings import COUNTS, SHARES, Guarded, GuardSettings
from gpuscope.guarding.sources import Commit, Sources
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.views.guard import guard_annotations, guard_markdown, guard_plain

KEY = ("train", "h100")
FACTS = Facts(
    step_time_s=0.01,
    launches=100,
    peak_memory_bytes=1000,
    graph_breaks=0,
    communication_bytes=500,
    findings={"host_bound": 0.2, "notes": None},
    memory={"activation": 600, "parameter": 400},
    operators=(Share("aten::mm", 0.006, 100, 1e9, 1e6), Share("idle", 0.004)),
    account={"peak": 0.005, "pointwise": 0.001, "idle": 0.004},
)
SOURCES = Sources(
    lines={"aten::mm": ("train.py:7",), "aten::all_reduce": ("train.py:8",)},
    memory={"activation": ("train.py:6",)},
    breaks=("train.py:9",),
    findings={"new": ("A new finding.", ("train.py:3",))},
)
LIMITS = {**SHARES, **COUNTS}


def held(now: Facts, limits: dict[str, float | None] | None = None) -> Report:
    one = Guarded("train", "gpt2", ("h100",), WorkloadOptions(), limits or LIMITS)
    settings = GuardSettings(Path("x"), Path("y"), (one,))
    baseline = Baseline({"torch": "2.12"}, {KEY: FACTS, ("old", "h100"): FACTS})
    return judge(settings, {KEY: (now, SOURCES)}, baseline, {"torch": "2.13"})


def test_equal_facts_hold() -> None:
    report = held(FACTS)
    assert not report.failed
    assert report.gone == (("old", "h100"),)
    assert report.versions == (("torch", "2.12", "2.13"),)


SENT = (*FACTS.operators, Share("aten::all_reduce", 0.0001, 1))
SLOWER = (Share("aten::mm", 0.0066, 130, 1.2e9, 1e6), Share("idle", 0.004))


@pytest.mark.parametrize(
    ("fact", "change", "what", "line"),
    [
        ("step_time", {"step_time_s": 0.0106, "operators": SLOWER}, "aten::mm", "train.py:7"),
        ("launches", {"launches": 103, "operators": SLOWER}, "aten::mm", "train.py:7"),
        (
            "peak_memory",
            {"peak_memory_bytes": 1030, "memory": {"activation": 630, "parameter": 400}},
            "activation",
            "train.py:6",
        ),
        ("graph_breaks", {"graph_breaks": 1}, "torch.compile", "train.py:9"),
        ("findings", {"findings": {"host_bound": 0.2, "new": 0.03}}, "new", "train.py:3"),
        ("communication", {"communication_bytes": 506}, None, ""),
        (
            "communication",
            {"communication_bytes": 506, "operators": SENT},
            "aten::all_reduce",
            "train.py:8",
        ),
    ],
)
def test_each_fact_has_its_limit_and_its_cause(
    fact: str, change: dict[str, object], what: str | None, line: str
) -> None:
    now = replace(FACTS, **change)
    report = held(now)
    worse = [each for each in report.judged[0].held if each.verdict == "worse"]
    assert [each.fact for each in worse] == [fact]
    causes = worse[0].causes
    assert [cause.what for cause in causes] == ([what] if what else [])
    assert "".join("".join(cause.lines) for cause in causes) == line
    assert not held(now, {**LIMITS, fact: None}).failed
    shown = list(guard_annotations(report))
    at = f" file=train.py,line={line.partition(':')[2]}" if line else ""
    assert shown[0].startswith(f"::error{at}::train on h100: ")
    assert "| ✗ |" in guard_markdown(report)


def test_who_wrote_a_line_and_how_the_account_changed_are_told() -> None:
    now = replace(
        FACTS,
        step_time_s=0.0106,
        operators=SLOWER,
        account={"peak": 0.005, "pointwise": 0.0016, "idle": 0.004},
    )
    one = Guarded("train", "gpt2", ("h100",), WorkloadOptions(), LIMITS)
    settings = GuardSettings(Path("x"), Path("y"), (one,))
    wrote = {"train.py:7": Commit("12345678", "faster, says @me `x`")}
    sources = replace(SOURCES, commits=wrote)
    report = judge(settings, {KEY: (now, sources)}, Baseline({}, {KEY: FACTS}), {})
    assert report.judged[0].held[0].causes[0].commits == wrote
    assert report.judged[0].account["pointwise"] == (0.001, 0.0016)
    comment = guard_markdown(report)
    assert "`train.py:7` 12345678\n" in comment
    assert "- 12345678 `faster, says @me 'x'`\n" in comment  # in code: nobody is called
    assert "| train on h100 | 5.00 ms | 1.00 ms → 1.60 ms | 4.00 ms |" in comment
    assert "(12345678 faster" in next(iter(guard_annotations(report)))
    plain = guard_plain(report)
    assert "account of the step  pointwise and copies 1.00 ms → 1.60 ms\n" in plain
    # A baseline from before the account was kept: it is told as it is now.
    before = replace(FACTS, account={})
    report = judge(settings, {KEY: (now, sources)}, Baseline({}, {KEY: before}), {})
    assert "| 1.60 ms |" in guard_markdown(report)
    assert "account of the step" not in guard_plain(report)


def test_within_the_limit_is_no_regression() -> None:
    assert not held(replace(FACTS, step_time_s=0.01049, launches=102)).failed
    # Below two per cent of the step, a finding may come and go.
    assert not held(replace(FACTS, findings={**FACTS.findings, "new": 0.01})).failed


def test_what_is_left_of_a_quicker_step_is_no_new_finding() -> None:
    new = {"findings": {**FACTS.findings, "new": 0.1}}
    assert held(replace(FACTS, step_time_s=0.0096, **new)).failed
    assert not held(replace(FACTS, step_time_s=0.0094, **new)).failed


def test_what_the_baseline_does_not_know_fails() -> None:
    one = Guarded("train", "gpt2", ("h100",), WorkloadOptions(), LIMITS)
    settings = GuardSettings(Path("x"), Path("y"), (one,))
    report = judge(settings, {KEY: (FACTS, SOURCES)}, Baseline(), {})
    assert report.failed
    assert "--update" in guard_markdown(report)


def test_a_baseline_is_read_as_written(tmp_path: Path) -> None:
    path = tmp_path / "b.toml"
    odd = ('a "b"\\ |\n', "8xh200")
    made = Baseline({"torch": "2.13"}, {KEY: FACTS, odd: FACTS})
    write_baseline(made, path)
    assert read_baseline(path) == made
    names = [line.partition(" =")[0] for line in path.read_text().splitlines()]
    assert names.index('"aten::mm"') < names.index('"idle"')


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("launches = 100\n", "", "broken.*launches"),
        ("[versions]", "<<<<<<< HEAD\n[versions]", "marks of a merge, in line 4"),
        ("version = 1", "version = 9", "no baseline of this version"),
        ("version = 1", "version = ", "no TOML"),
        ("launches = 100\n", "launches = inf\n", "broken.*launches = inf"),
        # Nothing is larger than that: every step would have passed.
        ("step_time_s = ", "step_time_s = nan #", "broken.*step_time_s = nan"),
        ("launches = 100\n", 'launches = "100"\n', "broken.*launches"),
        ("launches = 100\n", "launches = true\n", "broken.*launches"),
    ],
)
def test_a_broken_baseline_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "b.toml"
    write_baseline(Baseline({}, {KEY: FACTS}), path)
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(InputFileError, match=said) as caught:
        read_baseline(path)
    assert caught.value.next_step
