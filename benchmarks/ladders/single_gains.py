"""Gains of single changes, predicted and measured, read from their files.

Predicted: `advice/CASE.json` ("singles": the gain, its 80 % interval, the effect). Measured:
`singles*.jsonl`, the lines of `singles.py`. A file is one machine's: its changes are held against
the originals of the same file.
"""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

from gpuscope.errors import InputFileError
from gpuscope.hardware import device

__all__ = [
    "APART",
    "BIG",
    "FILES",
    "HARM",
    "LEARNT",
    "NEAR",
    "NOT_COUNTED",
    "NOT_PREDICTED",
    "UNSTEADY",
    "Evidence",
    "Failure",
    "Order",
    "Original",
    "SingleGain",
    "Summary",
    "Verdict",
    "order",
    "read",
    "summary",
    "verdict",
]

FILES = "singles*.jsonl"
BIG = 0.03
"""A measured gain or loss above it is more than little."""
NEAR = 0.15
"""An error up to it is near."""
HARM = 0.02
"""A loss above it is harm; a gain or loss up to it is next to nothing."""
APART = 0.05
"""Two measured gains that differ by more have an order."""
UNSTEADY = 0.5
"""A case whose original differs from itself by more cannot tell its gains."""
NOT_PREDICTED = frozenset({"input_bound"})
"""Cases whose pace is set by something that no forecast claims to know (the loader's own work)."""
LEARNT = frozenset({"llama_decode"})
"""Cases by whose measurements a model was corrected: they are no evidence for it any more."""
NOT_COUNTED = NOT_PREDICTED | LEARNT

Verdict = Literal["gain", "nothing", "loss"]
Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SingleGain:
    """One change alone, against the code as it is.

    Attributes:
        source: the file's name, without its ending.
        case: of the scripts.
        names: of the change; what it needs comes first.
        predicted: time of the original over the changed time for the same work; low, high: the
            predicted 80 % interval.
        effect: "helps", "little", "hurts", ..., as predicted.
        measured: the same quotient as `predicted`, measured.
        spread: by how much the case's original differs from itself, relative.
        least, most: what the blocks leave open of `measured`: the fastest block of the one over
            the median block of the other, and the reverse.
    """

    source: str
    case: str
    names: Names
    predicted: float
    low: float
    high: float
    effect: str
    measured: float
    spread: float
    least: float
    most: float

    @property
    def change(self) -> str:
        """The change itself, without what it needs."""
        return self.names[-1]

    @property
    def error(self) -> float:
        """Relative; above 0 where more was predicted."""
        return self.predicted / self.measured - 1

    @property
    def inside(self) -> bool:
        """Measured within the predicted interval."""
        return self.low <= self.measured <= self.high

    @property
    def nearly_inside(self) -> bool:
        """Within it, once it is widened by what the case's original differs from itself."""
        return self.low / (1 + self.spread) <= self.measured <= self.high * (1 + self.spread)

    @property
    def meets(self) -> bool:
        """The predicted interval and what the blocks leave open have something in common."""
        return self.low <= self.most and self.least <= self.high

    @property
    def big(self) -> bool:
        """Measured to gain or lose more than little."""
        return abs(self.measured - 1) > BIG

    @property
    def foreseen(self) -> Verdict:
        """What the predicted gain amounts to."""
        return verdict(self.predicted)

    @property
    def came(self) -> Verdict:
        """What the measured gain amounts to."""
        return verdict(self.measured)

    @property
    def denied(self) -> bool:
        """Said to hurt, measured to gain."""
        return self.effect == "hurts" and self.measured > 1

    @property
    def counts(self) -> bool:
        """Whether it belongs into the statistics."""
        return self.case not in NOT_COUNTED


@dataclass(frozen=True, slots=True)
class Original:
    """The code as it is, of one case in one file.

    Attributes:
        source, case: as in `SingleGain`.
        step_s: seconds of a step; slowest_s: in its slowest block.
        spread: the slowest of its rows over the fastest, less 1.
        rows: how often it was looked at.
        predicted_s: the predicted step; None where it was not kept.
    """

    source: str
    case: str
    step_s: float
    slowest_s: float
    spread: float
    rows: int
    predicted_s: float | None

    @property
    def unsteady(self) -> bool:
        """It differs from itself by more than most changes gain."""
        return self.spread > UNSTEADY


@dataclass(frozen=True, slots=True)
class Failure:
    """A change that could not be run; the error's first sentence."""

    source: str
    case: str
    names: Names
    error: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that was read.

    Attributes:
        gains: predicted and measured, by case in the order of the files.
        originals: one for each case of each file.
        failures: predicted, but could not be run.
        missing: predicted, but not measured, as (case, names).
        unforecast: rows measured without a kept forecast (sets of several changes among them).
        devices: that ran them.
        shared: several cases ran on one device at once, in turns for what was timed.
    """

    gains: tuple[SingleGain, ...] = ()
    originals: tuple[Original, ...] = ()
    failures: tuple[Failure, ...] = ()
    missing: tuple[tuple[str, Names], ...] = ()
    unforecast: int = 0
    devices: tuple[str, ...] = ()
    shared: bool = False

    @property
    def counted(self) -> tuple[SingleGain, ...]:
        """Those that belong into the statistics."""
        return tuple(gain for gain in self.gains if gain.counts)

    @property
    def unsteady(self) -> tuple[str, ...]:
        """Names of cases (that count) whose original is unsteady."""
        named = (o.case for o in self.originals if o.unsteady and o.case not in NOT_COUNTED)
        return tuple(dict.fromkeys(named))

    @property
    def steady(self) -> tuple[SingleGain, ...]:
        """Those of the statistics whose case is steady."""
        rough = {(o.source, o.case) for o in self.originals if o.unsteady}
        return tuple(gain for gain in self.counted if (gain.source, gain.case) not in rough)


@dataclass(frozen=True, slots=True)
class Summary:
    """How well gains were predicted.

    Attributes:
        count: of gains.
        median, mean: absolute error.
        near: share with an error of at most `NEAR`.
        inside: share measured within the predicted 80 % interval.
        nearly: the same with intervals widened by what each case's original differs from itself.
        meets: share whose interval meets what the measured blocks leave open.
        over: share of which more was predicted than measured.
        largest: absolute error.
    """

    count: int
    median: float
    mean: float
    near: float
    inside: float
    nearly: float
    meets: float
    over: float
    largest: float


@dataclass(frozen=True, slots=True)
class Order:
    """Pairs of one case's changes whose measured gains are apart; in how many the same was
    predicted to gain more (a prediction that both gain the same is not the same order)."""

    pairs: int
    same: int


def verdict(gain: float) -> Verdict:
    """What a gain amounts to: a loss or a gain of more than `HARM`, or next to nothing."""
    if gain < 1 - HARM:
        return "loss"
    return "gain" if gain > 1 + HARM else "nothing"


def summary(gains: Sequence[SingleGain]) -> Summary | None:
    """Statistics of gains; None of none."""
    if not gains:
        return None
    errors, count = [abs(gain.error) for gain in gains], len(gains)
    return Summary(
        count,
        statistics.median(errors),
        statistics.fmean(errors),
        sum(error <= NEAR for error in errors) / count,
        sum(gain.inside for gain in gains) / count,
        sum(gain.nearly_inside for gain in gains) / count,
        sum(gain.meets for gain in gains) / count,
        sum(gain.error > 0 for gain in gains) / count,
        max(errors),
    )


def order(gains: Iterable[SingleGain]) -> Order:
    """Of all pairs within a case (and a file): which gains more, predicted as measured?"""
    cases: dict[tuple[str, str], list[SingleGain]] = defaultdict(list)
    for gain in gains:
        cases[gain.source, gain.case].append(gain)
    pairs = same = 0
    for of_case in cases.values():
        for one, other in combinations(of_case, 2):
            less, more = sorted((one, other), key=lambda gain: gain.measured)
            if more.measured > less.measured * (1 + APART):
                pairs += 1
                same += more.predicted > less.predicted
    return Order(pairs, same)


def read(results: Path, advice: Path, typical: bool = False) -> Evidence:
    """Everything that was predicted and measured.

    Args:
        results: folder of `singles*.jsonl`.
        advice: folder of CASE.json.
        typical: a row's time is its median block, and the original's the median of its rows;
            else the least of all blocks, since what disturbs a block only makes it slower.

    Raises:
        InputFileError: a case has no forecasts, or none of its original; or it ran on another
            device than it was predicted for.
    """
    read_all = [
        one for path in sorted(results.glob(FILES)) for one in _of_file(path, advice, typical)
    ]
    measured = {(gain.case, gain.names) for one in read_all for gain in one.gains}
    measured |= {(lost.case, lost.names) for one in read_all for lost in one.failures}
    cases = dict.fromkeys(o.case for one in read_all for o in one.originals)
    return Evidence(
        tuple(gain for one in read_all for gain in one.gains),
        tuple(original for one in read_all for original in one.originals),
        tuple(lost for one in read_all for lost in one.failures),
        tuple(
            (case, names)
            for case in cases
            for names in _Forecasts(advice, case).singles
            if (case, names) not in measured
        ),
        sum(one.unforecast for one in read_all),
        tuple(dict.fromkeys(name for one in read_all for name in one.devices)),
        any(one.shared for one in read_all),
    )


class _Forecasts:
    """What is kept of one case."""

    def __init__(self, folder: Path, case: str) -> None:
        path = folder / f"{case}.json"
        if not path.is_file():
            raise InputFileError(
                f"There are no forecasts for {case}.",
                f"{path.name} is not in {folder.name}/.",
                f"Type: gpuscope advise naive/{case}.py:build --save advice/{case}.json",
            )
        kept = json.loads(path.read_text(encoding="utf-8"))
        self.device: str = kept["of"]["device"]
        self.singles: dict[Names, dict[str, Any]] = {
            tuple(f["names"]): f for f in kept["singles"] if f["speedup"] is not None
        }
        bases = [f["step_time_s"] for f in kept["forecasts"] if not f["names"]]
        self.base_s: float | None = bases[0] if bases else None


def _of_file(path: Path, advice: Path, typical: bool) -> Iterator[Evidence]:
    """The cases of one file, one by one."""
    cases: dict[str, list[dict[str, Any]]] = {}
    for line in filter(str.strip, path.read_text(encoding="utf-8").splitlines()):
        row = json.loads(line)
        cases.setdefault(row["case"], []).append(row)
    for case, rows in cases.items():
        yield _of_case(path, case, rows, _Forecasts(advice, case), typical)


def _of_case(
    path: Path, case: str, rows: Sequence[dict[str, Any]], kept: _Forecasts, typical: bool
) -> Evidence:
    middle = statistics.median if typical else min
    times: dict[Names, list[float]] = defaultdict(list)
    blocks: dict[Names, list[float]] = defaultdict(list)
    errors: dict[Names, str] = {}
    for row in rows:
        names = tuple(row["names"])
        if "error" in row:
            errors[names] = _first_sentence(row["error"])
        else:
            times[names].append(middle(row["blocks_s"]) / row["work"])
            blocks[names] += [seconds / row["work"] for seconds in row["blocks_s"]]
    devices = tuple(dict.fromkeys(row["device"] for row in rows if "device" in row))
    for name in devices:
        if device(name).id != device(kept.device).id:
            raise InputFileError(
                f"{path.name} measured {case} on {name}.",
                f"It was predicted for {kept.device}.",
                "Keep forecasts for the device that ran it, or move its lines to another folder.",
            )
    own = times.pop((), [])
    if not own:
        raise InputFileError(
            f"{path.name} has changes of {case}, but not the code as it is.",
            "A gain is measured against it.",
            f"Type: singles.py {case} --out {path.name}",
        )
    step_s, spread = middle(own), max(own) / min(own) - 1
    known = {names: kept.singles[names] for names in times if names in kept.singles}
    gains = tuple(
        SingleGain(
            path.stem,
            case,
            names,
            f["speedup"],
            f["low"],
            f["high"],
            f["effect"],
            step_s / middle(times[names]),
            spread,
            *_open(blocks[()], blocks[names]),
        )
        for names, f in known.items()
    )
    failures = tuple(
        Failure(path.stem, case, names, error)
        for names, error in errors.items()
        if names and names not in times
    )
    slowest_s = max(max(row["blocks_s"]) for row in rows if not row["names"] and "error" not in row)
    original = Original(path.stem, case, step_s, slowest_s, spread, len(own), kept.base_s)
    shared = any(row.get("slots", 1) > 1 for row in rows)
    return Evidence(gains, (original,), failures, (), len(times) - len(known), devices, shared)


def _open(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """The least and the most gain that blocks of the original and of a change leave open."""
    median = statistics.median
    return min(before) / median(after), median(before) / min(after)


def _first_sentence(text: str) -> str:
    line = text.strip().splitlines()[0] if text.strip() else ""
    return line.split(". ")[0].rstrip(".")
