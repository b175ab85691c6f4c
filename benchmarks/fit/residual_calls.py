"""What the learned residual learns from: timed calls, each with the fold that holds it out.

Random calls of every kind of kernel (`validation/recordings/h200/micro/wide.jsonl.gz`, the fold
follows from the seed that drew them), calls of other people's models (`benchmarks/harvest`): of
the families that may be seen alone (`benchmarks.harvest.judge.held_out`), a whole family in one
fold, and convolutions near those (`benchmarks/harvest/near.py`), in the fold of their family.
"""

from __future__ import annotations

import gzip
import json
import pickle
import sys
import warnings
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT), str(ROOT / "validation")]

from benchmarks.harvest.calls import Call, read  # noqa: E402
from benchmarks.harvest.judge import CALLS, TIMES, held_out  # noqa: E402
from held_out.points import KINDS, Point, all_points  # noqa: E402
from kinds import recorded  # noqa: E402

WIDE = ROOT / "validation" / "recordings" / "h200" / "micro" / "wide.jsonl.gz"
NEAR = tuple(
    ROOT / "validation" / "recordings" / "h200" / f"near{part}.jsonl.gz" for part in ("_calls", "")
)
"""Convolutions near the seen families' (`benchmarks/harvest/near.py`), and their times."""

FOLDS = (1, 2, 3)
DRAWN = tuple(range(1, 21))
"""Seeds of the random calls."""

PART = 250
"""Calls that a process captures before it is given more."""

Row = dict[str, Any]


class Made(Protocol):
    """A point or a harvested call: what can be made and is named by its text."""

    @property
    def text(self) -> str: ...

    def build(self) -> Callable[[], object]: ...


@dataclass(frozen=True)
class Timed:
    """A measured call.

    Attributes:
        row: as `validation/held_out_kernels.timed` writes it.
        call: makes it again.
        fold: one of `FOLDS`; 0: of none, never left out.
        random: drawn, not of a model.
    """

    row: Row
    call: Made
    fold: int
    random: bool


def timed_calls() -> list[Timed]:
    """All of them."""
    return [*_drawn(), *_of_families(CALLS, TIMES, held_out), *_of_families(*NEAR)]


def _drawn() -> list[Timed]:
    at = {
        p.text: FOLDS[seed % len(FOLDS)]
        for seed in reversed(DRAWN)
        for p in all_points(KINDS, seed)
    }
    found = ((row, Point(row["kind"], row["params"])) for row in recorded(WIDE))
    return [Timed(row, point, at.get(point.text, 0), True) for row, point in found]


def _of_families(
    path: Path, times: Path, but: Callable[[set[str]], bool] = lambda of: False
) -> list[Timed]:
    """Calls of a file as `benchmarks/harvest` writes it, `but` those of such families."""
    calls, families = read(path)
    with gzip.open(times, "rt") as lines:
        rows = [row for row in map(json.loads, lines) if "us" in row]
    return [
        Timed(row, calls[row["call"]], FOLDS[zlib.crc32(min(of).encode()) % len(FOLDS)], False)
        for row in rows
        if not but(of := families[row["call"]]) and not _by_name_alone(calls[row["call"]])
    ]


def _by_name_alone(call: Call) -> bool:
    """Whether an operator called by its name runs PyTorch's kernels, where a program has cuDNN's.

    `grid_sample` goes to cuDNN's by its arguments (`gpuscope.cost.image.grid_sample`) before the
    operator that a capture sees is called.
    """
    name, _, _ = call.params["op"].partition(".")
    if name not in ("grid_sampler_2d", "grid_sampler_2d_backward"):
        return False
    first = 3 if name.endswith("backward") else 2
    picture, how = call.params["args"][first - 2], call.params["args"][first : first + 3]
    return how == [0, 0, True] and picture["dtype"] != "bfloat16"


def programs(timed: Sequence[Timed], cache: Path | None, processes: int) -> dict[str, Any]:
    """Every call, captured twice in a row (cold, then hot), by its text.

    Args:
        timed: whose calls.
        cache: a file that is read where it exists (captures take minutes) and written else; what
            it lacks is captured and added.
        processes: that capture side by side.
    """
    known: dict[str, Any] = {}
    if cache is not None and cache.is_file():
        known = pickle.loads(cache.read_bytes())
    wanted = {t.call.text: t.call for t in timed}
    todo = [wanted[text] for text in sorted(wanted.keys() - known.keys())]
    parts = [todo[i : i + PART] for i in range(0, len(todo), PART)]
    with ProcessPoolExecutor(processes) as pool:
        for n, found in enumerate(pool.map(_captured, parts)):
            known |= found
            sys.stdout.write(f"captured {n + 1} of {len(parts)} parts\n")
    if cache is not None and todo:
        cache.write_bytes(pickle.dumps(known))
    return known


def _captured(calls: Sequence[Made]) -> dict[str, Any]:
    import torch

    import gpuscope as gs

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    return {call.text: gs.capture(_twice(call)) for call in calls}


def _twice(made: Made) -> Callable[[], Callable[[], None]]:
    def build() -> Callable[[], None]:
        call = made.build()
        call()

        def step() -> None:
            call()
            call()

        return step

    return build
