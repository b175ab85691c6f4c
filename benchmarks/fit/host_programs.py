"""What host calls lack in a program: `python benchmarks/fit/host_programs.py`.

Fits the terms of `gpuscope.measurement.calibrate.host_terms` to the recorded times of made-up
programs and writes the shipped host_programs.toml. Run `host.py` first.
"""

from __future__ import annotations

import warnings
from pathlib import Path

from recorded import write_toml
from recorded_points import host_points

from gpuscope.hardware import calibration_for, device
from gpuscope.measurement.calibrate.host_terms import host_terms

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "src/gpuscope/hardware/catalogue/calibrations/nvidia-h200-sxm/host_programs.toml"


def main() -> None:
    warnings.simplefilter("ignore")
    points = [p for p in host_points() if p.family == "program"]
    found = host_terms(points, calibration_for(device("h200")))
    assert found is not None, "no recorded programs"
    for program, mode, seconds, error in found.rows:
        print(f"{program:16s} {mode:9s} {seconds * 1e6:8.0f} us  {error:+.1%}")
    entries = {n: e for n, e in found.entries.items() if n != "host.scale"}
    for name, entry in entries.items():
        print(f"{name:32s} {entry.value:.4g} {entry.note}")
    write_toml(OUT, "", entries)


if __name__ == "__main__":
    main()
