"""What a step does: operators, tensors with lifetimes, phases. Pure data; knows no torch.

A `Program` is recorded once from real PyTorch code (see `gpuscope.program.capture`) and can be
costed for any device. Everything is immutable, so that one capture serves many devices.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from gpuscope.document.printable import counted, short_repr
from gpuscope.document.text import Text

Phase = Literal["forward", "backward", "optimizer", "input", "other"]

Category = Literal[
    "parameter",
    "gradient",
    "optimizer_state",
    "activation",
    "temporary",
    "input",
    "buffer",
    "cache",
    "workspace",
    "communication",
]

HOLDERS: Mapping[str, Text] = {
    "parameter": Text("parameters"),
    "gradient": Text("gradients"),
    "optimizer_state": Text("optimizer states"),
    "activation": Text("activations"),
    "temporary": Text("temporaries"),
    "input": Text("inputs"),
    "buffer": Text("buffers"),
    "cache": Text("key-value cache"),
    "workspace": Text("library workspaces"),
    "communication": Text("communication buffers"),
}
"""The name of each category of storage, in the plural."""

NVFP4 = "float4_e2m1fn"
"""One number of four bits, as block-scaled products have them."""

DTYPE_BYTES: Mapping[str, float] = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "float4_e2m1fn_x2": 1,
    NVFP4: 0.5,  # one of such a pair
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "int4": 0.5,
    "uint64": 8,
    "uint32": 4,
    "uint16": 2,
    "uint8": 1,
    "bool": 1,
    "complex32": 4,
    "complex64": 8,
    "complex128": 16,
}
"""Bytes of one element by dtype, named as torch names them without the `torch.` prefix."""


FUSED = "gpuscope::fused"
"""Name of an operator that stands for one generated kernel, see `gpuscope.program.fusion`."""

WHOLE_STEP = "whole step"
"""`Program.compiled` where the device's own compiler makes one graph of a step (XLA and kin)."""

XLA = "xla"
"""`Program.engine` of what XLA compiled."""

OPTIMIZER_ISSUED = "optimizer_issued"
"""Setting of a program whose model is replayed from graphs, and whose compiled optimizer is not."""

ADDED_TO = "added_to"
"""Argument of a product that adds its result to a tensor of that shape: the tensor's dtype."""

RETURNED = "gpuscope::returned"
"""Mark of what a compiled call returned that could get a gradient."""


TOGETHER = Text("tensors with one lifetime")
"""Label of storages of one category that come and go together, kept as one."""


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a tensor whose elements lie densely, the last dimension innermost."""
    sizes = [max(size, 1) for size in shape]
    return tuple(math.prod(sizes[at + 1 :]) for at in range(len(sizes)))


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One tensor as an operator saw it.

    Attributes:
        shape: sizes, outermost first.
        stride: elements to step by, per dimension (torch's convention).
        dtype: torch's name without the prefix, e.g. "bfloat16".
        device: "device" for the accelerator, "host" for CPU memory.
        storage: identity of the memory behind it; views of one memory share it. -1: unknown.
        pinned: page-locked host memory.
    """

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    device: Literal["device", "host"] = "device"
    storage: int = -1
    pinned: bool = False

    @property
    def numel(self) -> int:
        """Number of elements (1 for a scalar tensor)."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> float:
        """Bytes of one element; 0.5 for packed 4-bit types."""
        return DTYPE_BYTES.get(self.dtype, 4)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, each counted once."""
        return math.ceil(math.prod(self.shape) * DTYPE_BYTES.get(self.dtype, 4))

    @property
    def touched_bytes(self) -> int:
        """Bytes of distinct elements: broadcast (stride-0) dimensions count once."""
        return _touched_bytes(self.shape, self.stride, self.itemsize)

    @property
    def is_contiguous(self) -> bool:
        """Whether elements lie densely in row-major order."""
        expected = 1
        for size, step in zip(reversed(self.shape), reversed(self.stride), strict=True):
            if size != 1 and step != expected:
                return False
            expected *= size
        return True

    @property
    def is_dense(self) -> bool:
        """Whether the elements fill their memory without gaps or overlap, in any order."""
        pairs = sorted((st, s) for s, st in zip(self.shape, self.stride, strict=True) if s != 1)
        expected = 1
        for step, size in pairs:
            if step != expected:
                return False
            expected *= size
        return True

    @property
    def is_channels_last(self) -> bool:
        """Whether a 4-D or 5-D tensor has its channel dimension innermost (NHWC, NDHWC)."""
        if len(self.shape) not in (4, 5) or self.is_contiguous:
            return False
        order = (1, *range(len(self.shape) - 1, 1, -1), 0)
        expected = 1
        for dim in order:
            if self.shape[dim] != 1 and self.stride[dim] != expected:
                return False
            expected *= self.shape[dim]
        return True


@lru_cache(maxsize=65536)
def _touched_bytes(shape: tuple[int, ...], stride: tuple[int, ...], itemsize: float) -> int:
    distinct = math.prod(s for s, st in zip(shape, stride, strict=True) if st != 0)
    return math.ceil(distinct * itemsize)


@dataclass(frozen=True, slots=True)
class Op:
    """One operator call of the step, in program order.

    Attributes:
        index: position in `Program.ops`.
        name: "aten::mm"-style name without overload; own composite operators are
            "gpuscope::attention" and the like (see `gpuscope.program.operators`).
        overload: torch's overload name ("default", "Tensor", "int", ...).
        inputs: tensor arguments in schema order, lists flattened.
        outputs: tensor results, flattened.
        args: every non-tensor argument by schema name (numbers, strings, tuples, None; dtypes as
            strings). Arguments left at their default may be absent.
        module: dotted path of the module that called it ("" at top level). A backward operator
            carries the module of the forward operator that it differentiates.
        phase: forward, backward, optimizer, input (host-to-device copies of data) or other.
        autograd: the call recorded an autograd node (dearer on the host).
        module_calls: `nn.Module.__call__`s entered since the operator before (host cost).
        python_calls: calls of Python functions, and of C functions from Python, since the
            operator before (host cost).
        python_instructions: bytecode instructions of the Python functions among them, each taken
            to run once from top to bottom (host cost).
        distributed: functions of `torch.distributed` (DTensor, FSDP2, collectives) are among them
            (host cost).
        autograd_nodes: autograd nodes entered since the operator before (backward; host cost).
        sync: "" or why the host waits for the device here ("item", "blocking_copy", "nonzero",
            "synchronize", ...).
        stream: device stream id, 0 is the default stream.
        group: index into `Program.groups` of the ranks that a collective joins; -1 for anything
            that is not communication.
        peer: global rank that a send goes to or a receive comes from; -1 for anything else.
        waits: indices of earlier operators that this one's stream was told to wait for (events,
            `wait_stream`, `Work.wait`, `wait_tensor`) since the stream's operator before it, beyond
            what memory written and read already orders. Negative: as many operators back from the
            end of the step before (-1 is its last).
        site: "file.py:12" of the user's line that asked for a collective or lets the host wait;
            "" where unknown.
        line: "model.py:12" of the innermost line outside of PyTorch that asked for it; "" where
            unknown, and in the backward pass. Two calls are equal whatever their lines.
        view: makes no device work, only a new view of the same memory.
        recomputed: a forward operator run again during backward (gradient checkpointing).
        repeat: how many equal calls this one stands for (folded repetition); usually 1.
        region: number of the call of a `torch.compile`d function that it belongs to, from 1 on in
            every step, in the backward pass as in the forward pass; 0 is eager code.
        graph: number of the replay of a `torch.cuda.CUDAGraph` that brings it to the device, from 1
            on in every step; 0: the host issues it.
    """

    index: int
    name: str
    overload: str = "default"
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    args: Mapping[str, object] = field(default_factory=dict)
    module: str = ""
    phase: Phase = "forward"
    autograd: bool = False
    module_calls: int = 0
    python_calls: int = 0
    python_instructions: int = 0
    distributed: bool = False
    autograd_nodes: int = 0
    sync: str = ""
    stream: int = 0
    group: int = -1
    peer: int = -1
    waits: tuple[int, ...] = ()
    site: str = ""
    line: str = field(default="", compare=False)
    view: bool = False
    recomputed: bool = False
    repeat: int = 1
    region: int = 0
    graph: int = 0


@dataclass(frozen=True, slots=True)
class Storage:
    """One piece of device memory and its life during the step.

    Attributes:
        id: what `TensorSpec.storage` refers to.
        nbytes: bytes asked for (before the allocator rounds).
        category: what it holds.
        born: index of the op that allocates it; -1 if it is there before the step.
        died: index of the op *before which* it is freed; None if it outlives the step.
        module: dotted module path that owns or made it.
        label: a short description ("weight", "exp_avg", "aten::mm output").
    """

    id: int
    nbytes: int
    category: Category
    born: int
    died: int | None
    module: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class ModuleInfo:
    """One module of the model: path, class name, and parameters it owns itself."""

    path: str
    class_name: str
    parameters: int = 0


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """Ranks that communicate with each other.

    Attributes:
        name: PyTorch's own name of the group, the same on all its ranks.
        label: what it is for, as the mesh's dimension says ("dp", "tp", "pp", "cp", "ep", ...);
            "world" for all ranks, "" where nothing says.
        ranks: global ranks, in the group's order.
    """

    name: str
    label: str
    ranks: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many ranks."""
        return len(self.ranks)


@dataclass(frozen=True, slots=True)
class MeshDimension:
    """One dimension of the mesh of ranks, outermost first: its name ("dp") and its size."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class GraphBreak:
    """A place where `torch.compile` has to leave its graph and go back to Python.

    Attributes:
        site: "file.py:12" of the line; "" where unknown.
        reason: what the compiler cannot do there, in plain words.
        count: how often a step comes there.
    """

    site: str
    reason: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Printed:
    """What a whole script printed while it was captured.

    Attributes:
        text: its last lines, standard output and error as they came.
        device: on whose predicted clock it ran.
    """

    text: str
    device: str


@dataclass(frozen=True, slots=True)
class Program:
    """The ordered operators of one steady step, with the memory they hold.

    Attributes:
        name: what the user calls it.
        ops: operators in the order the host issues them.
        storages: device memory by lifetime. Those with born == -1 are resident before the step.
        modules: the module tree, root first.
        parameters: number of model parameters (elements).
        assumptions: what had to be assumed ("routing is uniform over 8 experts", ...), each a
            plain sentence for the user.
        unsupported: operators that have no capture or cost support, by name.
        task: train, prefill, decode, inference, or "" if unknown.
        samples: sequences or images a step works on, where known.
        tokens: tokens a step works on, where known.
        compiled: how `torch.compile` was asked for: "" (eager), "default", "reduce-overhead", ...;
            `WHOLE_STEP` where the device runs nothing else.
        dtype: main compute dtype, where one stands out.
        settings: switches that choose kernels: "tf32_matmul", "tf32_cudnn", "cudnn_benchmark",
            "reduced_precision_bf16"; "step_graph" where one CUDA graph replays the whole step;
            "attention_lengths_anew" where attention had shapes that it had in no step before.
        first_step_extra_bytes: memory that only the very first step allocates.
        build_peak_bytes: the most that was held while the model was made, in whole segments: a
            float32 one that is turned to bfloat16. The allocator keeps it.
        capture_s: seconds the capture took.
        rank: which rank of the job this is.
        world_size: ranks of the job; 1 without `torch.distributed`.
        groups: the process groups that this rank's collectives use.
        mesh: the largest device mesh that the code made, () without one.
        graph_breaks: where compiled code goes back to Python, () where nothing is compiled.
        printed: what a script that is its own step printed; None for others.
        engine: what runs it in PyTorch's place, see `gpuscope.program.onnx.engines`, or `XLA`;
            "": PyTorch.
        files: paths of the files that its operators' lines name, by their last part; those of
            which two share it are left out.
    """

    name: str
    ops: tuple[Op, ...]
    storages: tuple[Storage, ...] = ()
    modules: tuple[ModuleInfo, ...] = ()
    parameters: int = 0
    assumptions: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    task: str = ""
    samples: int | None = None
    tokens: int | None = None
    compiled: str = ""
    dtype: str = ""
    settings: Mapping[str, bool] = field(default_factory=dict)
    first_step_extra_bytes: int = 0
    build_peak_bytes: int = 0
    capture_s: float = 0.0
    rank: int = 0
    world_size: int = 1
    groups: tuple[ProcessGroup, ...] = ()
    mesh: tuple[MeshDimension, ...] = ()
    graph_breaks: tuple[GraphBreak, ...] = ()
    printed: Printed | None = None
    engine: str = ""
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def on_host_alone(self) -> bool:
        """Whether no operator touches the device."""
        return not any(s.device == "device" for op in self.ops for s in (*op.inputs, *op.outputs))

    def replays(self, op: Op) -> bool:
        """Whether a graph that holds PyTorch's own kernels brings an operator to the device."""
        whole = self.compiled == "cudagraphs" and op.phase in ("forward", "backward")
        return self.engine != XLA and (op.graph > 0 or whole)

    def __repr__(self) -> str:
        ops, held = counted(len(self.ops), "operator"), counted(self.parameters, "parameter")
        rank = f"rank {self.rank} of {self.world_size}" if self.world_size > 1 else None
        return short_repr(self, self.name, self.task, ops, held, rank)
