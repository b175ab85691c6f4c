"""Single changes, predicted and measured: known answers from a few made-up lines; pages current."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gpuscope.errors import InputFileError

LADDERS = Path(__file__).resolve().parents[2] / "benchmarks" / "ladders"
sys.path.insert(0, str(LADDERS))

import page  # noqa: E402
import single_gains as singles  # noqa: E402
import singles_page  # noqa: E402
from ladder_cases import CASES  # noqa: E402
from singles_rows import EFFECTS, KINDS  # noqa: E402


def line(case: str, names: str, *blocks_s: float, work: float = 1.0, **more: object) -> str:
    row = {
        "case": case,
        "names": names.split(),
        "blocks_s": blocks_s,
        "work": work,
        "device": "NVIDIA H200",
        "slots": 1,
    }
    return json.dumps(row | more) + "\n"


def forecasts(folder: Path, case: str, base_s: float, **gains: tuple) -> None:
    """CASE.json: tf32=("helps", 1.8, 1.5, 2.1), underscores standing for hyphens."""
    folder.mkdir(exist_ok=True)
    kept = [
        {
            "names": [name.replace("_", "-")],
            "effect": effect,
            "speedup": speedup,
            "low": low,
            "high": high,
        }
        for name, (effect, speedup, low, high) in gains.items()
    ]
    base = {"names": [], "step_time_s": base_s}
    document = {"of": {"device": "nvidia-h200-sxm"}, "singles": kept, "forecasts": [base]}
    (folder / f"{case}.json").write_text(json.dumps(document), encoding="utf-8")


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """gpt2: 100 ms (looked at twice, 10 % apart); lstm: one that fails, one not foreseen."""
    advice, results = tmp_path / "advice", tmp_path / "results"
    results.mkdir()
    forecasts(
        advice,
        "gpt2",
        0.09,
        tf32=("helps", 1.8, 1.5, 2.1),
        checkpoint=("hurts", 0.8, 0.75, 0.85),
        larger_batch=("little", 1.0, 0.9, 1.1),
        fused_optimizer=("helps", 1.2, 1.1, 1.3),
        pin_memory=("hurts", 0.95, 0.9, 0.99),
        compile=("fails", None, None, None),
        channels_last=("little", 1.0, 0.99, 1.01),
    )
    forecasts(advice, "lstm", 0.05, tf32=("helps", 1.1, 1.05, 1.2), compile=("helps", 2, 1.5, 3))
    forecasts(advice, "input_bound", 0.01, pin_memory=("helps", 3.0, 2.0, 4.0))
    (results / "singles.jsonl").write_text(
        line("gpt2", "", 0.11, 0.2, 0.13)
        + line("gpt2", "tf32", 0.06, 0.05, 0.1)  # 2×, predicted 1.8: −10 %
        + line("gpt2", "checkpoint", 0.125)  # 0.8×, predicted so
        + line("gpt2", "larger-batch", 0.2, work=2.0)  # 1×, predicted so
        + line("gpt2", "fused-optimizer", 0.1 / 0.96)  # 0.96×, predicted 1.2: +25 %
        + line("gpt2", "pin-memory", 0.1 / 1.01)  # 1.01×, said to hurt
        + line("gpt2", "tf32 compile", 0.05)  # a set: not here
        + line("gpt2", "", 0.1, 0.12)
        + line("lstm", "", 0.05)
        + line("lstm", "tf32", 0.05 / 0.9, 0.09)
        + json.dumps(
            {
                "case": "lstm",
                "names": ["compile"],
                "error": "Error: in /srv/x/y.py it broke. More.\nEven more",
            }
        )
        + "\n"
        + line("input_bound", "", 0.07)
        + line("input_bound", "pin-memory", 0.07),
        encoding="utf-8",
    )
    return results, advice


def gain(found: singles.Evidence, case: str, name: str) -> singles.SingleGain:
    return next(g for g in found.gains if (g.case, g.change) == (case, name))


def test_a_gain_is_the_least_of_the_original_over_the_least_with_it(folders) -> None:
    found = singles.read(*folders)
    tf32 = gain(found, "gpt2", "tf32")
    assert tf32.measured == pytest.approx(2.0)
    assert tf32.error == pytest.approx(-0.1)
    assert tf32.inside
    assert gain(found, "gpt2", "larger-batch").measured == pytest.approx(1.0)  # twice the work
    original = found.originals[0]
    assert (original.step_s, original.slowest_s, original.rows) == (0.1, 0.2, 2)
    assert original.spread == pytest.approx(0.1)
    assert original.predicted_s == 0.09


def test_median_blocks_where_they_are_asked_for(folders) -> None:
    found = singles.read(*folders, typical=True)
    assert gain(found, "gpt2", "tf32").measured == pytest.approx(0.12 / 0.06)  # of 0.13, 0.11
    assert found.originals[0].step_s == pytest.approx(0.12)


def test_the_statistics_are_the_known_ones(folders) -> None:
    found = singles.read(*folders)
    assert [g.case for g in found.counted].count("input_bound") == 0
    errors = sorted(round(g.error, 4) for g in found.counted)
    assert errors == [-0.1, -0.0594, 0.0, 0.0, 0.2222, 0.25]  # 0.95/1.01, 1.1/0.9, 1.2/0.96
    whole = singles.summary(found.counted)
    assert whole.count == 6
    assert whole.median == pytest.approx((0.1 + 0.0594) / 2, abs=1e-4)
    assert whole.mean == pytest.approx((0.1 + 0.0594 + 0.2222 + 0.25) / 6, abs=1e-4)
    assert (whole.near, whole.inside) == (4 / 6, 3 / 6)
    assert whole.nearly == 4 / 6  # 10 % wider holds 1.01 against 0.9 to 0.99
    assert whole.meets == 4 / 6  # not pin-memory (1.01 to 1.21), nor that of lstm (0.69 to 0.9)
    assert whole.largest == pytest.approx(0.25)
    big = [g for g in found.counted if g.big]
    assert {g.change for g in big} == {"tf32", "checkpoint", "fused-optimizer"}
    assert singles.summary(()) is None


def test_the_order_of_pairs_within_a_case(folders) -> None:
    found = singles.read(*folders)
    # 2, 0.8, 1, 0.96, 1.01: of ten pairs 1 and 0.96, 1 and 1.01 are not 5 % apart; of the other
    # eight, fused-optimizer (predicted 1.2) and pin-memory (0.95) are the other way round.
    of_gpt2 = [g for g in found.counted if g.case == "gpt2"]
    assert singles.order(of_gpt2) == singles.Order(8, 7)
    assert singles.order(found.counted) == singles.Order(8, 7)  # lstm has one gain: no pair
    assert singles.order(()) == singles.Order(0, 0)


def test_the_same_gain_predicted_is_not_the_same_order(folders) -> None:
    results, advice = folders
    (results / "singles.jsonl").write_text(
        line("gpt2", "", 0.1)
        + line("gpt2", "larger-batch", 0.2, work=2.0)
        + line("gpt2", "channels-last", 0.05),
        encoding="utf-8",
    )
    assert singles.order(singles.read(results, advice).counted) == singles.Order(1, 0)


@pytest.mark.parametrize(
    ("value", "is_a"),
    [(0.97, "loss"), (0.981, "nothing"), (1.0, "nothing"), (1.019, "nothing"), (1.03, "gain")],
)
def test_what_a_gain_amounts_to(value: float, is_a: str) -> None:
    assert singles.verdict(value) == is_a


def test_harm_is_held_against_what_was_foreseen(folders) -> None:
    found = singles.read(*folders)
    assert {(g.change, g.foreseen) for g in found.counted if g.came == "loss"} == {
        ("checkpoint", "loss"),
        ("fused-optimizer", "gain"),
        ("tf32", "gain"),
    }
    assert [g.change for g in found.counted if g.denied] == ["pin-memory"]
    text = singles_page.SinglesPage(found, False).text()
    assert (
        "Changes measured to lose more than 2 %: 3. Predicted for them: a loss of more than 2 %"
        " (1), a gain or loss of at most that (0), a gain of more (2)."
    ) in text
    assert "Not foreseen: 2; 1 of the 2 lose no more than" in text  # 4 % of 10 %; 10 % of nothing
    assert "Said to hurt, but measured to gain: 1." in text
    assert "| helps | 1 | 0 | 2 |" in text
    assert "| hurts | 0 | 1 | 1 |" in text


def test_what_is_left_out_is_told(folders) -> None:
    found = singles.read(*folders)
    assert found.unforecast == 1
    assert found.missing == (("gpt2", ("channels-last",)),)
    (lost,) = found.failures
    assert lost.error == "Error: in /srv/x/y.py it broke"
    text = singles_page.SinglesPage(found, False).text()
    assert "| lstm | `compile` | Error: in y.py it broke |" in text
    assert "`input_bound` waits for its loader" in text
    assert "| input_bound * | `pin-memory` | helps | 3.000× | 2.000–4.000 ✗ | 1.000× |" in text
    assert "took turns" not in text  # each ran by itself


def test_an_unsteady_original_is_told_and_left_out_of_a_row(folders) -> None:
    results, advice = folders
    with (results / "singles.jsonl").open("a", encoding="utf-8") as file:
        file.write(line("lstm", "", 0.08, slots=2))
    found = singles.read(results, advice)
    assert found.unsteady == ("lstm",)
    assert {g.case for g in found.steady} == {"gpt2"}
    text = singles_page.SinglesPage(found, False).text()
    assert "`lstm` as it is took 50.0 ms a step in its fastest block and 80.0 ms" in text
    assert "| all without `lstm` | 5 |" in text
    assert "Not foreseen: 2, of which 1 of `lstm`; 1 of the other 1 lose no more than" in text
    assert "took turns" in text


def test_another_file_has_originals_of_its_own(folders) -> None:
    results, advice = folders
    (results / "singles-other.jsonl").write_text(
        line("gpt2", "", 0.2) + line("gpt2", "tf32", 0.1), encoding="utf-8"
    )
    made = [g for g in singles.read(results, advice).gains if g.change == "tf32"]
    assert [(g.source, round(g.measured, 6)) for g in made if g.case == "gpt2"] == [
        ("singles-other", 2.0),
        ("singles", 2.0),
    ]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (line("gpt2", "tf32", 0.1), "but not the code as it is"),
        (line("t5", "", 0.1), "no forecasts for t5"),
        (line("gpt2", "", 0.1, device="NVIDIA H100 80GB HBM3"), "measured gpt2 on NVIDIA H100"),
    ],
)
def test_what_cannot_be_compared_is_refused(folders, text: str, what: str) -> None:
    results, advice = folders
    (results / "singles.jsonl").write_text(text, encoding="utf-8")
    with pytest.raises(InputFileError, match=what) as refused:
        singles.read(results, advice)
    assert refused.value.next_step


def test_nothing_measured_is_nothing_to_tell(tmp_path: Path) -> None:
    found = singles.read(tmp_path, tmp_path)
    assert found == singles.Evidence()
    made = singles_page.SinglesPage(found, False)
    assert made.short() == ""
    assert "Nothing was measured yet." in made.text()


def test_both_languages_say_the_same_figures(folders) -> None:
    found = singles.read(*folders)
    typical = singles.read(*folders, typical=True)
    english, chinese = (singles_page.SinglesPage(found, zh, typical) for zh in (False, True))
    for figure in ("2.000×", "−10.0 %", "+25.0 %", "7 / 8", "67 %"):
        assert english.text().count(figure) == chinese.text().count(figure) > 0
    assert "6 gains" in english.short()
    assert "6 项提速" in chinese.short()


def test_the_ladders_page_tells_it_too() -> None:
    text = page.Page((), False, (), "Nine gains.").text()
    assert "## Gains, predicted and measured\n\nNine gains." in text
    assert "## Gains" not in page.Page((), False).text()


def test_every_kind_and_effect_has_words() -> None:
    from typing import get_args

    from gpuscope.advice.results import Effect
    from gpuscope.advice.types import Group

    assert set(KINDS) == set(get_args(Group))
    assert set(EFFECTS) == set(get_args(Effect))
    assert {case.name for case in CASES} >= singles.NOT_PREDICTED


def test_what_was_measured_names_no_machine() -> None:
    for path in singles_page.RESULTS.glob(singles.FILES):
        text = path.read_text(encoding="utf-8")
        assert not [mark for mark in ("/tmp/", "/home/", "/root/", "GPU-") if mark in text]


def test_the_pages_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    assert singles_page.write(check=True), "python benchmarks/ladders/page.py"
    monkeypatch.setattr(sys, "argv", ["page.py", "--check"])
    page.main()
