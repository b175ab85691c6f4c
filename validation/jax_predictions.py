"""Predict the JAX programs of `validation/jax_workloads` before they are measured.

`python validation/jax_predictions.py [name ...]` writes a row for each program to
`validation/results/jax_predictions.json`; rows that are there for other names stay.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "jax_workloads"))

from programs import PROGRAMS, TWO_DEVICES, target  # noqa: E402

RESULTS = HERE / "results" / "jax_predictions.json"


def predicted(name: str) -> dict[str, Any]:
    """One program's figures."""
    import jax

    import gpuscope as gs

    on = "2xh200" if name in TWO_DEVICES else "h200"
    run = gs.predict(target(name), on=on)
    low_s, high_s = run.step_time_interval_s
    return {
        "name": name,
        "on": on,
        "jax": jax.__version__,
        "step_time_s": run.step_time_s,
        "low_s": low_s,
        "high_s": high_s,
        "device_busy_s": run.device_busy_s,
        "host_busy_s": run.host_busy_s,
        "peak_memory_bytes": run.peak_memory_bytes,
    }


def main(names: list[str]) -> None:
    """Predict these programs, or all."""
    rows = (
        {each["name"]: each for each in json.loads(RESULTS.read_text())} if RESULTS.exists() else {}
    )
    for name in names or list(PROGRAMS):
        rows[name] = predicted(name)
        print(f"{name}: {1e3 * rows[name]['step_time_s']:.3f} ms", flush=True)
        RESULTS.write_text(json.dumps([rows[n] for n in PROGRAMS if n in rows], indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
