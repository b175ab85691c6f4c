"""Ladders survive their files; what was made of something else is told, and nothing is half."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from gpuscope.advice.results import Compared, Forecast, Ladder, Measured, Parity, Target, Trial
from gpuscope.advice.trial.ladder_store import LadderStore, MadeOf, read_ladder
from gpuscope.document.text import recorded
from gpuscope.errors import InputFileError

TARGET = Target("build", "train.py:build", {"batch": 8})
MADE_OF = MadeOf(TARGET, "abc", "a device", {"torch": "2.13"}, "time")


def _ladder() -> Ladder:
    overflow = Parity("overflow", "fp16", (Compared("loss", math.nan, 0.01, 8),))
    trials = (
        Trial(
            ("tf32",),
            ("tf32",),
            (),
            "kept",
            speedup=2.0,
            low=1.9,
            high=2.1,
            purpose="jump",
            forecast=Forecast(("tf32",), "helps", recorded({"en": "Faster.", "zh": "更快。"}), 2.2),
            measured=Measured(0.5, 0.49, 0.51, 40, 2**30, 2**31, 3.5, 12.0),
        ),
        Trial(
            ("fp16",),
            ("fp16",),
            ("tf32",),
            "parity",
            parity=overflow,
            why=recorded({"en": "NaN.", "zh": "出现 NaN。"}),
        ),
    )
    return Ladder(
        TARGET,
        "a device",
        "time",
        Measured(1.0, 0.99, 1.01, 20),
        trials,
        ("tf32",),
        2.0,
        1.9,
        2.1,
        patch="--- a/train.py\n",
        unit="images",
        per_step=64,
        seconds=99.0,
        notes=(recorded({"en": "Note.", "zh": "注。"}),),
    )


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    store = LadderStore(tmp_path / "new" / "folder", MADE_OF)
    ladder = _ladder()
    store.write(ladder, finished=True)
    again = store.recall()
    assert again is not None
    assert again.trials[0] == ladder.trials[0]
    assert math.isnan(again.trials[1].parity.compared[0].largest)  # type: ignore[union-attr]
    assert replace(again, trials=()) == replace(ladder, trials=())
    assert read_ladder(store.folder).best == read_ladder(store.path).best == ("tf32",)


def test_the_document_is_json_without_special_numbers(tmp_path: Path) -> None:
    store = LadderStore(tmp_path, MADE_OF)
    store.write(_ladder(), finished=False)
    document = json.loads(store.path.read_text(), parse_constant=pytest.fail)
    assert document["schema"] == "gpuscope.ladder"
    assert document["best"] == ["tf32"]
    assert document["finished"] is False


def test_nothing_is_recalled_from_an_empty_folder(tmp_path: Path) -> None:
    assert LadderStore(tmp_path, MADE_OF).recall() is None


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"code": "abd"}, "the code"),
        ({"device": "another"}, "the device"),
        ({"versions": {"torch": "2.14"}}, "torch"),
        ({"objective": "memory"}, "the objective"),
        ({"target": replace(TARGET, options={"batch": 16})}, "batch=8"),
    ],
)
def test_what_was_made_of_something_else_is_refused(
    tmp_path: Path, change: dict[str, object], named: str
) -> None:
    LadderStore(tmp_path, MADE_OF).write(_ladder(), finished=True)
    other = replace(MADE_OF, **change)  # type: ignore[arg-type]
    with pytest.raises(InputFileError, match=named):
        LadderStore(tmp_path, other).recall()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"schema": "gpuscope.run"}',
        '{"schema": "gpuscope.ladder", "version": 99}',
        '{"schema": "gpuscope.ladder", "version": 1, "made_of": 3}',
    ],
)
def test_files_that_are_no_ladder(tmp_path: Path, text: str) -> None:
    (tmp_path / "ladder.json").write_text(text)
    with pytest.raises(InputFileError):
        LadderStore(tmp_path, MADE_OF).recall()
    with pytest.raises(InputFileError):
        read_ladder(tmp_path)
