"""A serving run is saved and read back whole; what is not one is refused by its place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError
from gpuscope.serving.document import load_serving, read_serving, save_serving, serving_document
from gpuscope.serving.result import FAILED, FINISHED, Served, Serving


def made() -> Serving:
    nan = float("nan")
    return Serving(
        "measured",
        "m",
        "vllm",
        "0.24.0",
        "h200",
        Served(
            intended_s=np.array([0.0, 1.0]),
            sent_s=np.array([0.0, 1.1]),
            input_tokens=np.array([10, 20]),
            output_tokens=np.array([5, 0]),
            first_token_s=np.array([0.5, nan]),
            finished_s=np.array([0.9, 2.0]),
            status=np.array([FINISHED, FAILED]),
            reason=np.array([-1, 0]),
        ),
        reasons=("404",),
        settings={"rate": 1.0, "slo": "ttft<1s"},
        notes=(Text("{n} of them", n=3),),
    )


def test_a_run_comes_back_as_it_was(tmp_path: Path) -> None:
    save_serving(made(), tmp_path / "x.json.gz")
    back = load_serving(tmp_path / "x.json.gz")
    assert serving_document(back) == serving_document(made())
    assert back.notes[0].template == "{n} of them"
    assert np.isnan(back.served.first_token_s[1])
    assert not len(back.served.queue_s)


@pytest.mark.parametrize(
    ("place", "value", "word"),
    [
        ("sent_s", [0.0], "served.sent_s"),
        ("status", [0, 7], "served.status[1]"),
        ("reason", [-1, 1], "served.reason[1]"),
        ("finished_s", [0.1, 2.0], "out of order"),
        ("output_tokens", [-1, 0], "output_tokens"),
        ("queue_s", [1.0, 2.0, 3.0], "queue_s"),
        ("first_token_s", [["a"], 1], "first_token_s"),
        ("sent_s", [[0.0, 1.0]], "list of numbers"),
        ("sent_s", [0.0, 1e300], "no figure"),
    ],
)
def test_what_cannot_be_is_refused(place: str, value: object, word: str) -> None:
    document = serving_document(made())
    document["served"][place] = value
    with pytest.raises(InputFileError, match=r".") as caught:
        read_serving(document)
    assert word in str(caught.value)


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"schema": "gpuscope.run"}')
    with pytest.raises(InputFileError, match="no saved serving run"):
        load_serving(tmp_path / "x.json")
    document = {**serving_document(made()), "version": 99}
    with pytest.raises(InputFileError, match="newer"):
        read_serving(document)
