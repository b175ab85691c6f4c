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
    1.0,
    "1",
    "estimated",
    0.8,
    2.8,
    "other hosts: calls on six with the same device took 1, 1.3, 1.4, 1.6, 2.1 and 2.6 of these "
    "times; four in five further ones, by these, lie below 2.8",
)
"""Logarithms of the six have mean 0.46 and deviation 0.34: Student's t of five degrees, a further
host, and 15 % for what programs differ by beside their calls, give 0.9 to 2.8. Down to 0.8, as
programs on the first host itself come out."""


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
