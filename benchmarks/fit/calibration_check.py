"""Does a short bench find a machine? `python benchmarks/fit/calibration_check.py`.

Two checks of `gpuscope.measurement.calibrate` on recorded benches of H200s. *Displaced*: every
kernel constant is moved by a random factor (up to 1.4), as if only another machine were known; a
sixth of the recorded points (about what `gpuscope bench` takes) brings them back, the rest judges.
*Second machine*: the `back_to_back` recording, of another H200 without rests between loads, a third
judges. Writes benchmarks/results/calibration.json.
"""

from __future__ import annotations

import json
import math
import random
import time
import warnings
import zlib
from dataclasses import replace
from pathlib import Path
from statistics import median

from own_calibration import errors
from recorded_points import MICRO, kernel_points

from gpuscope.hardware import Calibration, calibration_for, device
from gpuscope.measurement.bench.types import Point, params_key
from gpuscope.measurement.calibrate import calibrate

OUT = Path(__file__).resolve().parents[1] / "results" / "calibration.json"
MOST = 1.4
BENCHES = ("matmul", "attention", "pointwise", "transfers", "convolution", "reduction")


def displaced(base: Calibration) -> Calibration:
    rng = random.Random(3)
    entries = []
    for name, entry in base.entries:
        kernel = not name.startswith(("host.", "power.", "collective."))
        if kernel and not name.endswith(".scale") and entry.value > 0:
            factor = math.exp(rng.uniform(-1, 1) * math.log(MOST))
            value = entry.value * factor
            entry = replace(entry, value=value, low=value, high=value)
        entries.append((name, entry))
    return replace(base, entries=tuple(entries))


def chosen(point: Point) -> bool:
    return zlib.crc32(f"six{point.family}{params_key(point.params)}".encode()) % 6 == 0


def figures(found: dict[str, list[float]]) -> dict[str, float]:
    return {b: round(median(abs(math.expm1(e)) for e in es), 4) for b, es in found.items() if es}


def main() -> None:
    warnings.simplefilter("ignore")
    target = device("h200")
    base = calibration_for(target)
    points = [p for p in kernel_points() if p.bench in BENCHES]
    few, rest = [p for p in points if chosen(p)], [p for p in points if not chosen(p)]
    start = displaced(base)
    began = time.perf_counter()
    own = calibrate(few, target, base=start)
    result: dict[str, object] = {
        "displaced": {
            "points": len(few),
            "seconds": round(time.perf_counter() - began, 1),
            "median_error": {
                "displaced": figures(errors(rest, target, start)),
                "calibrated": figures(errors(rest, target, own)),
                "shipped": figures(errors(rest, target, base)),
            },
        }
    }
    second = kernel_points(MICRO / "back_to_back")
    own = calibrate(second, target)
    result["second_machine"] = {
        "points": len(second),
        "median_error": {
            "shipped": figures(errors(second, target, base)),
            "calibrated": figures(errors(second, target, own)),
        },
    }
    OUT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
