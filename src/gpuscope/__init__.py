"""Open the GPU black box: predict and explain any PyTorch workload on any accelerator.

>>> import gpuscope as gs
>>> run = gs.predict("gpt2", on="h200")          # a built-in model, or your own build()
>>> run.step_time_s, run.peak_memory_bytes

Everything heavy (torch included) is imported when it is first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_WHERE = {
    "advise": "gpuscope.advice.forecasting",
    "analyze": "gpuscope.analysis",
    "apply": "gpuscope.advice.apply",
    "capture": "gpuscope.capturing",
    "Calibration": "gpuscope.hardware",
    "Cluster": "gpuscope.hardware",
    "compare": "gpuscope.analysis.compare",
    "Device": "gpuscope.hardware",
    "device": "gpuscope.hardware",
    "devices": "gpuscope.hardware",
    "explain": "gpuscope.explain.registry",
    "GpuscopeError": "gpuscope.errors",
    "lens": "gpuscope.lens.runner",
    "load": "gpuscope.loading",
    "measure": "gpuscope.measure.run",
    "optimize": "gpuscope.advice.optimizing",
    "parse_target": "gpuscope.hardware",
    "predict": "gpuscope.api",
    "predict_many": "gpuscope.api",
    "profile": "gpuscope.measure.script.context",
    "Program": "gpuscope.program.types",
    "recost": "gpuscope.api",
    "Run": "gpuscope.run",
    "sweep": "gpuscope.api",
    "WorkloadOptions": "gpuscope.program.workload",
    "write_chrome_trace": "gpuscope.timeline.perfetto",
    "write_report": "gpuscope.views.html",
}
"""Public names and the module that holds each."""

__all__ = sorted(_WHERE)

if TYPE_CHECKING:
    from gpuscope.advice.apply import apply
    from gpuscope.advice.forecasting import advise
    from gpuscope.advice.optimizing import optimize
    from gpuscope.analysis.analyze import analyze
    from gpuscope.analysis.compare import compare
    from gpuscope.api import capture, predict, predict_many, recost, sweep
    from gpuscope.errors import GpuscopeError
    from gpuscope.explain.registry import explain
    from gpuscope.hardware import (
        Calibration,
        Cluster,
        Device,
        device,
        devices,
        parse_target,
    )
    from gpuscope.lens.runner import lens
    from gpuscope.loading import load
    from gpuscope.measure.run import measure
    from gpuscope.measure.script.context import profile
    from gpuscope.program.types import Program
    from gpuscope.program.workload import WorkloadOptions
    from gpuscope.run import Run
    from gpuscope.timeline.perfetto import write_chrome_trace
    from gpuscope.views.html import write_report


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'gpuscope' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*_WHERE, "__version__"])


if "IPython" in sys.modules:  # a notebook: devices, runs and the like show themselves as cards
    from gpuscope.views.notebook.register import register_here

    register_here()
