"""The page of the ladders, from a small folder of made-up results with known figures."""

from __future__ import annotations

import ast
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpuscope.advice.results import Compared, Forecast, Ladder, Measured, Parity, Target, Trial
from gpuscope.advice.trial.ladder_store import LADDER_FILE, MadeOf, ladder_document
from gpuscope.document.text import Text

LADDERS = Path(__file__).resolve().parents[2] / "benchmarks" / "ladders"
sys.path.insert(0, str(LADDERS))

import ladder_results as results  # noqa: E402
import page  # noqa: E402
from ladder_cases import CASES  # noqa: E402

AGREES = Parity("agrees", "bf16", (Compared("loss", 0.001, 0.02, 10),))


def measured(step_s: float, reserved: int = 2**30) -> Measured:
    return Measured(step_s, step_s * 0.99, step_s * 1.01, 100, None, reserved)


def trial(names: tuple[str, ...], against: tuple[str, ...], outcome, expected, speedup, **more):
    added = tuple(n for n in names if n not in against)
    forecast = Forecast(names, "helps", Text("faster"), more.pop("whole", expected))
    low, high = (speedup * 0.98, speedup * 1.02) if speedup else (None, None)
    return Trial(names, added, against, outcome, forecast, expected, speedup, low, high, **more)


def ladder(name: str, trials, best=(), speedup=None, baseline_s=0.080, **more) -> Ladder:
    target = Target("build", f"/srv/somewhere/benchmarks/ladders/naive/{name}.py:build")
    low, high = (speedup * 0.99, speedup * 1.01) if speedup else (None, None)
    return Ladder(
        target,
        "NVIDIA H200",
        "time",
        measured(baseline_s, 4 * 2**30),
        tuple(trials),
        best,
        speedup,
        low,
        high,
        **more,
    )


def write(folder: Path, name: str, made: Ladder, finished: bool = True, patch: str = "") -> None:
    (folder / name).mkdir(parents=True)
    of = MadeOf(made.target, "0", made.device, {"torch": "2.11"}, "time")
    document = ladder_document(made, of, finished=finished)
    (folder / name / LADDER_FILE).write_text(json.dumps(document), encoding="utf-8")
    if patch:
        (folder / name / results.PATCH).write_text(patch, encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """resnet50: 80 ms to 16 ms, the expert 15.2 ms; vit_b16: cut off; already_good: left alone."""
    both = ("tf32", "compile")
    good = ladder(
        "resnet50",
        (
            trial(
                both, (), "kept", 4.5, 5.0, measured=measured(0.016), parity=AGREES, purpose="jump"
            ),
            trial(
                ("tf32",),
                (),
                "kept",
                2.0,
                2.5,
                measured=measured(0.032),
                parity=AGREES,
                purpose="step",
            ),
            trial(
                both,
                ("tf32",),
                "kept",
                2.2,
                2.0,
                measured=measured(0.016),
                parity=AGREES,
                purpose="step",
                whole=4.5,
            ),
            trial(
                ("tf32", "compile", "channels-last"),
                both,
                "slower",
                1.05,
                0.9,
                purpose="other",
                why=Text("0.9× as | fast."),
            ),
            Trial(("checkpoint",), ("checkpoint",), (), "skipped", None, 0.77),
        ),
        both,
        5.0,
        patch="Written.\nIn the source: tf32\nWhen it runs, by gs.apply: compile\n\n",
    )
    write(tmp_path, "resnet50", good, patch="--- a\n+++ b\n")
    kept = trial(("tf32",), (), "kept", 1.9, 2.0, measured=measured(0.040), purpose="jump")
    write(tmp_path, "vit_b16", ladder("vit_b16", (kept,)), finished=False)
    tried = trial(("tf32",), (), "even", 1.0, 1.0, measured=measured(0.020), purpose="jump")
    write(tmp_path, "already_good", ladder("already_good", (tried,), baseline_s=0.020))
    rows = [
        {"name": "expert/resnet50", "step_time_s": 0.0152},
        {"name": "expert/vit_b16", "error": "out of memory in /srv/x/y.py"},
        {"name": "naive/already_good", "step_time_s": 0.020},
        {"name": "naive/lstm", "step_time_s": 0.5},
        {"name": "naive/lstm", "error": "hung"},
    ]
    lines = "\n".join(json.dumps(row) for row in rows)
    (tmp_path / results.MEASURED).write_text(lines + "\n", encoding="utf-8")
    return tmp_path


def row_of(text: str, start: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f"| {start}"))
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def test_rates_shares_and_gains_are_the_known_ones(folder: Path) -> None:
    row = row_of(page.Page(results.find(folder), False).table(), "[ResNet-50")
    assert row[1:4] == ["800 images/s", "4,000 images/s", "4,211 images/s"]  # 64 / 0.08, ...
    assert row[4] == "**95 %**"  # 15.2 / 16
    assert row[5:] == ["5.00× (4.90–5.10)", "4.50×", "agree (bf16)", "4.00 GiB → 1.00 GiB"]


def test_of_several_runs_of_a_script_the_quickest_counts(folder: Path) -> None:
    rows = folder / results.MEASURED
    more = [
        {"name": "expert/resnet50", "error": "longer than 240 s"},
        {"name": "expert/resnet50", "step_time_s": 0.0150},
        {"name": "expert/resnet50", "step_time_s": 0.0190},
    ]
    with rows.open("a") as out:
        out.writelines(json.dumps(row) + "\n" for row in more)
    row = row_of(page.Page(results.find(folder), False).table(), "[ResNet-50")
    assert row[3:5] == ["4,267 images/s", "94 %"]  # 64 / 0.015; 15 / 16


def test_a_search_that_was_cut_off_says_so_and_shows_what_it_kept(folder: Path) -> None:
    found = results.find(folder)
    text = page.Page(found, False).text()
    row = row_of(text, "[ViT-B/16")
    assert row[2] == "1,600 images/s ¹"
    assert row[3:5] == ["not measured", "–"]
    assert row[5] == "2.00× (1.96–2.04)"
    assert "¹ There was no time for all trials" in text
    assert "The expert script could not be measured: out of memory in y.py" in text


def test_what_is_good_already_is_held_against_itself(folder: Path) -> None:
    row = row_of(page.Page(results.find(folder), False).table(), "[GPT-2 small, good already]")
    assert row[1] == row[2] == row[3]
    assert row[4:6] == ["**100 %**", "nothing to change"]


def test_what_was_not_run_is_not_run(folder: Path) -> None:
    found = results.find(folder)
    text = page.Page(found, False).text()
    assert row_of(text, "LSTM")[1:4] == ["16,384 tokens/s", "not run", "not measured"]
    assert "## Not run yet" in text
    assert "2 of 2 cases reach 95 %" in text
    nothing = page.Page(results.find(folder / "resnet50"), False)
    assert nothing.short() == "The ladders were not run yet."
    assert "No ladder was run yet" in nothing.text()


def test_errors_of_single_changes_have_the_known_median(folder: Path) -> None:
    made = results.gains(results.find(folder))
    single = sorted(round(g.error, 4) for g in made if g.single)
    assert single == [-0.2, -0.05, 0.0, 0.1, 0.1667]  # 2/2.5, 1.9/2, 1/1, 2.2/2, 1.05/0.9
    text = page.Page(results.find(folder), False).text()
    assert row_of(text, "one change, all")[1:] == ["5", "10 %", "20 %"]
    assert row_of(text, "several changes at once")[1:] == ["1", "10 %", "10 %"]
    assert "a median of 15 % for single changes, is met" in text


def test_a_case_shows_its_steps_what_failed_and_its_patch(folder: Path) -> None:
    text = page.Page(results.find(folder), False).text()
    assert "| + `tf32` | 2.00× | 2.50× | 2.45–2.55 | 32.0 ms | agree |" in text
    assert "| `channels-last` | slower | 1.05× | 0.900× | 0.9× as \\| fast. |" in text
    assert "to harm `checkpoint` 0.770×." in text
    link = "results/ladders/resnet50/patch.diff) (needs gpuscope for `compile`"
    assert f"{link}; not run itself)" in text
    assert "results/ladders/vit_b16/patch.diff" not in text
    (found,) = (each for each in results.find(folder) if each.case.name == "resnet50")
    ran = replace(found.ladder.trials[0], purpose="patch")
    found = replace(found, ladder=replace(found.ladder, trials=(*found.ladder.trials, ran)))
    assert f"{link})" in page.Page([found], False).text()


def test_both_languages_say_the_same_figures(folder: Path) -> None:
    found = results.find(folder)
    english, chinese = (page.Page(found, zh).text() for zh in (False, True))
    for figure in ("**95 %**", "5.00× (4.90–5.10)", "2.45–2.55", "10 %"):
        assert english.count(figure) == chinese.count(figure) > 0
    assert "未运行" in chinese


def test_taking_a_run_leaves_its_machine_behind(folder: Path, tmp_path: Path) -> None:
    into = tmp_path / "into"
    assert results.take([folder], into) == ("resnet50", "vit_b16", "already_good")
    text = (into / "resnet50" / LADDER_FILE).read_text(encoding="utf-8")
    assert "/srv" not in text
    assert '"benchmarks/ladders/naive/resnet50.py:build"' in text
    assert (into / "resnet50" / results.PATCH).is_file()
    again = page.Page(results.find(into), False)
    assert row_of(again.table(), "[ResNet-50")[1] == "800 images/s"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("in /a/b/site-packages/torch/nn.py:3", "in torch/nn.py:3"),
        ("a/train.py and 64 images/s, 1/2", "a/train.py and 64 images/s, 1/2"),
        ("see https://example.org/a/b", "see https://example.org/a/b"),
        ("+++ b/benchmarks/ladders/naive/x.py", "+++ b/benchmarks/ladders/naive/x.py"),
    ],
)
def test_paths_of_a_machine_are_shortened(text: str, left: str) -> None:
    assert results.without_paths(text) == left


def test_every_script_is_a_case_and_its_work_is_what_the_script_does() -> None:
    assert {p.stem for p in (LADDERS / "naive").glob("*.py")} == {c.name for c in CASES}
    ranks = {"ddp_gpt2": 2}
    for case in CASES:
        tree = ast.parse((LADDERS / "naive" / f"{case.name}.py").read_text(encoding="utf-8"))
        build = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "build")
        names = [a.arg for a in build.args.args]
        given = dict(zip(names, [ast.literal_eval(d) for d in build.args.defaults], strict=True))
        work = given.get("batch", 1) * ranks.get(case.name, 1)
        if case.unit_en == "tokens":
            work *= given.get("seq", 1)
        assert case.per_step == work, case.name
        assert (LADDERS / f"{case.by_hand}.py").is_file()
