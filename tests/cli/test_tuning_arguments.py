"""`predict --method`: what becomes of it, and what it is not for."""

from __future__ import annotations

from typing import Any

import pytest

from gpuscope.cli.tuning_arguments import fine_tuned
from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.program.models.settings import WorkloadOptions

USUAL = {"method": "qlora", "rank": 8, "targets": "qv"}


def made(workload: str = "llama-3.2-1b", on: str = "h100", **given: Any) -> WorkloadOptions:
    tuned = USUAL | {name: given.pop(name) for name in tuple(given) if name in USUAL}
    return fine_tuned(workload, WorkloadOptions(**given), tuned, [on])


def test_the_method_decides_optimizer_and_dtype() -> None:
    tuning = made(batch=2).tuning
    assert tuning is not None
    assert (tuning.method, tuning.rank, tuning.targets) == ("qlora", 8, ("q", "v"))
    assert tuning.optimizer == "paged-adamw-8bit"
    assert (made().dtype, made().amp, made().task) == ("bfloat16", False, "train")


@pytest.mark.parametrize(
    "given",
    [
        {"on": "8xh100"},
        {"workload": "train.py:build"},
        {"optimizer": "sgd"},
        {"task": "decode"},
        {"dtype": "fp16"},
    ],
)
def test_what_it_is_not_for(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError):
        made(**given)


def test_unknown_words() -> None:
    with pytest.raises(UnknownNameError, match="method"):
        made(method="dora")
    with pytest.raises(UnknownNameError, match="target"):
        made(targets="x")
