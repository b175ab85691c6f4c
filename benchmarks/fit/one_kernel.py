"""Fit a kernel's constants to its own recorded times: `python benchmarks/fit/one_kernel.py NAME`.

A call's sum cannot tell its kernels' constants apart; the recordings name each kernel. NAME is one
of `FITS`: whose calls, which recorded symbol, which modelled kernel, which constants. Calls are
those that constants may be fitted to: of `micro/wide.jsonl.gz`, of `micro/cases.jsonl.gz` and of
the harvest's seen families. Two thirds of the calls tune (by a hash of their sizes), a third
judges. Prints errors before and after and the constants; the residual takes no part. `--rows` lists
the calls.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import pickle
import re
import sys
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT), str(ROOT / "validation")]

from benchmarks.harvest.calls import Call, read  # noqa: E402
from benchmarks.harvest.judge import CALLS, TIMES, held_out  # noqa: E402
from held_out.points import Point  # noqa: E402

MICRO = ROOT / "validation" / "recordings" / "h200" / "micro"
WIDE, CASES = MICRO / "wide.jsonl.gz", MICRO / "cases.jsonl.gz"
BATCH, POOL = "normalization.batch.", "copy."


@dataclass(frozen=True, slots=True)
class Fit:
    """What is fitted to what.

    Attributes:
        calls: regular expression of the calls' operators, or of the kind and "op" of random calls.
        symbol, model: of the recorded and of the modelled kernel's name; their sums are compared.
        constants: names; what they are today is where the search starts.
    """

    calls: str
    symbol: str
    model: str
    constants: tuple[str, ...]


FITS: dict[str, Fit] = {
    "group_moments": Fit(
        r"native_group_norm\.|norm group",
        "RowwiseMoments",
        "group_norm_moments",
        (
            *(BATCH + f"group_moments.{c}" for c in ("cycles", "load", "base_s")),
            "normalization.group.warp_base",
        ),
    ),
    "group_sums": Fit(
        r"native_group_norm_backward|norm group",
        "ComputeInternalGradients",
        "group_norm_sums",
        tuple(BATCH + f"group_sums.{c}" for c in ("cycles", "load", "base_s")),
    ),
    **{
        f"batch_norm_persistent{way}": Fit(
            rf"native_batch_norm{way}\.",
            "batchnorm_[fb]wtr_nhwc_semiPersist",
            f"batch_norm_library{way}_channels_last",
            tuple(f"{BATCH}persistent{way}.{c}_s" for c in ("base", "row", "barrier")),
        )
        for way in ("", "_backward")
    },
    **{
        f"{way}.{kind}.{layout}": Fit(
            rf"{kind}_pool2d{middle}\.",
            symbol,
            f"^{kind}_pool2d",
            tuple(f"{POOL}{way}.{kind}.{layout}.{c}_cycles" for c in ("thread", "visit")),
        )
        for way, kind, layout, middle, symbol in (
            ("pool", "avg", "first", "", "avg_pool2d_out_cuda_frame<"),
            ("pool", "avg", "last", "", "avg_pool2d_out_cuda_frame_nhwc"),
            ("pool", "max", "first", "_with_indices", "max_pool_forward_nchw"),
            ("pool", "max", "last", "_with_indices", "max_pool_forward_nhwc"),
            ("pool_backward", "avg", "first", "_backward", "avg_pool2d_backward_out_cuda_frame<"),
            (
                "pool_backward",
                "avg",
                "last",
                "_backward",
                "avg_pool2d_backward_out_cuda_frame_nhwc",
            ),
            ("pool_backward", "max", "first", "_with_indices_backward", "max_pool_backward_nchw"),
            ("pool_backward", "max", "last", "_with_indices_backward", "max_pool_backward_nhwc"),
        )
    },
    "bilinear": Fit(
        r"upsample_bilinear2d\.",
        "upsample_bilinear2d_out_frame",
        "upsample_bilinear2d",
        tuple(f"copy.interpolate.{c}" for c in ("plane_cycles", "plane_s", "load")),
    ),
    "bilinear.last": Fit(
        r"upsample_bilinear2d\.",
        "upsample_bilinear2d_nhwc_out_frame",
        "upsample_bilinear2d",
        ("copy.interpolate.bilinear_cycles",),
    ),
    "adaptive": Fit(
        r"_adaptive_avg_pool2d\.",
        "adaptive_average_pool<",
        "adaptive",
        tuple(f"copy.pool.plane.{c}" for c in ("thread_cycles", "visit_cycles", "base_s")),
    ),
    "index_sums": Fit(
        "index_put|index_put_add",
        "indexing_backward",
        "indexing_backward",
        tuple(f"gather.accumulate.{c}_s" for c in ("end", "first", "row", "narrow", "count")),
    ),
}


@dataclass(frozen=True, slots=True)
class Case:
    """A recorded call in one state.

    Attributes:
        text: its sizes.
        program: the call, captured twice.
        row: as recorded.
    """

    text: str
    program: Any
    row: dict[str, Any]

    @property
    def judges(self) -> bool:
        """Whether it takes no part in the fit."""
        return zlib.crc32(self.text.encode()) % 3 == 0


def recorded(fit: Fit) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Points and rows that may be looked at."""
    wanted = re.compile(fit.calls)
    with gzip.open(WIDE, "rt") as lines:
        for row in map(json.loads, lines):
            if "us" in row and wanted.search(f"{row['kind']} {row['params'].get('op')}"):
                yield Point(row["kind"], row["params"]), row
    calls, families = read(CALLS)
    with gzip.open(TIMES, "rt") as lines:
        for row in map(json.loads, lines):
            if "us" not in row or held_out(families[row["call"]]):
                continue
            call = calls[row["call"]]
            if wanted.search(call.params["op"]):
                yield call, {**row, "params": call.params}
    with gzip.open(CASES, "rt") as lines:
        for row in map(json.loads, lines):
            if "us" in row and wanted.search(row["params"]["op"]):
                yield Call(row["kind"], row["params"]), row


def cases(fit: Fit, cache: Path | None) -> list[Case]:
    """All, captured; `cache` keeps the captured calls."""
    import gpuscope as gs

    kept: dict[str, Any] = {}
    if cache is not None and cache.exists():
        kept = pickle.loads(cache.read_bytes())
    found = []
    symbol = re.compile(fit.symbol)
    for point, row in recorded(fit):
        if not any(symbol.search(k[0]) for k in row["kernels"]):
            continue
        if point.text not in kept:
            try:
                kept[point.text] = gs.capture(lambda point=point: _twice(point))
            except Exception as error:
                sys.stdout.write(f"not captured: {type(error).__name__} {point.text[:100]}\n")
                continue
        found.append(Case(point.text, kept[point.text], row))
    if cache is not None:
        cache.write_bytes(pickle.dumps(kept))
    return found


def _twice(point: Any) -> Any:
    call = point.build()
    call()

    def step() -> None:
        call()
        call()

    return step


@lru_cache(maxsize=1)
def _base() -> dict[str, Any]:
    from gpuscope.hardware import calibration_for, device

    return dict(calibration_for(device("h200")).entries)


def values(names: Sequence[str]) -> dict[str, float]:
    """The constants as they are."""
    return {name: _base()[name].value for name in names}


def errors(fit: Fit, chosen: Sequence[Case], over: Mapping[str, float]) -> list[float]:
    """ln(predicted / recorded) of the kernel in each case."""
    from gpuscope.cost.engine import cost_program
    from gpuscope.hardware import calibration_for, device
    from gpuscope.hardware.calibration import CalibratedValue
    from gpuscope.measurement.calibrate.cases import CLEAN, DIRTY, at_clock

    target, found = device("h200"), []
    highest = (target.clock_hz or 0) * 1e-6
    base = calibration_for(target)
    constants = {}
    for state, more in (("hot", CLEAN), ("cold", DIRTY)):
        entries = _base() | {
            name: CalibratedValue(value, "1", "calibrated", value, value)
            for name, value in {**more, **over, "residual.scale": 0.0}.items()
        }
        constants[state] = replace(base, entries=tuple(sorted(entries.items())))
    model, symbol = re.compile(fit.model), re.compile(fit.symbol)
    for case in chosen:
        row = case.row
        share = min(1.0, row["sm_mhz"] / highest) if row["sm_mhz"] and highest else 1.0
        costed = cost_program(
            case.program, at_clock(target, round(share, 1)), constants[row["state"]]
        )
        half = len(costed.ops) // 2
        ops = costed.ops[half:] if row["state"] == "hot" else costed.ops[:half]
        said = sum(k.duration_s for o in ops for k in o.kernels if model.search(k.name)) * 1e6
        real = sum(k[3] * k[4] for k in row["kernels"] if symbol.search(k[0]))
        found.append(math.log(max(said, 1e-3) / real))
    return found


def loss(found: Sequence[float]) -> float:
    """Mean of errors, large ones counting more."""
    return sum(min(abs(e) + e * e, 2.0) for e in found) / max(len(found), 1)


def search(fit: Fit, chosen: Sequence[Case]) -> dict[str, float]:
    """Coordinate descent with shrinking factors."""
    over = values(fit.constants)
    best = loss(errors(fit, chosen, over))
    for factor in (2.0, 1.5, 1.25, 1.1, 1.04):
        moved = True
        while moved:
            moved = False
            for key in over:
                for by in (factor, 1 / factor):
                    tried = {**over, key: over[key] * by}
                    now = loss(errors(fit, chosen, tried))
                    if now < best - 1e-4:
                        best, over, moved = now, tried, True
    return over


def said(found: Sequence[float]) -> str:
    """Errors in a few words."""
    if not found:
        return "none"
    off = sorted(abs(math.expm1(e)) for e in found)
    mean, bias = sum(off) / len(off), math.expm1(sorted(found)[len(found) // 2])
    return f"n {len(off)}, mean {mean:.1%}, median {off[len(off) // 2]:.1%}, bias {bias:+.1%}"


def main() -> int:
    """Fit, judge, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", choices=[*FITS, []])
    parser.add_argument("--cache", type=Path, help="folder of captured calls")
    parser.add_argument("--rows", action="store_true", help="list the calls")
    parser.add_argument("--dry", action="store_true", help="judge what stands")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in args.names or FITS:
        fit = FITS[name]
        kept = args.cache / f"{name}.pickle" if args.cache else None
        all_of = cases(fit, kept)
        tune, judge = ([c for c in all_of if c.judges is part] for part in (False, True))
        sys.stdout.write(f"{name}: before: {said(errors(fit, judge, {}))}\n")
        over = values(fit.constants) if args.dry else search(fit, tune)
        sys.stdout.write(f"  tuned: {said(errors(fit, tune, over))}\n")
        sys.stdout.write(f"  judged: {said(errors(fit, judge, over))}\n")
        sys.stdout.write("".join(f"  {k} = {v:.4g}\n" for k, v in over.items()))
        if args.rows:
            for case, error in sorted(
                zip(all_of, errors(fit, all_of, over), strict=True), key=lambda p: -abs(p[1])
            ):
                real = sum(k[3] * k[4] for k in case.row["kernels"] if re.search(fit.symbol, k[0]))
                state, text = case.row["state"], case.text[:230]
                sys.stdout.write(f"  {math.expm1(error):+6.0%} {real:9.1f} us {state:4s} {text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
