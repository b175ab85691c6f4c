"""`measure`: the same `Run` that `predict` gives, really run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuscope.document.quantities import Bytes, Number
from gpuscope.document.text import Text, sentences
from gpuscope.errors import GpuscopeError, InvalidValueError, WorkloadError
from gpuscope.renamed import renamed
from gpuscope.run import Run

if TYPE_CHECKING:
    from gpuscope.measurement.accelerator import Accelerator
    from gpuscope.measurement.assemble import Findings
    from gpuscope.measurement.epochs import Epochs
    from gpuscope.program.workload import Workload, WorkloadOptions

Build = Callable[[], Callable[[], object]]
Say = Callable[[str], None]

PROFILED_STEPS = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure and how long.

    Attributes:
        seconds: about how long steps are timed without the profiler.
        confidence: of the interval of the median step.
        profile: also record a timeline.
        profiled_steps: steps in it.
    """

    seconds: float = 3.0
    confidence: float = 0.95
    profile: bool = True
    profiled_steps: int = PROFILED_STEPS


@renamed(device="on")
def measure(
    workload: Build | str,
    *,
    options: WorkloadOptions | None = None,
    on: str | None = None,
    seconds: float = 3.0,
    confidence: float = 0.95,
    profile: bool = True,
    on_progress: Say = lambda text: None,
) -> Run:
    """Run a workload on this machine and say what `predict` says, measured.

    The step is run until its time has settled; then blocks of steps are timed without a profiler,
    with the device's energy counter read around them; then a few steps are recorded with the
    profiler for the timeline. The breakdown of the timeline is scaled to the time without it.

    Args:
        workload: a `build` function, a built-in model's name, `file.py:function`, or a Hugging
            Face `config.json`. An ONNX file is run by ONNX Runtime.
        options: for a workload given by name.
        on: "cuda", "cuda:1", "cpu", ...; this machine's GPU by default. On "cpu", code that
            says "cuda" is run on the processor.
        seconds: about how long steps are timed (at least one second is needed for energy).
        confidence: of `Run.step_time_interval_s`, the interval of the median step.
        profile: also record a timeline; without it the run has no breakdown.
        on_progress: told what is being done.

    Returns:
        A `Run` with origin "measured" and `Run.measurement`. Interrupted (Ctrl-C) after something
        was timed, it holds what was measured until then.

    Raises:
        UnsupportedError: there is no GPU that PyTorch can use (and `on` is not "cpu").
        InvalidValueError: a value that cannot be, or no such device.
        InputFileError, UnknownNameError: the workload's file or model does not exist.
        WorkloadError: the workload's own code failed.
        OutOfDeviceMemoryError: the device's memory is too small; says what was missing.
    """
    _check(seconds, confidence)
    from gpuscope.measurement.accelerator import choose_accelerator
    from gpuscope.measurement.epochs import Epochs
    from gpuscope.program.jax.workload import is_jax

    if isinstance(workload, str):  # before a word about the GPU: what is typed is easier to mend
        from gpuscope.program.workload import check_name

        check_name(workload)
        if workload.lower().endswith(".onnx"):
            from gpuscope.measurement.onnx import measure_onnx

            return measure_onnx(
                workload, options, on, Plan(seconds, confidence, profile), on_progress
            )
    plan = Plan(seconds, confidence, profile)
    if is_jax(workload):
        from gpuscope.measurement.jax.measuring import measure_jax
        from gpuscope.program.jax.lowering import check_installed

        check_installed(Text("Running a JAX function"))
        return measure_jax(_resolve(workload, options), on, plan, on_progress)
    accelerator = choose_accelerator(on)
    resolved = _resolve(workload, options, accelerator)
    try:
        with Epochs() as epochs:
            return _measured(resolved, accelerator, plan, on_progress, epochs)
    except GpuscopeError as error:
        raise _with_prediction(error, workload, options, accelerator) from error.__cause__


def _check(seconds: float, confidence: float) -> None:
    if not 0 < seconds < 3600:
        raise InvalidValueError(
            Text("{seconds} seconds cannot be.", seconds=Number(seconds)),
            "",
            Text("Give 0 < seconds < 3600."),
        )
    if not 0.5 <= confidence < 1:
        raise InvalidValueError(
            Text("A confidence of {confidence} cannot be.", confidence=Number(confidence)),
            "",
            Text("Give 0.5 to 0.999, such as 0.95."),
        )


def _resolve(
    workload: Build | str, options: WorkloadOptions | None, accelerator: Accelerator | None = None
) -> Workload:
    """The workload by name, or around the user's function."""
    from dataclasses import replace

    from gpuscope.program.workload import WorkloadOptions, resolve

    if isinstance(workload, str):
        options = options or WorkloadOptions()
        if accelerator and not accelerator.is_gpu and ".py" not in workload:
            options = replace(options, device="cpu")
        found = resolve(workload, options)
        if found.script is not None:
            found.build()  # says what to do instead
        return found
    if accelerator is None and isinstance(workload, tuple):  # a jitted function, its arguments
        made = workload
        return _of_function(getattr(made[0], "__name__", "step"), lambda: made)
    if not callable(workload):
        raise WorkloadError(
            Text("A workload cannot be a {name}.", name=type(workload).__name__),
            "",
            Text("Give a build function, a model name, or a path."),
        )
    return _of_function(getattr(workload, "__name__", "workload"), workload)


def _of_function(name: str, build: Callable[[], Any]) -> Workload:
    from gpuscope.program.workload import Workload

    return Workload(
        name=name,
        build=build,
        title="",
        task="",
        batch=None,
        seq=None,
        samples=None,
        tokens=None,
        dtype="",
    )


def _built(workload: Workload, accelerator: Accelerator) -> Any:
    """Build on the device that is measured: what "cuda" means inside."""
    if accelerator.is_gpu:
        accelerator.use()
        return workload.build()
    from gpuscope.measurement.on_host import on_host

    with on_host():
        return workload.build()


def _placed(built: Any, accelerator: Accelerator, epochs: Epochs) -> Callable[[], object]:
    step = epochs.restarting(_step(built))
    if accelerator.is_gpu:
        return step
    from gpuscope.measurement.on_host import HostStep

    return HostStep(step)


def _measured(
    workload: Workload, accelerator: Accelerator, plan: Plan, say: Say, epochs: Epochs
) -> Run:
    from gpuscope.measurement.assemble import Findings, assemble
    from gpuscope.measurement.failure import run_workload
    from gpuscope.measurement.others import others_on
    from gpuscope.measurement.sensors import open_sensor
    from gpuscope.measurement.warmup import warm_up

    sensor = open_sensor(accelerator.index) if accelerator.is_gpu else None
    found = Findings(sensor=sensor, notes=list(workload.notes))
    try:
        found.notes += others_on(sensor, accelerator)
        say(Text("Building the workload …"))
        built = run_workload("build()", lambda: _built(workload, accelerator))
        step = _placed(built, accelerator, epochs)
        say(Text("Warming up …"))
        found.warmup = warm_up(step, accelerator)
        try:
            _time(step, accelerator, plan, found, say)
            if plan.profile and not found.interrupted:
                _record(step, accelerator, plan, found, say)
        except KeyboardInterrupt:
            if found.blocks is None:
                raise
            found.interrupted = True
        found.notes += epochs.notes
        return assemble(workload, accelerator, found)
    finally:
        if sensor is not None:
            sensor.close()


def _step(built: Any) -> Callable[[], object]:
    if not callable(built):
        raise WorkloadError(
            Text("build() did not return a step."),
            Text(
                "It returned {name}; gpuscope needs a function without arguments that runs one "
                "step.",
                name=type(built).__name__,
            ),
            Text("End build() with `return step`."),
        )
    step: Callable[[], object] = built
    return step


def _time(
    step: Callable[[], object], accelerator: Accelerator, plan: Plan, found: Findings, say: Say
) -> None:
    from gpuscope.measurement.blocks import host_issue_s, time_blocks

    assert found.warmup is not None
    say(Text("Timing …"))
    accelerator.reset_peaks()
    found.blocks = time_blocks(
        step,
        accelerator,
        seconds=plan.seconds,
        rough_s=found.warmup.steady_s,
        confidence=plan.confidence,
        sensor=found.sensor,
    )
    found.peak_bytes = accelerator.peak_allocated_bytes()
    found.reserved_bytes = accelerator.peak_reserved_bytes()
    found.interrupted = found.blocks.interrupted
    if not found.interrupted:
        found.host_issue_s = host_issue_s(step, accelerator, plan.seconds)


def _record(
    step: Callable[[], object], accelerator: Accelerator, plan: Plan, found: Findings, say: Say
) -> None:
    """The timeline and what holds the memory; neither may undo what was timed."""
    from gpuscope.measurement.memory import peak_memory
    from gpuscope.measurement.profiling import record_steps

    say(Text("Recording a timeline …"))
    try:
        found.timeline, found.profiled_step_s = record_steps(
            step,
            accelerator,
            steps=plan.profiled_steps,
            compiled_graphs=found.warmup.compiled_graphs if found.warmup else None,
        )
    except Exception as error:
        found.notes.append(
            Text("No timeline: the profiler failed ({first_line}).", first_line=_first_line(error))
        )
    say(Text("Reading the memory …"))
    try:
        found.memory = peak_memory(step, accelerator)
    except Exception as error:
        found.notes.append(
            Text(
                "No memory breakdown: the history failed ({first_line}).",
                first_line=_first_line(error),
            )
        )


def _first_line(error: BaseException) -> str:
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _with_prediction(
    error: GpuscopeError,
    workload: Build | str,
    options: WorkloadOptions | None,
    accelerator: Accelerator,
) -> GpuscopeError:
    """Add to an out-of-memory error what a prediction says of the peak."""
    from gpuscope.measurement.failure import OutOfDeviceMemoryError

    device = accelerator.catalogue_device()
    if not isinstance(error, OutOfDeviceMemoryError) or device is None:
        return error
    from gpuscope import api

    try:
        run = api.predict(workload, device, options=options)
    except Exception:  # the prediction is a courtesy: its own failure must not hide the error
        return error
    if run.peak_memory_bytes is None:
        return error
    need = Bytes(run.peak_memory_bytes)
    why = sentences(error.why, Text("A prediction says the step needs {need}.", need=need))
    return OutOfDeviceMemoryError(
        error.what, why, error.next_step, error.asked_bytes, error.missing_bytes
    )
