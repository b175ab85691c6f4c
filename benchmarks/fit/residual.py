"""Fit the learned residual of a device: `python benchmarks/fit/residual.py` (`make residual`).

Learns from random calls and from calls of other people's models, of the families that may be seen
(`residual_calls.py`). Three folds, each of a third of the seeds and of those families, judge how
many trees each kind of kernel gets, whether it gets any, and how wide its intervals are (wider
where calls of other people's models, each by a fit without its family, ask for it); a kind
that is not better on folds that the fit has not seen gets none. Then everything is fitted on all
folds and written. The families that are held out are in no fit: `python -m
benchmarks.harvest.judge --widths` comes after it.

    --regimes   also leave whole regimes out (a dtype, a layout, a direction), and say how they fare
    --dry       judge, write nothing
    --kinds     these kinds alone, from the calls of a kind so named whose longest kernel is of
                it; the others stay as they are in the file
    --cache     file for the captured calls (capturing takes minutes), used again where it exists
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from boosting import Data, Fitted, Floats, Form, fit

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT), str(ROOT / "validation")]

from benchmarks.harvest import intervals  # noqa: E402
from held_out.regimes import labels  # noqa: E402
from kinds import _with  # noqa: E402
from residual_calls import FOLDS, Timed, programs, timed_calls  # noqa: E402

from gpuscope import atomic  # noqa: E402
from gpuscope.cost import residual  # noqa: E402
from gpuscope.cost.residual_features import NAMES, features  # noqa: E402
from gpuscope.hardware.calibration import CALIBRATIONS  # noqa: E402

FORM, FORMS = Form(120), {"convolution": Form(240, depth=6, rate=0.2)}
STEP = 10
"""The trees of a kind at most, those of kinds by name, and the steps in which their number is
tried."""

LEAST_GAIN = 0.05
"""A kind's mean error on unseen folds has to fall by this share of itself, and must not rise for
the longer half of its calls, which set the pace of whole models."""

FEWEST = 30
"""Calls that a kind or a bin of durations needs."""

BINS = 4
"""Bins of duration that a kind's intervals are told for."""


def operators(row: dict[str, Any], program: Any, on: str) -> Iterator[tuple[Any, ...]]:
    """What a row's call runs: (features, kind, name, physical seconds, bound) of each operator."""
    from gpuscope.cost.engine import _Coster, _sorts
    from gpuscope.cost.identity import Same
    from gpuscope.cost.registry import Constants, Work
    from gpuscope.cost.residency import residency
    from gpuscope.hardware import calibration_for, device
    from gpuscope.measurement.calibrate.cases import CLEAN, DIRTY, at_clock

    target = device(on)
    highest = (target.clock_hz or 0) * 1e-6
    share = min(1.0, row["sm_mhz"] / highest) if row["sm_mhz"] and highest else 1.0
    state = CLEAN if row["state"] == "hot" else DIRTY
    constants = Constants(_with(calibration_for(target), {**state, "residual.scale": 0.0}))
    settings = tuple(sorted(program.settings.items()))
    clocked = _Coster(at_clock(target, round(share, 1)), constants, settings, False)
    at_home = _Coster(target, constants, settings, False)
    same = Same(program.ops)
    hot, sorts = residency(same, float(target.l2_bytes or 0)), _sorts(same)
    half = len(program.ops) // 2
    part = slice(half, None) if row["state"] == "hot" else slice(0, half)
    for op, sort, warm in zip(program.ops[part], sorts[part], hot[part], strict=True):
        kernels, home = clocked.kernels(op, sort, warm), at_home.kernels(op, sort, warm)
        seconds = sum(k.duration_s for k in kernels)
        if seconds > 0:
            work = Work(op, target, constants, settings, warm)
            bound = residual.limit(sum(k.duration_s for k in home))
            yield features(work, home), residual.kind_of(home), op.name, seconds, bound


PART = 200
"""Calls that a process costs before it is given more."""


def data_of(
    timed: Sequence[Timed], captured: dict[str, Any], on: str, processes: int = 1
) -> tuple[list[Timed], Data]:
    """The calls that can be predicted, and their operators."""
    known = [(t.row, captured[t.call.text]) for t in timed if t.call.text in captured]
    parts = [known[i : i + PART] for i in range(0, len(known), PART)]
    with ProcessPoolExecutor(processes) as pool:
        costed = [of for part in pool.map(partial(_costed, on=on), parts) for of in part]
    used: list[Timed] = []
    found: list[tuple[Any, ...]] = []
    call: list[int] = []
    for of, of_call in zip((t for t in timed if t.call.text in captured), costed, strict=True):
        found += of_call
        call += [len(used)] * len(of_call)
        used += [of] if of_call else []
    x, kinds, names, seconds, bound = zip(*found, strict=True)
    level = [f"{k} {n}" for k, n in zip(kinds, names, strict=True)]
    return used, Data(
        np.array(x, float),
        np.array(call),
        np.array(kinds),
        np.array(level),
        np.array(seconds),
        np.array(bound),
        np.array([of.row["us"] * 1e-6 for of in used]),
    )


def _costed(part: Sequence[tuple[dict[str, Any], Any]], on: str) -> list[list[tuple[Any, ...]]]:
    return [list(operators(row, program, on)) for row, program in part]


def of_kinds(timed: list[Timed], data: Data, kinds: Sequence[str]) -> tuple[list[Timed], Data]:
    """The calls whose longest kernel is of one of these kinds."""
    keep = np.isin(main_kinds(data), kinds)
    return [t for t, kept in zip(timed, keep, strict=True) if kept], data.only(keep)


def main_kinds(data: Data) -> list[str]:
    """Kind of the longest operator of each call."""
    best: dict[int, tuple[float, str]] = {}
    for call, seconds, kind in zip(data.call, data.physical_s, data.group, strict=True):
        best[call] = max(best.get(call, (0.0, "")), (float(seconds), str(kind)))
    return [best[i][1] for i in range(len(data.measured_s))]


def content(
    device_id: str,
    found: Fitted,
    data: Data,
    rounds: dict[str, int],
    quantiles: dict[str, list[list[float | None]]],
) -> dict[str, Any]:
    """The file: what `residual.load` reads."""
    kinds, operators_ = {}, {}
    for kind in sorted(rounds):
        at = data.group == kind
        trees = found.trees.get(kind, [])[: rounds[kind]]
        asked = sorted({int(f) for t in trees for f in t.feature})
        x = data.x[at]
        ranges = {NAMES[f]: [_short(x[:, f].min()), _short(x[:, f].max())] for f in asked}
        kinds[kind] = {
            "quantiles": quantiles.get(kind, []),
            "ranges": ranges,
            "trees": [
                {
                    "if": [NAMES[f] for f in t.feature],
                    "above": t.threshold.tolist(),
                    "r": t.leaf.tolist(),
                }
                for t in trees
            ],
        }
        for name in sorted(set(data.level[at])) if rounds[kind] else ():
            span = data.x[data.level == name, 0]
            operators_[name] = [found.levels[name], _short(span.min()), _short(span.max())]
    return {
        "version": residual.VERSION,
        "device": device_id,
        "fitted_by": "benchmarks/fit/residual.py",
        "operators": operators_,
        "kinds": kinds,
    }


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """A file's content with the kinds of another in their places."""
    left = {k: v for k, v in old["operators"].items() if k.split()[0] not in new["kinds"]}
    return {
        **old,
        "operators": dict(sorted((left | new["operators"]).items())),
        "kinds": dict(sorted((old["kinds"] | new["kinds"]).items())),
    }


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def applied(made: dict[str, Any], data: Data) -> Floats:
    """Predictions of the calls with a file's content, as the program applies it (less floors)."""
    found = residual._read(made)
    rs = [
        found.r(str(g), str(n).split(" ", 1)[1], x)
        for g, n, x in zip(data.group, data.level, data.x, strict=True)
    ]
    return data.predicted_s(np.array(rs))


def fitted(data: Data, folds: Floats, processes: int) -> dict[int, Fitted]:
    """Fits by the fold that they have not seen; 0: one that has seen all."""
    parts = [data, *(data.only(folds != fold) for fold in FOLDS)]
    with ProcessPoolExecutor(processes) as pool:
        found = pool.map(partial(fit, form=FORM, forms=FORMS), parts)
        return dict(zip((0, *FOLDS), found, strict=True))


def crossed(
    data: Data, folds: Floats, mains: Floats, fits: dict[int, Fitted]
) -> tuple[dict[str, int], Floats]:
    """Trees a kind from unseen folds, and what every call is predicted to take unseen."""
    most = max(FORMS.get(kind, FORM).rounds for kind in set(mains.tolist()))
    counts = range(0, most + 1, STEP)
    errors = np.zeros((len(counts), len(data.measured_s)))
    for fold in FOLDS:
        found = fits[fold]
        unseen = data.only(folds == fold)
        for i, count in enumerate(counts):
            r = found.r(unseen, dict.fromkeys(found.trees, count))
            errors[i, folds == fold] = abs(unseen.predicted_s(r) / unseen.measured_s - 1)
    physical = abs(data.predicted_s(np.zeros(len(data.x))) / data.measured_s - 1)
    rounds = {
        kind: chosen(
            errors[:, mains == kind], physical[mains == kind], data.measured_s[mains == kind]
        )
        if kind not in residual._NOT_LEARNED
        else 0
        for kind in sorted(set(mains.tolist()))
    }
    unseen_s = np.zeros(len(data.measured_s))
    for fold in FOLDS:
        made = content("", fits[fold], data.only(folds != fold), rounds, {})
        unseen_s[folds == fold] = applied(made, data.only(folds == fold))
    return rounds, unseen_s


def chosen(errors: Floats, physical: Floats, measured_s: Floats) -> int:
    """How many trees a kind gets, by its calls' errors on unseen folds; 0 if they help too little.

    Args:
        errors: (numbers of trees in steps of `STEP`, calls).
        physical: (calls,) without any.
        measured_s: (calls,).
    """
    if len(physical) < FEWEST:
        return 0
    best = 1 + int(errors[1:].mean(1).argmin())
    long = measured_s >= np.median(measured_s)
    helps = errors[best].mean() < (1 - LEAST_GAIN) * physical.mean()
    return best * STEP if helps and errors[best][long].mean() < physical[long].mean() else 0


def quantiles_of(
    unseen_s: Floats, data: Data, mains: Floats
) -> dict[str, list[list[float | None]]]:
    """10 % and 90 % quantiles of ln(measured / predicted) by kind and duration."""
    found = {}
    error = np.log(data.measured_s / unseen_s)
    for kind in sorted(set(mains)):
        at = np.flatnonzero(mains == kind)
        if len(at) < FEWEST or kind in residual._NOT_LEARNED:
            continue
        order = at[np.argsort(unseen_s[at])]
        parts = np.array_split(order, min(BINS, len(order) // FEWEST))
        rows: list[list[float | None]] = []
        for i, part in enumerate(parts):
            low, high = np.quantile(error[part], (0.1, 0.9))
            end = None if i == len(parts) - 1 else _short(unseen_s[part[-1]])
            rows.append([end, min(0.0, _short(low)), max(0.0, _short(high))])
        found[kind] = rows
    return found


def family_widths(
    quantiles: dict[str, list[list[float | None]]],
    unseen_s: Floats,
    data: Data,
    mains: Floats,
    of_models: npt.NDArray[np.bool_],
) -> dict[str, float]:
    """By how much families of models need wider intervals than all calls, by kind.

    Their calls are predicted by fits without their family; the factor is that of split conformal
    (`benchmarks/harvest/intervals.py`), and never narrows.
    """
    found = {}
    for kind, rows in quantiles.items():
        at = np.flatnonzero((mains == kind) & of_models)
        if len(at) < FEWEST:
            continue
        scores = []
        for call in at:
            predicted_s = float(unseen_s[call])
            row = next(r for r in rows if r[0] is None or predicted_s <= r[0])
            low, high = predicted_s * np.exp(row[1]), predicted_s * np.exp(row[2])
            scores.append(intervals.score(float(data.measured_s[call]), predicted_s, low, high))
        if intervals.within(scores) < intervals.WANTED[0]:
            found[str(kind)] = round(max(1.0, float(intervals.factor(scores))), 3)
    return found


def show(title: str, names: Sequence[str], data: Data, **predicted_s: Floats) -> None:
    """Mean and median errors by name."""
    sys.stdout.write(f"\n{title:24s}{'calls':>6s}")
    sys.stdout.write("".join(f"{name:>22s}" for name in predicted_s) + "   (mean, median)\n")
    at = defaultdict(list)
    for i, name in enumerate(names):
        at[name].append(i)
        at["all"].append(i)
    for name in sorted(at, key=lambda n: (n == "all", n)):
        sys.stdout.write(f"{name:24s}{len(at[name]):6d}")
        for seconds in predicted_s.values():
            errors = abs(seconds / data.measured_s - 1)[at[name]]
            sys.stdout.write(f"{errors.mean():13.1%} {np.median(errors):8.1%}")
        sys.stdout.write("\n")


def regimes(timed: Sequence[Timed], data: Data, rounds: dict[str, int]) -> None:
    """Every regime of 40 random calls and more, predicted by a fit that has not seen it."""
    data = data.only(np.array([t.random for t in timed]))
    rows = [t.row for t in timed if t.random]
    of = [[f"{r['kind']} {w}" for w in labels(r["kind"], r["params"], r["state"])] for r in rows]
    names = sorted({name for words in of for name in words})
    physical_s = data.predicted_s(np.zeros(len(data.x)))
    sys.stdout.write("\nregime left out               calls   physical   residual\n")
    for name in names:
        out = np.array([name in words for words in of])
        kind = np.array([r["kind"] == name.split()[0] for r in rows])
        if out.sum() < 40 or out.sum() > 0.8 * kind.sum():
            continue
        seen = data.only(~out & kind)
        made = content("", fit(seen, FORM, FORMS), seen, rounds, {})
        left = data.only(out)
        error = abs(applied(made, left) / left.measured_s - 1).mean()
        before = abs(physical_s[out] / left.measured_s - 1).mean()
        sys.stdout.write(f"{name:30s}{out.sum():5d}{before:11.1%}{error:11.1%}\n")


def main() -> int:
    """Judge, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--regimes", action="store_true", help="leave regimes out, too")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    parser.add_argument("--kinds", nargs="*", default=[], help="these alone")
    parser.add_argument("--cache", type=Path, help="file for the captured calls")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--device", default="nvidia-h200-sxm", help="catalogue id")
    args = parser.parse_args()
    timed = [t for t in timed_calls() if not args.kinds or t.row["kind"] in args.kinds]
    captured = programs(timed, args.cache, args.processes)
    timed, data = data_of(timed, captured, args.device, args.processes)
    if args.kinds:
        timed, data = of_kinds(timed, data, args.kinds)
    folds, mains = np.array([t.fold for t in timed]), np.array(main_kinds(data))
    fits = fitted(data, folds, args.processes)
    rounds, unseen_s = crossed(data, folds, mains, fits)
    quantiles = quantiles_of(unseen_s, data, mains)
    made = content(args.device, fits[0], data, rounds, quantiles)
    of_models = np.array([not t.random and t.fold > 0 for t in timed])
    wider = family_widths(quantiles, unseen_s, data, mains, of_models)
    for kind, width in wider.items():
        made["kinds"][kind]["width"] = width
    physical_s = data.predicted_s(np.zeros(len(data.x)))
    columns = {"physical": physical_s, "unseen folds": unseen_s, "fitted": applied(made, data)}
    show("kind of kernel", list(mains), data, **columns)
    show("random calls", [t.row["kind"] if t.random else "-" for t in timed], data, **columns)
    path = CALIBRATIONS / args.device / residual.FILE
    if args.kinds:
        made = merged(json.loads(path.read_text()), made)
    text = json.dumps(made, separators=(",", ":")).replace('{"if"', '\n{"if"')
    sys.stdout.write(f"\ntrees {rounds}, {len(text) / 1000:.0f} kB\n")
    sys.stdout.write(f"wider for families of models: {wider}\n")
    if args.regimes:
        regimes(timed, data, rounds)
    if not args.dry:
        atomic.write_atomically(path, text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
