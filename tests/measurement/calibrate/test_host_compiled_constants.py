"""Constants of compiled code: from times made by hand, and from those recorded on an H200."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from gpuscope.hardware import calibration_for, device
from gpuscope.measurement.calibrate import host_compiled_constants as module
from gpuscope.measurement.calibrate.host_compiled_constants import compiled_constants

RECORDED = (
    Path(__file__).parents[3] / "validation" / "recordings" / "h200" / "micro" / "compiled.jsonl.gz"
)
US = 1e-6
H200 = calibration_for(device("h200"))
COMPILED = {
    name: H200.value(name) for name in H200.names("host.compiled") if not name.endswith("scalar_s")
}
HOST = 1.4
"""How much slower the recorded host's eager calls were than the calibrated one's."""


def times_of(known: dict[str, float]) -> dict[tuple[str, str], float]:
    """Times that functions of the bench would take under known constants."""
    found = {}
    for n in module.KERNELS:
        found["kernels", str(n)] = known["call_s"] + n * known["per_kernel_s"]
        found["library", str(n)] = known["call_s"] + n * known["library_s"]
    for n in module.LAYERS:
        layer = known["library_s"] + known["per_kernel_s"] + 4 * known["guard_s"]
        found["network", str(n)] = known["call_s"] + n * layer
        found["forward", str(n)] = known["forward_s"] + n * (layer + 4 * known["save_s"])
        back = 2 * known["library_s"] + 3 * known["per_kernel_s"] + 4 * known["gradient_s"]
        found["backward", str(n)] = known["backward_s"] + n * back
    return found


def test_known_constants_come_back() -> None:
    known = {name.rpartition(".")[2]: s * 1.7 for name, s in COMPILED.items()}
    found = compiled_constants(times_of(known))
    assert {n.rpartition(".")[2] for n in found} == set(known)
    for name, seconds in known.items():
        assert found[f"host.compiled.{name}"].value == pytest.approx(seconds)


def test_half_a_measurement_is_none() -> None:
    known = {name.rpartition(".")[2]: s for name, s in COMPILED.items()}
    times = times_of(known)
    del times["backward", str(module.LAYERS[1])]
    assert compiled_constants(times) == {}
    assert compiled_constants({}) == {}


def test_noise_never_makes_a_cost_negative() -> None:
    times = dict.fromkeys(times_of({n.rpartition(".")[2]: 1.0 for n in COMPILED}), 5 * US)
    assert all(e.value > 0 for e in compiled_constants(times).values())


def test_recorded_calls_give_what_the_model_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kernel, a library call, a parameter cost on the recorded host, over its slowness."""
    times: dict[tuple[str, str], float] = {}
    with gzip.open(RECORDED, "rt") as stream:
        for row in map(json.loads, stream):
            if row.get("bench") != "host" or row["mode"] != "default":
                continue
            seconds, params = row["issue_us"] * US, row["params"]
            if row["case"] != "layers":
                times[row["case"], str(params["count"])] = seconds
            elif not params["train"]:
                times["network", str(params["layers"])] = seconds
            else:
                times["forward", str(params["layers"])] = row["forward_us"] * US
                times["backward", str(params["layers"])] = seconds - row["forward_us"] * US
    monkeypatch.setattr(module, "KERNELS", (50, 200))
    monkeypatch.setattr(module, "LIBRARY", (10, 100))
    monkeypatch.setattr(module, "LAYERS", (10, 40))
    found = compiled_constants(times)
    for name in ("per_kernel_s", "library_s", "guard_s", "save_s", "gradient_s"):
        value = found[f"host.compiled.{name}"].value / HOST
        assert value == pytest.approx(COMPILED[f"host.compiled.{name}"], rel=0.2), name
