"""Host constants from the recorded micro-benchmarks: `python benchmarks/fit/host.py`.

Reads the recorded host calls (`--micro FOLDER`, back to back by default: no slow while in it) and
writes the shipped calibration's host.toml by `gpuscope.measurement.calibrate.host_constants`: each
constant is the median of one measurement, or a difference of two, said in its note; intervals are
the least and the 90th percentile seen.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from recorded import write_toml
from recorded_points import MICRO, host_points

from gpuscope.hardware import CalibratedValue, Calibration
from gpuscope.measurement.calibrate.host_constants import host_constants

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "src/gpuscope/hardware/catalogue/calibrations/nvidia-h200-sxm/host.toml"
WITH = (
    "PyTorch 2.11, Python 3.12, CUDA 13.0, driver 580.159, Xeon 2.1 GHz (virtual machine), "
    "2026-11-21"
)
OTHER_HOSTS = CalibratedValue(
    1.55,
    "1",
    "estimated",
    0.95,
    2.25,
    "a host that nobody benched: 105 programs at the host's pace on six machines took 1.54 times "
    "what this one's constants say in the middle, each machine counting alike, and nine in ten "
    "between 0.95 and 2.25",
)
"""The calls above are of the fastest host of all that were measured, as the next will not be. By
machine the programs took 1.00, 1.51, 1.52, 1.58, 1.71 and 1.76 times as long in the middle
(`validation/hosts.py`); calls alone, on six machines, 1, 1.3, 1.4, 1.6, 2.1 and 2.6 times, whose
mean by logarithms is 1.58. From 0.95 to 2.25 lie 90 % of the programs, 78 to 100 % of a machine's.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--micro", type=Path, default=MICRO / "back_to_back")
    args = parser.parse_args()
    points = [p for p in host_points(args.micro) if p.family != "program"]
    found = host_constants(points, Calibration("nvidia-h200-sxm", None, "none"))
    found = {n: e for n, e in found.items() if n.startswith("host.")}
    found["host.scale"] = OTHER_HOSTS
    write_toml(OUT, WITH, found)
    print(f"{len(found)} constants -> {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
