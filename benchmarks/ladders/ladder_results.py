"""What was measured of the ladders, read from their files."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ladder_cases import CASES, Case

from gpuscope.advice.results import Ladder, Parity, Trial
from gpuscope.advice.trial.ladder_figures import best_parity, best_trial, cut_short, failed, untried
from gpuscope.advice.trial.ladder_store import LADDER_FILE, read_ladder
from gpuscope.advice.trial.paired_gain import paired_gain
from gpuscope.advice.trial.rungs import Rung, rungs
from gpuscope.atomic import write_atomically

__all__ = ["MEASURED", "PATCH", "Found", "Gain", "Script", "find", "gains", "take", "without_paths"]

MEASURED = "measured.jsonl"
PATCH = "patch.diff"

_RAN = ("kept", "even", "slower", "parity")
_GROWING = ("", "jump", "part", "more", "other")


@dataclass(frozen=True, slots=True)
class Script:
    """One script, measured as it is.

    Attributes:
        step_s: median; None where it could not be measured.
        error: why not; "" where it was.
    """

    step_s: float | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """All that is known of one case.

    Attributes:
        case: which.
        ladder: of `gpuscope optimize`; None where it was not run.
        finished: the search came to its end.
        naive: the script as first written, measured by itself; None where it was not.
        expert: the expert's script; None where it was not measured.
        patch: whether there is one.
    """

    case: Case
    ladder: Ladder | None
    finished: bool
    naive: Script | None
    expert: Script | None
    patch: bool

    @property
    def naive_s(self) -> float | None:
        """Seconds of a step as first written: beside its ladder, else by itself."""
        if self.ladder is not None:
            return self.ladder.baseline.step_s
        return self.naive.step_s if self.naive is not None else None

    @property
    def expert_s(self) -> float | None:
        """Seconds of an expert's step."""
        return self.expert.step_s if self.expert is not None else None

    @property
    def best(self) -> Trial | None:
        """The last measurement of what was kept; of a search that was cut off, what it had kept."""
        ladder = self.ladder
        if ladder is None:
            return None
        if ladder.best:
            return best_trial(ladder)
        if self.finished:
            return None
        won = [t for t in ladder.trials if t.outcome == "kept" and t.purpose in _GROWING]
        return won[-1] if won else None

    @property
    def ours_s(self) -> float | None:
        """Seconds of a step at the end; the original's where nothing was to be changed."""
        if self.ladder is None:
            return None
        best = self.best
        if best is not None and best.measured is not None:
            return best.measured.step_s
        done = self.finished and not self.ladder.interrupted and not self.ladder.best
        return self.ladder.baseline.step_s if done else None  # nothing was to be changed

    @property
    def speedup(self) -> tuple[float, float, float] | None:
        """The original over the best (low, middle, high), measured in pairs."""
        ladder, best = self.ladder, self.best
        if ladder is None:
            return None
        given = paired_gain(ladder.trials, ladder.best, self.patch) or (
            ladder.low,
            ladder.speedup,
            ladder.high,
        )
        if not ladder.best and best is not None and not best.against:
            given = (best.low, best.speedup, best.high)
        low, middle, high = given
        if low is None or middle is None or high is None:
            return None
        return low, middle, high

    @property
    def predicted(self) -> float | None:
        """The speedup that was predicted for what was kept."""
        best = self.best
        if self.ladder is None or best is None:
            return None
        told = [
            t.forecast.speedup
            for t in self.ladder.trials
            if set(t.names) == set(best.names) and t.forecast is not None and t.forecast.speedup
        ]
        return told[-1] if told else None

    @property
    def parity(self) -> Parity | None:
        """How its results compare with the original's."""
        if self.ladder is None:
            return None
        return best_parity(self.ladder) or (self.best.parity if self.best is not None else None)

    @property
    def told(self) -> Ladder | None:
        """The ladder with the gain that the page tells as its whole one."""
        gain = self.speedup
        if self.ladder is None or gain is None:
            return self.ladder
        return replace(self.ladder, low=gain[0], speedup=gain[1], high=gain[2])

    @property
    def rungs(self) -> tuple[Rung, ...]:
        """Its rungs; of a search that was cut off, what had won until then."""
        ladder, best = self.told, self.best
        if ladder is None or best is None:
            return ()
        return rungs(ladder if ladder.best else replace(ladder, best=best.names))

    @property
    def short_of_time(self) -> bool:
        """The search did not come to its end, or left trials out."""
        if self.ladder is None:
            return False
        return cut_short(self.ladder) or not self.finished

    @property
    def refused(self) -> tuple[Trial, ...]:
        """What was tried and not kept."""
        return failed(self.ladder) if self.ladder is not None else ()

    @property
    def untried(self) -> tuple[Trial, ...]:
        """What was only predicted."""
        return untried(self.ladder) if self.ladder is not None else ()


@dataclass(frozen=True, slots=True)
class Gain:
    """The gain of one trial, predicted beforehand and measured."""

    case: Case
    trial: Trial
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """Relative; above 0 where more was predicted."""
        return self.predicted / self.measured - 1

    @property
    def single(self) -> bool:
        """One change, rather than several at once."""
        return len(self.trial.added) == 1


def find(folder: Path) -> tuple[Found, ...]:
    """All cases, in their order.

    Args:
        folder: holds CASE/ladder.json and measured.jsonl.

    Raises:
        InputFileError: a ladder cannot be read.
    """
    scripts = _scripts(folder / MEASURED)
    return tuple(_found(case, folder, scripts) for case in CASES)


def gains(found: Sequence[Found]) -> tuple[Gain, ...]:
    """Every trial of which the gain was predicted and measured, each pair of sets once."""
    made: dict[tuple[str, frozenset[str], frozenset[str]], Gain] = {}
    for each in found:
        for trial in each.ladder.trials if each.ladder is not None else ():
            key = (each.case.name, frozenset(trial.names), frozenset(trial.against))
            ran = trial.outcome in _RAN and trial.added and trial.purpose != "patch"
            if ran and trial.expected and trial.speedup:
                made[key] = Gain(each.case, trial, trial.expected, trial.speedup)
    return tuple(made.values())


def take(sources: Sequence[Path], into: Path) -> tuple[str, ...]:
    """Copy ladders and patches of a run, without the paths of the machine that it was made on.

    Args:
        sources: folders of ladders, each CASE/ladder.json.
        into: the folder that `find` reads.

    Returns:
        Names of the cases that were taken.
    """
    taken = []
    for source in sources:
        for case in CASES:
            ladder = source / case.name / LADDER_FILE
            if not ladder.is_file():
                continue
            home = into / case.name
            home.mkdir(parents=True, exist_ok=True)
            read_ladder(ladder)
            write_atomically(home / LADDER_FILE, without_paths(ladder.read_text("utf-8")))
            patch = ladder.with_name(PATCH)
            if patch.is_file():
                write_atomically(home / PATCH, without_paths(patch.read_text("utf-8")))
            else:
                (home / PATCH).unlink(missing_ok=True)
            taken.append(case.name)
    return tuple(taken)


def without_paths(text: str) -> str:
    """A text whose absolute paths begin at the repository or the package, else are a bare name."""
    return re.sub(r"(?<![\w./:\\~-])/(?:[\w.+@-]+/)+[\w.+@-]*", _shortened, text)


def _shortened(match: re.Match[str]) -> str:
    path = match.group(0)
    for mark in ("benchmarks/ladders/", "src/gpuscope/"):
        if f"/{mark}" in path:
            return mark + path.partition(f"/{mark}")[2]
    for mark in ("/site-packages/", "/dist-packages/"):
        if mark in path:
            return path.partition(mark)[2]
    return path.rstrip("/").rpartition("/")[2]


def _scripts(path: Path) -> dict[str, Script]:
    """By name; of several measurements the quickest, so that no slow machine flatters us."""
    found: dict[str, Script] = {}
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else ()
    for line in filter(str.strip, lines):
        row = json.loads(line)
        step_s = row.get("step_time_s")
        script = Script(step_s, "" if step_s else str(row.get("error") or "no step was found"))
        before = found.get(row["name"], Script(None))
        if before.step_s is None or (step_s and step_s < before.step_s):
            found[row["name"]] = script
    return found


def _found(case: Case, folder: Path, scripts: dict[str, Script]) -> Found:
    path = folder / case.name / LADDER_FILE
    ladder, finished = None, False
    if path.is_file():
        ladder = read_ladder(path)
        finished = bool(json.loads(path.read_text(encoding="utf-8")).get("finished"))
    return Found(
        case,
        ladder,
        finished,
        scripts.get(f"naive/{case.name}"),
        scripts.get(case.by_hand),
        (folder / case.name / PATCH).is_file(),
    )
