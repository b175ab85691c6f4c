"""What a user may ask of a built-in workload, and what it becomes with the model's defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from gpuscope.document.printable import short_repr
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnknownNameError
from gpuscope.program.models.parallel.options import ParallelOptions

if TYPE_CHECKING:
    from gpuscope.program.models.rows import Rows
    from gpuscope.program.models.tuning import FineTuning

__all__ = [
    "ATTENTIONS",
    "COMPILE_MODES",
    "DTYPES",
    "OPTIMIZERS",
    "TASKS",
    "Defaults",
    "Settings",
    "WorkloadOptions",
    "canonical_dtype",
]

TASKS = ("train", "prefill", "decode", "inference")
DTYPES = ("float32", "tf32", "bfloat16", "float16", "fp8")
ATTENTIONS = ("sdpa", "eager", "flash")
OPTIMIZERS = (
    "adamw",
    "adamw-fused",
    "adamw-foreach",
    "adamw-loop",
    "adam",
    "adam-fused",
    "sgd",
    "sgd-plain",
    "adagrad",
    "adafactor",
)
COMPILE_MODES = ("default", "reduce-overhead", "max-autotune")

USUAL_SEQ = 2048
"""Tokens of the longest example and of a packed row where nobody says."""

_DTYPE_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "fp32": "float32",
        "float": "float32",
        "single": "float32",
        "tensorfloat32": "tf32",
        "bf16": "bfloat16",
        "fp16": "float16",
        "half": "float16",
        "float8": "fp8",
        "float8_e4m3fn": "fp8",
        "e4m3": "fp8",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadOptions:
    """What the user asks for. None means the model's own default for the task.

    Attributes:
        task: train, prefill, decode or inference.
        batch: sequences, images or samples in one step.
        seq: tokens of one sequence (encoder-decoder models: of the encoder and of the decoder).
        image: pixels of an image's side.
        context: tokens that the key-value cache holds before a decode step.
        dtype: one of `DTYPES`, or a usual short form ("bf16").
        amp: weights stay float32 and `torch.autocast` picks the dtype per operator; False puts
            everything in `dtype`.
        attention: sdpa, eager (explicit matrix multiplies and softmax) or flash (sdpa, flash
            backend only).
        optimizer: one of `OPTIMIZERS`.
        compile: None (eager) or a `torch.compile` mode.
        checkpointing: recompute each block's activations in the backward pass.
        layers: number of blocks instead of the model's own.
        device: "cuda", or "cpu" for a real run on the host.
        parallel: how the work is split over the ranks of a job; None: nothing is split.
        tuning: how a decoder is fine-tuned, a micro-batch being `batch`; None: it is trained.
        rows: what rows of `seq` tokens are like where examples differ in length (see `packed`);
            None: every example fills one.
        from_host: each step's batch is copied from pinned memory of the host, and what the step
            gives goes back there; else the batch lies on the device.
        replicas: devices of a job and of each of its nodes, on which training without `parallel` is
            data parallel: a copy of the model each, gradients summed (DDP); None: one device.
        arguments: of a whole script.
        allow_writes: what a script or a file's function writes is real, else it goes to a copy of
            the files.
        keep: folder in which charts that a script draws are kept; None: they vanish.
        module: the workload's name is a module's, run as `python -m` runs it.
        step: of a whole script, what is taken as its step: "whole", "optimizer", "forward", or the
            number of a step ("2"); None: what is found.
        axes: sizes of an ONNX graph's dynamic axes, by name.
        engine: what runs an ONNX graph (see `gpuscope.program.onnx.engines`); None: ONNX Runtime.
    """

    task: str | None = None
    batch: int | None = None
    seq: int | None = None
    image: int | None = None
    context: int | None = None
    dtype: str | None = None
    amp: bool | None = None
    attention: str | None = None
    optimizer: str | None = None
    compile: str | None = None
    checkpointing: bool = False
    layers: int | None = None
    device: str = "cuda"
    parallel: ParallelOptions | None = None
    tuning: FineTuning | None = None
    rows: Rows | None = None
    from_host: bool = False
    replicas: tuple[int, int] | None = None
    arguments: tuple[str, ...] = ()
    allow_writes: bool = False
    keep: str | None = None
    module: bool = False
    step: str | None = None
    axes: tuple[tuple[str, int], ...] = ()
    engine: str | None = None

    def __repr__(self) -> str:
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        other = (f"{f.name}={given[f.name]!r}" for f in fields(self) if given[f.name] != f.default)
        return short_repr(self, "", *other)

    def tuned(
        self, method: str = "lora", *, rank: int = 16, targets: str = "all-linear"
    ) -> WorkloadOptions:
        """The same for fine-tuning a decoder on one device, with the method's usual optimizer.

        Args:
            method: "full", "lora" or "qlora" (see `gpuscope.program.models.tuning.FineTuning`).
            rank: of the adapters.
            targets: what gets one: "all-linear", "attention", "qv", or "q,k,up".

        Raises:
            UnknownNameError: no such method or target.
            InvalidValueError: an option that the method decides itself.
        """
        from gpuscope.program.models.tuning import USUAL_OPTIMIZER, FineTuning, projections_of

        given = (("--optimizer", self.optimizer), ("--task", self.task))
        other = [name for name, value in given if value not in (None, "train")]
        if self.dtype is not None and canonical_dtype(self.dtype) != "bfloat16":
            other.append("--dtype")
        if other:
            raise InvalidValueError(
                Text("{name} does not go with --method.", name=other[0]),
                Text("Fine-tuning is training in bfloat16, its optimizer follows from the method."),
                Text("Leave it out."),
            )
        optimizer = USUAL_OPTIMIZER.get(method, "adamw")
        tuning = FineTuning(
            method=method, rank=rank, targets=projections_of(targets), optimizer=optimizer
        )
        return replace(self, task="train", dtype="bfloat16", amp=False, tuning=tuning)

    def packed(self, lengths: str | Sequence[int], packing: str = "padded") -> WorkloadOptions:
        """The same for training on examples of different lengths: the usual micro-batch.

        Args:
            lengths: tokens of examples: "512", "256..2048", "lognormal:400,0.8", a file with one
                number a line, or numbers.
            packing: how they lie in rows: "padded" (one a row), "flash" or "mask" (as many as fit
                into `seq` tokens, kept apart by FlashAttention's kernel or by a mask).

        Raises:
            UnknownNameError: no such packing.
            InvalidValueError, InputFileError: no lengths, or another task than training.
        """
        from gpuscope.program.models.rows import lengths_of, packing_named, rows_of

        if self.task not in (None, "train"):
            raise InvalidValueError(
                Text("Lengths of examples do not go with the task '{task}'.", task=self.task),
                Text("Examples are what a model is trained on."),
                Text("Leave out the task."),
            )
        most = positive("seq", self.seq) or USUAL_SEQ
        together = positive("batch", self.batch) or 1
        rows = rows_of(lengths_of(lengths), most, packing_named(packing), together)
        return replace(self, task="train", batch=together, seq=rows.typical, rows=rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """A model's defaults for one task; None marks a size that the task does not have."""

    batch: int
    seq: int | None = None
    image: int | None = None
    context: int | None = None
    dtype: str = "bfloat16"
    amp: bool = False
    optimizer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a model is built with: every option decided.

    Attributes are those of `WorkloadOptions` but for `parallel` and a script's; seq, image and
    context are 0 where the task has no such size, `attention` and `optimizer` "" where the model
    has no choice, `compile` "" for eager, `layers` None for the model's own depth, `replicas` 1
    on one device.
    """

    task: str
    batch: int
    seq: int
    image: int
    context: int
    dtype: str
    amp: bool
    attention: str
    optimizer: str
    compile: str
    checkpointing: bool
    layers: int | None
    device: str
    replicas: int = 1
    tuning: FineTuning | None = None
    rows: Rows | None = None
    from_host: bool = False

    @property
    def weight_dtype(self) -> str:
        """Torch's name of the dtype that weights are stored in."""
        if self.amp or self.dtype in ("float32", "tf32"):
            return "float32"
        return "bfloat16" if self.dtype == "fp8" else self.dtype

    @property
    def compute_dtype(self) -> str:
        """Torch's name of the dtype that activations mostly have."""
        if self.dtype in ("float32", "tf32"):
            return "float32"
        return "bfloat16" if self.dtype == "fp8" else self.dtype


def canonical_dtype(name: str) -> str:
    """The project's name of a dtype.

    Raises:
        UnknownNameError: no such dtype.
    """
    lowered = name.strip().lower().removeprefix("torch.")
    lowered = _DTYPE_ALIASES.get(lowered, lowered)
    if lowered not in DTYPES:
        raise UnknownNameError(
            Text("dtype"),
            name,
            [*DTYPES, *_DTYPE_ALIASES],
            Text("Type one of: {names}.", names=", ".join(DTYPES)),
        )
    return lowered


def choose(kind: str, value: str, allowed: tuple[str, ...], model: str) -> str:
    """`value` in lower case if `allowed` has it.

    Raises:
        UnknownNameError: it has not; the message lists what `model` allows.
    """
    lowered = value.strip().lower()
    if lowered not in allowed:
        raise UnknownNameError(
            kind,
            value,
            allowed,
            Text(
                "{model} takes: {names}.",
                model=model,
                names=", ".join(allowed) or Text("no choice"),
            ),
        )
    return lowered


def positive(name: str, value: int | None) -> int | None:
    """`value` if it is None or at least 1.

    Raises:
        InvalidValueError: it is not.
    """
    if value is not None and value < 1:
        raise InvalidValueError(
            Text("{name} is {given}.", name=name, given=value),
            Text("{name} counts something and must be at least 1.", name=name),
            Text("Give {name} a positive number.", name=name),
        )
    return value
