"""Open the GPU black box: predict and explain any PyTorch workload on any accelerator.

>>> import gpuscope as gs
>>> run = gs.predict("gpt2", on="h200")          # a built-in model, or your own build()
>>> run.step_time_s, run.peak_memory_bytes

Everything heavy (torch included) is imported when it is first used.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
"""As `typing` has it, which takes longer to import than all that stands here."""

__version__ = "0.1.0"

_WHERE = {
    "Advice": "gpuscope.advice.results",
    "advise": "gpuscope.advice.forecast.advise",
    "Analysis": "gpuscope.analysis.types",
    "analyze": "gpuscope.analysis.analyze",
    "apply": "gpuscope.advice.apply",
    "Calibration": "gpuscope.hardware",
    "capture": "gpuscope.capturing",
    "CaptureError": "gpuscope.errors",
    "NoStepError": "gpuscope.errors",
    "CatalogueError": "gpuscope.errors",
    "Cluster": "gpuscope.hardware",
    "compare": "gpuscope.analysis.compare",
    "Comparison": "gpuscope.analysis.compare",
    "Device": "gpuscope.hardware",
    "device": "gpuscope.hardware",
    "devices": "gpuscope.hardware",
    "DoesNotFitError": "gpuscope.errors",
    "explain": "gpuscope.explanation.registry",
    "Explanation": "gpuscope.document.blocks",
    "Finding": "gpuscope.analysis.types",
    "Forecast": "gpuscope.advice.results",
    "GpuscopeError": "gpuscope.errors",
    "HangError": "gpuscope.errors",
    "InputFileError": "gpuscope.errors",
    "InvalidValueError": "gpuscope.errors",
    "kernel_model": "gpuscope.cost.own_models",
    "Ladder": "gpuscope.advice.results",
    "Lens": "gpuscope.kernel_lens.types",
    "lens": "gpuscope.kernel_lens.runner",
    "load": "gpuscope.loading",
    "load_test": "gpuscope.serving.client.load_test",
    "measure": "gpuscope.measurement.run",
    "MissingPackageError": "gpuscope.errors",
    "OverLimitError": "gpuscope.errors",
    "optimize": "gpuscope.advice.trial.optimize",
    "OutOfDeviceMemoryError": "gpuscope.measurement.failure",
    "OwnPlan": "gpuscope.planning.own.types",
    "parse_target": "gpuscope.hardware",
    "Plan": "gpuscope.planning.types",
    "plan": "gpuscope.planning.verb",
    "predict": "gpuscope.api",
    "predict_many": "gpuscope.api",
    "profile": "gpuscope.measurement.script.context",
    "Program": "gpuscope.program.types",
    "recost": "gpuscope.api",
    "Recosted": "gpuscope.timeline.recost",
    "RecostedJob": "gpuscope.timeline.recost_ranks",
    "Refused": "gpuscope.run",
    "Run": "gpuscope.run",
    "serve": "gpuscope.serving.verb",
    "Serving": "gpuscope.serving.result",
    "ServingPlan": "gpuscope.planning.serving.types",
    "SlicedPlan": "gpuscope.planning.serving.sliced_types",
    "sweep": "gpuscope.api",
    "Timeline": "gpuscope.timeline.types",
    "Trainable": "gpuscope.planning.largest",
    "Trial": "gpuscope.advice.results",
    "TuningPlan": "gpuscope.planning.tuning.types",
    "UnknownNameError": "gpuscope.errors",
    "UnsupportedError": "gpuscope.errors",
    "WorkloadError": "gpuscope.errors",
    "WorkloadOptions": "gpuscope.program.workload",
    "write_chrome_trace": "gpuscope.timeline.perfetto",
    "write_report": "gpuscope.views.html",
}
"""Public names and the module that holds each."""

__all__ = sorted(_WHERE)

if TYPE_CHECKING:
    from typing import Any

    from gpuscope.advice.apply import apply
    from gpuscope.advice.forecast.advise import advise
    from gpuscope.advice.results import Advice, Forecast, Ladder, Trial
    from gpuscope.advice.trial.optimize import optimize
    from gpuscope.analysis.analyze import analyze
    from gpuscope.analysis.compare import Comparison, compare
    from gpuscope.analysis.types import Analysis, Finding
    from gpuscope.api import capture, predict, predict_many, recost, sweep
    from gpuscope.cost.own_models import kernel_model
    from gpuscope.document.blocks import Explanation
    from gpuscope.errors import (
        CaptureError,
        CatalogueError,
        DoesNotFitError,
        GpuscopeError,
        HangError,
        InputFileError,
        InvalidValueError,
        MissingPackageError,
        NoStepError,
        OverLimitError,
        UnknownNameError,
        UnsupportedError,
        WorkloadError,
    )
    from gpuscope.explanation.registry import explain
    from gpuscope.hardware import Calibration, Cluster, Device, device, devices, parse_target
    from gpuscope.kernel_lens.runner import lens
    from gpuscope.kernel_lens.types import Lens
    from gpuscope.loading import load
    from gpuscope.measurement.failure import OutOfDeviceMemoryError
    from gpuscope.measurement.run import measure
    from gpuscope.measurement.script.context import profile
    from gpuscope.planning.largest import Trainable
    from gpuscope.planning.own.types import OwnPlan
    from gpuscope.planning.serving.sliced_types import SlicedPlan
    from gpuscope.planning.serving.types import ServingPlan
    from gpuscope.planning.tuning.types import TuningPlan
    from gpuscope.planning.types import Plan
    from gpuscope.planning.verb import plan
    from gpuscope.program.types import Program
    from gpuscope.program.workload import WorkloadOptions
    from gpuscope.run import Refused, Run
    from gpuscope.serving.client.load_test import load_test
    from gpuscope.serving.result import Serving
    from gpuscope.serving.verb import serve
    from gpuscope.timeline.perfetto import write_chrome_trace
    from gpuscope.timeline.recost import Recosted
    from gpuscope.timeline.recost_ranks import RecostedJob
    from gpuscope.timeline.types import Timeline
    from gpuscope.views.html import write_report


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        from importlib import import_module

        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'gpuscope' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*_WHERE, "__version__"])


if "IPython" in sys.modules:  # a notebook: devices, runs and the like show themselves as cards
    from gpuscope.views.notebook.register import register_here

    register_here()
