"""An ONNX graph really run, by ONNX Runtime: timed runs, then its own profile of a few.

Inputs and outputs are bound to the device, so that a run copies nothing. The profile comes as
`gpuscope analyze` reads it; the step time is that of the runs without it.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnsupportedError, WorkloadError, require_package
from gpuscope.measurement.statistics import median_interval, settled_from
from gpuscope.program.models.settings import WorkloadOptions
from gpuscope.program.onnx.workload import OnnxBuild, onnx_build
from gpuscope.run import Measurement, Run

if TYPE_CHECKING:
    from gpuscope.measurement.run import Plan

Say = Callable[[str], None]

_PROVIDERS = {"cuda": "CUDAExecutionProvider", "cpu": "CPUExecutionProvider"}
_WARMUP_RUNS = 10
_MOST_RUNS = 10_000
_FEWEST_RUNS = 5


def measure_onnx(
    path: str, options: WorkloadOptions | None, on: str | None, plan: Plan, say: Say
) -> Run:
    """Run a model on this machine.

    Args:
        path: the file.
        options: sizes of its axes.
        on: "cuda" (by default) or "cpu".
        plan: how long, how sure, whether a profile is wanted.
        say: told what is being done.

    Raises:
        MissingPackageError: `onnxruntime` or `onnx` is not installed.
        UnsupportedError: this ONNX Runtime has no provider for the device.
        InvalidValueError: no such device, or an option that ONNX Runtime does not take.
        WorkloadError: it cannot load or run the model.
    """
    kind = (on or "cuda").partition(":")[0]
    if kind not in _PROVIDERS:
        raise InvalidValueError(
            Text("ONNX Runtime is not asked for '{device}'.", device=on),
            Text("A graph is measured on: {names}.", names=", ".join(_PROVIDERS)),
            Text("Type: --device cpu"),
        )
    options = options or WorkloadOptions()
    _refuse(path, options)
    require_package("onnxruntime", Text("Running an ONNX model"), "onnx")
    import onnxruntime

    provider, there = _PROVIDERS[kind], onnxruntime.get_available_providers()
    if provider not in there:
        raise UnsupportedError(
            Text("This ONNX Runtime has no {provider}.", provider=provider),
            Text("It has: {names}.", names=", ".join(there)),
            Text("Type: --device cpu; or: pip install onnxruntime-gpu"),
        )
    build = onnx_build(Path(path), options)
    say(Text("Building the workload …"))
    session = _Session(build, provider, kind)
    say(Text("Timing …"))
    first_s, times = session.timed(plan.seconds)
    say(Text("Recording a timeline …"))
    profile = session.profiled(plan.profiled_steps if plan.profile else 0)
    return _run(build, (first_s, times), profile, plan, session.facts())


def _refuse(path: str, options: WorkloadOptions) -> None:
    if options.dtype not in (None, "float32", "fp32") or options.engine not in (
        None, "onnxruntime",
    ):  # fmt: skip
        raise InvalidValueError(
            Text("{path} is measured as it is, by ONNX Runtime.", path=path),
            Text("Another precision is another file, another engine another program."),
            Text("Leave out --dtype and --engine."),
        )


class _Session:
    """A loaded model with inputs and outputs on its device."""

    def __init__(self, build: OnnxBuild, provider: str, kind: str) -> None:
        self.build, self.provider, self.kind = build, provider, kind

    def _bound(self, profile: str = "") -> tuple[Any, Any]:
        import onnxruntime

        settings = onnxruntime.SessionOptions()
        settings.log_severity_level = 3
        if profile:
            settings.enable_profiling = True
            settings.profile_file_prefix = profile
        session = onnxruntime.InferenceSession(
            str(self.build.path), settings, providers=[self.provider]
        )
        binding = session.io_binding()
        for each in self.build.graph.inputs:
            value = _values(each.dtype, tuple(int(size) for size in each.shape))
            there = onnxruntime.OrtValue.ortvalue_from_numpy(value, self.kind, 0)
            binding.bind_ortvalue_input(each.name, there)
        for name in self.build.graph.outputs:
            binding.bind_output(name, self.kind)
        return session, binding

    def _failed(self, error: Exception) -> WorkloadError:
        return WorkloadError(
            Text("ONNX Runtime cannot run {path}.", path=self.build.path),
            str(error).strip().split("\n")[0][:300],
            Text("Check the model, its external data and the sizes: --set batch=8"),
        )

    def timed(self, seconds: float) -> tuple[float, list[float]]:
        """The first run's time, and those of runs for about so many seconds."""
        try:
            session, binding = self._bound()
            first = self._once(session, binding)
            for _ in range(_WARMUP_RUNS - 1):
                self._once(session, binding)
            times: list[float] = []
            end = time.perf_counter() + seconds
            while len(times) < _FEWEST_RUNS or (
                time.perf_counter() < end and len(times) < _MOST_RUNS
            ):
                times.append(self._once(session, binding))
        except Exception as error:
            raise self._failed(error) from error
        return first, times

    def profiled(self, steps: int) -> Run | None:
        """What ONNX Runtime's profile of some runs says; None where none is wanted."""
        if not steps:
            return None
        from gpuscope.loading import load

        with tempfile.TemporaryDirectory(prefix="gpuscope-") as folder:
            try:
                session, binding = self._bound(str(Path(folder) / "profile"))
                for _ in range(_WARMUP_RUNS + steps):
                    self._once(session, binding)
                file = session.end_profiling()
            except Exception as error:
                raise self._failed(error) from error
            last = (_WARMUP_RUNS, _WARMUP_RUNS + steps - 1)
            return load(file, steps=last)

    def _once(self, session: Any, binding: Any) -> float:
        start = time.perf_counter()
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        return time.perf_counter() - start

    def facts(self) -> dict[str, str]:
        """What the figures depend on."""
        import platform

        import onnxruntime

        from gpuscope.measurement.accelerator import processor_name

        return {
            "onnxruntime": str(onnxruntime.__version__),
            "provider": self.provider,
            "python": platform.python_version(),
            "processor": processor_name(),
        }


def _values(dtype: str, shape: tuple[int, ...]) -> Any:
    """Random real numbers; zeros of whole ones, which are valid as indices."""
    import numpy as np

    if dtype in ("float32", "float16", "float64"):
        return np.random.default_rng(0).standard_normal(shape).astype(dtype)
    if dtype == "bool":
        return np.ones(shape, bool)
    return np.zeros(shape, dtype)


def _run(
    build: OnnxBuild,
    timed: tuple[float, Sequence[float]],
    profile: Run | None,
    plan: Plan,
    facts: dict[str, str],
) -> Run:
    first_s, times = timed
    interval = median_interval(list(times), plan.confidence)
    measurement = Measurement(
        confidence=interval.confidence,
        blocks_s=tuple(times),
        steps_per_block=1,
        warmup_steps=_WARMUP_RUNS,
        settled_after=settled_from(times),
        first_step_s=first_s,
        profiled_steps=plan.profiled_steps if profile else 0,
        profiled_step_s=profile.step_time_s if profile else None,
        machine=facts,
    )
    base = profile or _without_profile()
    on_cpu = facts["provider"] == _PROVIDERS["cpu"]
    return replace(
        base,
        name=build.path.stem,
        target=facts["processor"] if on_cpu else base.target,
        step_time_s=interval.median,
        step_time_interval_s=(interval.low, interval.high),
        origins={**base.origins, "step_time_s": "measured"},
        assumptions=(
            Text(
                "ONNX Runtime {version} ran it ({provider}); random values, outputs left on the "
                "device.",
                version=facts["onnxruntime"],
                provider=facts["provider"],
            ),
            *base.assumptions,
        ),
        samples=build.batch,
        measurement=measurement,
    )


def _without_profile() -> Run:
    from gpuscope.loading.trace_run import trace_run
    from gpuscope.measurement.assemble import NO_EVENTS

    return trace_run(NO_EVENTS, name="")
