"""`measure` of a JAX step: compiled, timed, recorded by JAX's own profiler."""

from __future__ import annotations

import glob
import statistics
import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text
from gpuscope.measurement.assemble import Findings, assemble
from gpuscope.measurement.blocks import host_issue_s, time_blocks
from gpuscope.measurement.failure import run_workload
from gpuscope.measurement.jax.device import JaxDevice, choose_jax_device
from gpuscope.measurement.jax.fed import FedStep
from gpuscope.measurement.others import others_on
from gpuscope.measurement.profiling import EXTRA_STEPS, own_timeline
from gpuscope.measurement.sensors import open_sensor
from gpuscope.measurement.warmup import warm_up
from gpuscope.program.jax.lowering import pair_of
from gpuscope.run import Run
from gpuscope.timeline.types import Timeline

if TYPE_CHECKING:
    from gpuscope.measurement.run import Plan, Say
    from gpuscope.program.workload import Workload

__all__ = ["measure_jax"]


def measure_jax(workload: Workload, on: str | None, plan: Plan, say: Say) -> Run:
    """Run a JAX step on this machine.

    Args:
        workload: its build returns a jitted function and its arguments.
        on: "cuda" (by default), "cuda:1", "cpu".
        plan: how long, how sure, whether a timeline is wanted.
        say: told what is being done.

    Raises:
        MissingPackageError, UnsupportedError, InvalidValueError: see `choose_jax_device`.
        WorkloadError: its code failed, or does not return what can be run.
        OutOfDeviceMemoryError: the device's memory is too small.
    """
    device = choose_jax_device(on)
    device.use()
    sensor = open_sensor(device.index) if device.is_gpu else None
    found = Findings(sensor=sensor, notes=list(workload.notes))
    try:
        found.notes += others_on(sensor, device)
        say(Text("Building the workload …"))
        function, arguments = run_workload(
            "build()", lambda: pair_of(workload.build, workload.build())
        )
        step = run_workload(Text("the step"), lambda: FedStep(function, arguments))
        say(Text("Compiling …"))
        compiled = run_workload(Text("the step"), step.lowered.compile)
        device.waits_for = step.wait
        trials = device.peak_allocated_bytes()
        say(Text("Warming up …"))
        found.warmup = warm_up(step, device)
        try:
            _time(step, device, plan, found, say)
            found.peak_bytes = _peak(device, compiled, trials, found)
            if plan.profile and not found.interrupted:
                say(Text("Recording a timeline …"))
                _record(step, device, plan, found)
        except KeyboardInterrupt:
            if found.blocks is None:
                raise
            found.interrupted = True
        found.notes += _remarks(device)
        return assemble(workload, device, found)
    finally:
        if sensor is not None:
            sensor.close()


def _time(step: FedStep, device: JaxDevice, plan: Plan, found: Findings, say: Say) -> None:
    assert found.warmup is not None
    say(Text("Timing …"))
    found.blocks = time_blocks(
        step,
        device,
        seconds=plan.seconds,
        rough_s=found.warmup.steady_s,
        confidence=plan.confidence,
        sensor=found.sensor,
    )
    found.interrupted = found.blocks.interrupted
    if not found.interrupted:
        found.host_issue_s = host_issue_s(step, device, plan.seconds)


def _peak(device: JaxDevice, compiled: Any, trials: int | None, found: Findings) -> int | None:
    """The step's own peak.

    JAX cannot reset its peak, and what XLA tried out while it compiled may have held more than the
    step. Then it is what the arguments hold and what XLA's plan adds to them.
    """
    peak, held = device.peak_allocated_bytes(), device.allocated_bytes()
    if peak is None or held is None or trials is None or peak > trials:
        return peak
    plan = compiled.memory_analysis()
    found.notes.append(
        Text(
            "XLA held {trials} while it tried out algorithms, more than the step does: the peak "
            "is what was held between steps and XLA's plan of a step's temporaries.",
            trials=Bytes(trials),
        )
    )
    return held + int(plan.temp_size_in_bytes)


def _remarks(device: JaxDevice) -> list[Text]:
    if device.count == 1 or not device.is_gpu:
        return []
    return [
        Text("JAX has {count} devices; memory and energy are of the first.", count=device.count)
    ]


def _record(step: FedStep, device: JaxDevice, plan: Plan, found: Findings) -> None:
    """The timeline; a profiler that fails must not undo what was timed."""
    try:
        timeline = _recorded(step, plan.profiled_steps + EXTRA_STEPS)
    except Exception as error:
        line = f"{type(error).__name__}: {str(error).strip().split(chr(10))[0]}"
        found.notes.append(
            Text("No timeline: the profiler failed ({first_line}).", first_line=line)
        )
        return
    found.timeline = own_timeline(timeline, device)
    lengths = [each.end_ns - each.start_ns for each in found.timeline.steps]
    found.profiled_step_s = statistics.median(lengths) * 1e-9 if lengths else None


def _recorded(step: FedStep, steps: int) -> Timeline:
    import jax

    from gpuscope.timeline.engine_reports import read_report

    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0  # a call of every Python function would be most of the trace
    with tempfile.TemporaryDirectory(prefix="gpuscope-") as folder:
        with jax.profiler.trace(folder, profiler_options=options):
            for number in range(steps):
                with jax.profiler.StepTraceAnnotation("step", step_num=number):
                    step()
                    step.wait()  # nothing ties device work to its step but the time
        [path] = glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)
        timeline = read_report(path)
    # The file is gone; a path to it would lead nowhere.
    return replace(timeline, sources=tuple(replace(s, path="") for s in timeline.sources))
