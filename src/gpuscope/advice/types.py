"""The words of advice: whether a change fits a case, what it may alter, what was seen of the code.

Pure data; knows no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gpuscope.analysis.types import Analysis
from gpuscope.document.text import Text, capital, joined
from gpuscope.hardware import Cluster, Device
from gpuscope.program.types import Program
from gpuscope.run import Run

__all__ = [
    "NO_BATCH",
    "NO_CODE",
    "ChangeCase",
    "Door",
    "Edit",
    "Fit",
    "Group",
    "LoaderSeen",
    "ModelSeen",
    "Numerics",
    "OptimizerSeen",
    "Seen",
    "WrapSeen",
]

Group = Literal[
    "precision", "compilation", "operators", "input", "memory", "distributed", "inference"
]

Door = Literal["torch", "onnx", "jax"]
"""How a program came in: PyTorch code, an ONNX graph, a JAX step."""

Numerics = Literal["exact", "reordered", "tf32", "bf16", "fp16", "fp8", "int8", "int4", "recipe"]
"""What a change may do to the results: nothing at all; the same mathematics in another order of
rounding; fewer bits in products; weights of fewer bits; or another recipe (another batch, another
optimizer), whose loss cannot be held against the old one step by step."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a change can be made here.

    Attributes:
        applies: it can be made; whether it helps is for the prediction to say.
        why: the reason, one sentence, for or against. Against: shown as "not possible here".
        relevant: False where it is so far off that a reader need not see it (convolutions' layout
            in a language model).
    """

    applies: bool
    why: Text
    relevant: bool = True


NO_CODE = Fit(False, Text("A recording has no code to change."), relevant=False)
"""For changes of code, where there is only a timeline."""
NO_BATCH = Fit(
    False, Text("The build function has no argument 'batch' with a default."), relevant=False
)
"""For changes of the batch, where it cannot be asked for."""


@dataclass(frozen=True, slots=True)
class OptimizerSeen:
    """An optimizer as the code made it.

    Attributes:
        class_name: "AdamW".
        keywords: its plain arguments by name (numbers, strings, None, booleans), defaults included.
        parameters: elements it owns.
        dtypes: of its parameters.
        site: "path/file.py:12" of the call; "" where unknown.
        loop_steps: it takes more than one step of its own in a step of the workload.
    """

    class_name: str
    keywords: Mapping[str, object]
    parameters: int
    dtypes: tuple[str, ...] = ()
    site: str = ""
    loop_steps: bool = False


@dataclass(frozen=True, slots=True)
class LoaderSeen:
    """A `DataLoader` as the code made it.

    Attributes:
        keywords: its plain arguments by name.
        samples: of its dataset; None where it does not say.
        site: "path/file.py:12" of the call; "" where unknown.
        dataset: class name of its dataset; "" where unknown.
        iterable: the dataset is a stream (`IterableDataset`).
    """

    keywords: Mapping[str, object]
    samples: int | None = None
    site: str = ""
    dataset: str = ""
    iterable: bool = False


@dataclass(frozen=True, slots=True)
class WrapSeen:
    """A distributed wrapper: "ddp", "fsdp1", "fully_shard" or "parallelize_module".

    Attributes:
        kind: which.
        keywords: its plain arguments by name.
        site: of the call.
        count: how many calls of that site.
    """

    kind: str
    keywords: Mapping[str, object]
    site: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True)
class ModelSeen:
    """A root module: one that no other module holds.

    Attributes:
        class_name: its class; where a wrapper holds it, that of the user's model.
        module: the Python module that defines the class ("__main__", "transformers.models.gpt2").
        file: path of the file that defines the class; "" where unknown.
        parameters: elements.
        dtypes: of its parameters.
        classes: class name -> how many modules of it, torch's own and others.
        repeated: (class name, count) of the largest list of equal blocks; None without one.
        training: it is in training mode.
        attention: attention implementation that transformers was told ("eager", "sdpa", ...); "".
        compiled: it was compiled by the code itself.
        requires_grad: some parameter is trained.
        kernels: sizes of convolution weights, outermost first, one entry a module.
        linears: (out, in) of linear layers and (rows, columns) of embeddings, distinct.
        site: "path/file.py:12" of the user's line that made it; "" where unknown.
        experts: experts implementation that transformers was told ("eager", "grouped_mm"); "".
        sparse: some embedding makes sparse gradients.
        files: of the user's own that define classes of its modules.
        wrapper: class of the distributed wrapper that holds the model; "".
    """

    class_name: str
    module: str
    file: str
    parameters: int
    dtypes: tuple[str, ...]
    classes: Mapping[str, int]
    repeated: tuple[str, int] | None = None
    training: bool = False
    attention: str = ""
    compiled: bool = False
    requires_grad: bool = True
    kernels: tuple[tuple[int, ...], ...] = ()
    linears: tuple[tuple[int, int], ...] = ()
    site: str = ""
    experts: str = ""
    sparse: bool = False
    files: tuple[str, ...] = ()
    wrapper: str = ""

    @property
    def of_torch(self) -> bool:
        """Whether the module that the code calls is of a class of torch's own."""
        return bool(self.wrapper) or self.module.startswith("torch.nn")


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of the live code in its first step; plain data.

    Attributes:
        models, optimizers, loaders, wraps: in the order they were made.
        dropout: some dropout with p > 0 is active.
        scaler: a gradient scaler is used.
        file: the user's file; "" for built-in models.
        function: the build function's name; "" for a whole script.
        batch: value of the build function's argument `batch` or `batch_size`; None without one.
    """

    models: tuple[ModelSeen, ...] = ()
    optimizers: tuple[OptimizerSeen, ...] = ()
    loaders: tuple[LoaderSeen, ...] = ()
    wraps: tuple[WrapSeen, ...] = ()
    dropout: bool = False
    scaler: bool = False
    file: str = ""
    function: str = ""
    batch: int | None = None


@dataclass(frozen=True, slots=True)
class ChangeCase:
    """A workload that advice is asked for, as it stands.

    Attributes:
        run: its baseline, predicted or measured.
        cluster: where it runs.
        program: what was captured; None for a trace.
        seen: what was seen of the code; None for a trace, a graph and a JAX step.
        onnx: the graph, an `OnnxBuild`; None for everything else. Files are read with these types,
            which need not know it.
        jax: what can be asked of a JAX step's build function (`BuildArguments`); None for
            everything else.
    """

    run: Run
    cluster: Cluster
    program: Program | None = None
    seen: Seen | None = None
    onnx: Any = None
    jax: Any = None

    @property
    def device(self) -> Device:
        """One of its devices."""
        return self.cluster.device

    @property
    def analysis(self) -> Analysis:
        """What the baseline's timeline means."""
        return self.run.analysis

    @property
    def training(self) -> bool:
        """Whether a step has a backward pass."""
        return self.program is not None and any(op.phase == "backward" for op in self.program.ops)

    @property
    def eager(self) -> bool:
        """Whether nothing of it is compiled or graphed yet."""
        return self.program is not None and not self.program.compiled


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of the user's source: lines `first` to `last` (from 1, both included) become `text`.

    An insertion before line n has first = n, last = n - 1.

    Attributes:
        file: path of the file.
        first, last: lines that are replaced.
        text: the new lines, "" to delete; ends with a newline otherwise.
        needs: import lines that the file must have ("import torch").
    """

    file: str
    first: int
    last: int
    text: str
    needs: tuple[str, ...] = field(default=())


def clauses(*parts: Text | None) -> Text:
    """Return clauses as one sentence: "The first; the second."."""
    return Text("{clauses}.", clauses=capital(joined(parts, "; ")))
