"""A jitted function and its arguments' shapes, traced and lowered to StableHLO; nothing is run.

Arrays that `build` makes are traced, too: weights of any size cost nothing. Where the code makes
sharded arrays, as many host devices stand in for the GPUs as there are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError, InvalidValueError, MissingPackageError, WorkloadError
from gpuscope.program.jax.workload import is_jitted

__all__ = ["Argument", "Lowered", "lower", "lower_build", "on_host"]

_CUDNN = 91000
"""The version that XLA's target says the GPU has: `gpuscope.program.jax.target`."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One array that the function takes.

    Attributes:
        name: its path in the arguments ("state.params['w']").
        place: number of the positional argument that it is part of.
        donated: its memory may be the result's.
        dtype: as NumPy has it.
    """

    name: str
    place: int
    donated: bool
    dtype: str


@dataclass(frozen=True, slots=True)
class Lowered:
    """What XLA is to compile.

    Attributes:
        name: the function's.
        module: StableHLO's bytecode.
        arguments: those that the module takes, in its order.
        devices: how many partitions it has.
        results: number of arrays that it returns.
    """

    name: str
    module: bytes
    arguments: tuple[Argument, ...]
    devices: int
    results: int


def check_installed(doing: Text | None = None) -> None:
    """Import JAX.

    Args:
        doing: what it is needed for; None: a prediction.

    Raises:
        MissingPackageError: it is not installed.
    """
    # The plugin alone, which brings the compiler, has no libraries of a GPU's to check.
    os.environ.setdefault("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")
    try:
        import jax  # noqa: F401
    except ImportError as error:
        doing = doing or Text("Predicting a JAX function")
        raise MissingPackageError("jax", doing, "jax") from error


def check_jitted(function: object) -> None:
    """Refuse what `jax.jit` has not wrapped.

    Raises:
        WorkloadError: it is not jitted.
    """
    if not is_jitted(function):
        raise WorkloadError(
            Text("{name} is not jitted.", name=_name(function)),
            Text("XLA compiles what jax.jit wraps; anything else runs call by call."),
            Text("Write: {name} = jax.jit({name})", name=_name(function)),
        )


def lower_build(build: Callable[[], Any], devices: int) -> Lowered:
    """Call what makes the function and its arguments, traced, and lower the function.

    Args:
        build: returns the jitted function and a tuple of its arguments.
        devices: GPUs of the job.

    Raises:
        MissingPackageError: no JAX.
        WorkloadError: the code failed, or returned something else.
        InvalidValueError: more devices are needed than this process' JAX has.
    """
    _host_devices(devices)
    with _as_gpus():
        try:
            return lower(*_built(build), devices)
        except WorkloadError as error:
            if not _needs_values(error.__cause__):
                raise
        # The code looks into its arrays, or the step holds some of them: they are made, here.
        function, arguments = pair_of(build, build())
        return lower(function, arguments, devices)


def lower(function: Any, arguments: tuple[Any, ...], devices: int = 1) -> Lowered:
    """Lower a jitted function for GPUs.

    Args:
        function: what `jax.jit` returned.
        arguments: its positional arguments: trees of arrays, or of `jax.ShapeDtypeStruct`.
        devices: GPUs of the job.

    Raises:
        WorkloadError: it is not jitted, or tracing it failed.
        InvalidValueError: it is sharded over another number of devices.
    """
    check_installed()
    check_jitted(function)
    import jax

    shapes = jax.tree.map(_shape, arguments)
    try:
        with _as_gpus():
            lowered = function.trace(*shapes).lower(lowering_platforms=("cuda",))
    except GpuscopeError:
        raise
    except Exception as error:
        raise _failed(function, error) from error
    module = _bytecode(lowered)
    found = re.search(rb"mhlo.num_partitions = (\d+)", lowered.as_text()[:4000].encode())
    partitions = int(found[1]) if found else 1
    if partitions not in (1, devices):
        raise InvalidValueError(
            Text(
                "{name} is sharded over {partitions} devices, the target has {devices}.",
                name=_name(function),
                partitions=partitions,
                devices=devices,
            ),
            "",
            Text("Type for example: --on {partitions}xh200", partitions=partitions),
        )
    kept = sorted(lowered._lowering.compile_args["kept_var_idx"])
    described = _arguments(lowered, kept)
    results = len(jax.tree.leaves(lowered.out_info))
    return Lowered(_name(function), module, described, partitions, results)


def _arguments(lowered: Any, kept: list[int]) -> tuple[Argument, ...]:
    import jax

    found = []
    (positional, _) = lowered.args_info
    flat, _ = jax.tree_util.tree_flatten_with_path(positional)
    for path, info in flat:
        name = jax.tree_util.keystr(path[1:]).lstrip(".")
        place = getattr(path[0], "idx", 0)
        found.append(Argument(name, place, bool(info.donated), str(info.dtype)))
    return tuple(found[index] for index in kept if index < len(found))


def _bytecode(lowered: Any) -> bytes:
    from io import BytesIO

    stream = BytesIO()
    lowered.compiler_ir("stablehlo").operation.write_bytecode(stream)
    return stream.getvalue()


def _shape(leaf: Any) -> Any:
    """An argument's leaf as its shape; plain numbers stay."""
    import jax

    if isinstance(leaf, jax.ShapeDtypeStruct) or not hasattr(leaf, "shape"):
        return leaf
    # An array on one device is wherever the step is: JAX calls that uncommitted.
    sharding = getattr(leaf, "sharding", None)
    many = sharding is not None and len(sharding.device_set) > 1
    return jax.ShapeDtypeStruct(
        leaf.shape,
        leaf.dtype,
        sharding=sharding if many else None,
        weak_type=getattr(leaf, "weak_type", False),
    )


def on_host() -> None:
    """Let JAX take this process' CPU alone, GPU or not."""
    check_installed()
    import jax

    jax.config.update("jax_platforms", "cpu")


def _host_devices(devices: int) -> None:
    """Let this process' JAX have as many CPU devices, where it has not begun yet."""
    check_installed()
    import jax

    if devices > 1:
        with suppress(RuntimeError, AttributeError):  # it has begun
            jax.config.update("jax_num_cpu_devices", devices)
    if len(jax.devices()) < devices:
        raise InvalidValueError(
            Text(
                "This process' JAX has {there} devices, {devices} are needed.",
                there=len(jax.devices()),
                devices=devices,
            ),
            Text("It had begun before gpuscope could ask for more."),
            Text('Set XLA_FLAGS="--xla_force_host_platform_device_count={n}" first.', n=devices),
        )


def _built(build: Callable[[], Any]) -> tuple[Any, tuple[Any, ...]]:
    """The function and the shapes of its arguments, from `build` traced."""
    import jax

    kept: dict[str, Any] = {}

    def traced() -> Any:
        function, arguments = pair_of(build, build())
        kept["function"] = function
        leaves, kept["tree"] = jax.tree.flatten(arguments)
        kept["leaves"] = leaves
        return [leaf for leaf in leaves if _is_array(leaf)]

    try:
        closed = jax.make_jaxpr(traced)()
    except GpuscopeError:
        raise
    except Exception as error:
        raise _failed(build, error) from error
    made = iter(_with_shardings(closed.jaxpr))
    leaves = [next(made) if _is_array(leaf) else leaf for leaf in kept["leaves"]]
    return kept["function"], tuple(jax.tree.unflatten(kept["tree"], leaves))


def _is_array(leaf: Any) -> bool:
    import jax

    return hasattr(leaf, "dtype") and not isinstance(leaf, jax.ShapeDtypeStruct)


def _with_shardings(jaxpr: Any) -> Iterator[Any]:
    """The shapes of what a traced build makes, each with where it was put."""
    import jax

    maker = {out: (eqn, n) for eqn in jaxpr.eqns for n, out in enumerate(eqn.outvars)}
    for var in jaxpr.outvars:
        sharding = None
        if not hasattr(var, "val") and var in maker:
            eqn, number = maker[var]
            given = eqn.params.get("devices") or eqn.params.get("out_shardings") or ()
            sharding = given[number] if number < len(given) else None
            sharding = sharding or eqn.params.get("sharding")
        many = isinstance(sharding, jax.sharding.Sharding) and len(sharding.device_set) > 1
        aval = var.aval
        yield jax.ShapeDtypeStruct(
            aval.shape,
            aval.dtype,
            sharding=sharding if many else None,
            weak_type=getattr(aval, "weak_type", False),
        )


def pair_of(build: Callable[[], Any], made: Any) -> tuple[Any, tuple[Any, ...]]:
    """What a build returned, checked.

    Raises:
        WorkloadError: it is no pair of a jitted function and a tuple.
    """
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], (tuple, list)):
        return made[0], tuple(made[1])
    why = Text("It returned {type}.", type=type(made).__name__)
    if is_jitted(made):
        why = Text("It returned the function alone, without arguments or their shapes.")
    raise WorkloadError(
        Text("{name}() must return a jitted function and its arguments.", name=_name(build)),
        why,
        Text("Write: return step, (state, batch)"),
    )


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", None) or type(function).__name__)


def _needs_values(error: BaseException | None) -> bool:
    """Whether JAX says that a traced array was used as one with values."""
    kind = type(error).__name__
    return "Concretization" in kind or "Tracer" in kind


def _failed(function: Any, error: Exception) -> WorkloadError:
    first = str(error).strip().split("\n")[0][:300]
    return WorkloadError(
        Text("Tracing {name} failed.", name=_name(function)),
        Text("{kind}: {message}", kind=type(error).__name__, message=first),
        Text("Make it run by itself first."),
    )


@contextmanager
def _as_gpus() -> Iterator[None]:
    """What JAX's own code asks of a GPU while it traces, answered as the target would."""
    try:
        from jax._src.cudnn import fused_attention_stablehlo as attention
    except ImportError:
        yield
        return
    answers: dict[str, Any] = {
        "check_cudnn_version": lambda: _CUDNN,
        "check_compute_capability": lambda _: True,
        "is_cuda_compute_capability_equal": lambda _: False,
    }
    before = {name: getattr(attention, name, None) for name in answers}
    for name, answer in answers.items():
        setattr(attention, name, answer)
    try:
        yield
    finally:
        for name, old in before.items():
            setattr(attention, name, old)
