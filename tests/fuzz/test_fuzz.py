"""A thousand damaged inputs for each reader: an answer or an error of gpuscope's, soon."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "timeline"))

from fuzz_run import shown, tried
from fuzz_targets import TARGETS

from gpuscope.errors import GpuscopeError

SEED = 2026


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_inputs_give_an_answer_or_an_error_of_ours(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    found = shown(tried(target, SEED, range(target.ci), tmp_path))
    assert found["tried"] == target.ci
    again = f"python tools/fuzz.py {name} --seed {SEED} --show N"
    assert not found["failures"], f"{found['failures']}; an input: {again}"


def test_the_reason_for_fewer_inputs_is_stated() -> None:
    assert [t.name for t in TARGETS.values() if t.ci < 1000 and not t.why] == []


FALLEN = sorted(Path(__file__).with_name("fallen").iterdir())


@pytest.mark.parametrize("path", FALLEN, ids=lambda path: path.name)
def test_what_fell_once_does_not_again(path: Path, tmp_path: Path) -> None:
    """Inputs that ended in another error; their names begin with the reader's."""
    target = TARGETS[path.name.partition(".")[0]]
    there = tmp_path / target.file
    there.write_bytes(path.read_bytes())
    with contextlib.suppress(GpuscopeError):
        target.read(there)
