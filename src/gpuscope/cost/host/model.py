"""What the host spends to issue an operator: Python, dispatch, autograd, launch.

Eager PyTorch is often paced by the CPU. The cost of one call is taken apart as

    mixed * (module_call * (modules entered) + call(operator, mode) + node * (autograd nodes))
    + dispatch + python_call * (Python calls) + python_instruction * (their instructions)

where `call` is the time of the whole call with one launch on an otherwise idle host, measured per
operator (tiny tensors, the device faster than the host), plain or recording autograd. The other
terms are what a program has beside its calls one by one: `mixed` and `dispatch` since every
operator, views too, finds caches and branch predictors filled by others, and the Python between the
operators, by the length of the functions it runs. In forward and backward passes an instruction of
`torch.distributed` costs more than a model's: its code is too much for the caches between two
operators (`measurement/calibrate/host_distributed.py`). A collective's call that does not follow
its like has a `mixed` of its own: the library's code is long, and none of it is cached. In the
backward pass the autograd engine calls the operators without Python in between, and each node costs
its own time, also those that call nothing. Launches after an operator's first cost just the launch,
except in operators that call a library, prepare kernels in a loop, or call other operators
(recurrent layers, gradients of embeddings, sums by index): see `_further_s`.
All constants are `host.*` of the calibration: `host.op.<operator>.<mode>_s` of operators that were
measured one by one, `host.<class>.<mode>_s` of others (`plain`, or recording `autograd`). All are
times `host.scale`: 1 on a host that was benched; on any other the middle of those that were, and
how far they lie apart.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from gpuscope.cost.convolution.shape import gradients_asked
from gpuscope.cost.host.compiled import CompiledHost
from gpuscope.cost.registry import Constants
from gpuscope.cost.types import HostCost
from gpuscope.program.types import XLA, Op, Program

if TYPE_CHECKING:
    from gpuscope.cost.host.engine import EngineHost
    from gpuscope.cost.host.xla import XlaHost

_CLASS_BY_WORD: tuple[tuple[str, str], ...] = (
    ("c10d", "collective"),
    ("_foreach", "foreach"),
    ("_fused_", "foreach"),
    ("_amp_", "foreach"),
    ("attention", "attention"),
    ("convolution", "convolution"),
    ("rnn", "recurrent"),
    ("bmm", "matmul"),
    ("addmm", "matmul"),
    ("mm", "matmul"),
    ("layer_norm", "normalization"),
    ("batch_norm", "normalization"),
    ("group_norm", "normalization"),
    ("rms_norm", "normalization"),
    ("softmax", "softmax"),
    ("embedding", "gather"),
    ("index", "gather"),
    ("gather", "gather"),
    ("scatter", "gather"),
    ("sort", "gather"),
    ("topk", "gather"),
    ("nonzero", "gather"),
    ("sum", "reduction"),
    ("mean", "reduction"),
    ("amax", "reduction"),
    ("norm", "reduction"),
    ("_to_copy", "copy"),
    ("copy_", "copy"),
    ("clone", "copy"),
    ("cat", "copy"),
    ("empty", "factory"),
    ("zeros", "factory"),
    ("ones", "factory"),
    ("full", "factory"),
)

_POINTWISE = frozenset(
    """add sub mul div neg exp log pow sqrt rsqrt sin cos tanh sigmoid silu gelu relu
    threshold_backward gelu_backward silu_backward tanh_backward sigmoid_backward native_dropout
    native_dropout_backward where masked_fill eq ne gt lt ge le bitwise_and bitwise_or
    bitwise_not logical_and logical_or logical_not clamp fill zero reciprocal abs addcmul addcdiv
    lerp maximum minimum erf isnan isinf fill_ zero_ triu tril""".split()
)


@lru_cache(maxsize=4096)
def host_class(name: str) -> str:
    """Class of an operator by its name ("aten::mm" -> "matmul")."""
    base = name.rpartition("::")[2]
    if base in _POINTWISE or base.rstrip("_") in _POINTWISE:
        return "pointwise"
    for word, kind in _CLASS_BY_WORD:
        if word in base or word in name:
            return kind
    return "other"


class HostModel:
    """Host cost of the operators of one program.

    Args:
        constants: calibrated `host.*` constants.
        program: for what holds over the whole program (autograd nodes, compiled or not).
        single_calls: leave out what only a program has (cold caches, Python between operators,
            entering a phase), and whose host it is, for fitting just that.
    """

    def __init__(
        self, constants: Constants, program: Program, *, single_calls: bool = False
    ) -> None:
        get = constants.value
        self.factor = 1.0 if single_calls else get("host.mixed_factor")
        amid = "host.collective.mixed_factor"
        self.collective_factor = 1.0 if single_calls else get(amid) / self.factor
        self.python_s = 0.0 if single_calls else get("host.python_call_s")
        self.instruction_s = 0.0 if single_calls else get("host.python_instruction_s")
        names = ("host.distributed_instruction_s", "host.python_instruction_s")
        self.distributed_s = 0.0 if single_calls else get(*names)
        self.dispatch_s = 0.0 if single_calls else get("host.dispatch_s")
        self._starts = {} if single_calls else self._phase_starts(program, get)
        self._get = get
        self.scale = 1.0 if single_calls else get("host.scale")
        self.launch_s = get("host.launch_s")
        self.module_s = get("host.module_call_s")
        self.node_s = get("host.backward_node_s")
        self.view_s = (get("host.view.plain_s"), get("host.view.autograd_s"))
        self.item_s = get("host.item_s")
        self.item_host_s = get("host.item_host_s")
        self.synchronize_s = get("host.synchronize_s")
        self._further = self._further_s(constants)
        self.compiled = CompiledHost(constants, program, self._parameters(program))
        per_parameter = get("host.adamw_foreach.per_parameter_s")
        # AdamW's foreach step makes 12 list operators and reads two CPU scalars a parameter.
        self.foreach_tensor_s = (per_parameter - 2 * self.item_host_s) / 12
        self.fused_tensor_s = get("host.adamw_fused.per_parameter_s")
        self._hidden_nodes_s = self._hidden_nodes(program) * self.node_s
        self._start_s = self._parameters(program) * get("host.zero_grad.per_parameter_s")
        self._known: dict[tuple[str, int], float] = {}
        self._lone = _lone_views(program)
        self._cold = _cold_collectives(program)
        self._engine: EngineHost | XlaHost | None = None
        if program.engine == XLA:
            from gpuscope.cost.host.xla import XlaHost

            self._engine = XlaHost(self.launch_s * self.scale, self.scale)
        elif program.engine:
            from gpuscope.cost.host.engine import EngineHost

            self._engine = EngineHost(program.engine, self.launch_s * self.scale)

    def _further_s(self, constants: Constants) -> dict[str, float]:
        """Seconds of a launch inside operators that make many, by class.

        A kernel launched from C++ costs what an elementwise call does without Python, dispatch and
        memory, which an `empty` pays for alone; a library's product likewise (it chooses its kernel
        at every call). A recurrent layer alternates the two; the gradient of an embedding sorts,
        which alternates kernels and clearing memory (a bare launch); `index_put` that accumulates
        calls an operator for each step of its index arithmetic (52.9 and 64.8 us with one and two
        indices on a host 1.4 times slower than the calibrated one, 41 and 57 by this;
        `validation/recordings/h200/micro/data_sized.json`). `host.further.*` overrides.
        """
        get = constants.value
        empty_s = get("host.op.empty.plain_s")
        kernel_s = get("host.op.add.plain_s") - empty_s
        product_s = get("host.op.mm.plain_s") - empty_s
        if constants.known("host.further.kernel_s"):
            kernel_s = get("host.further.kernel_s")
        if constants.known("host.further.product_s"):
            product_s = get("host.further.product_s")
        kernel_s = max(kernel_s, self.launch_s)
        product_s = max(product_s, kernel_s)
        return {
            "recurrent": (product_s + kernel_s) / 2,
            "gather": (kernel_s + self.launch_s) / 2,
            _SUMS: kernel_s,
        }

    @staticmethod
    def _phase_starts(program: Program, get: Callable[..., float]) -> dict[int, float]:
        """Index of the first operator of each phase, and what entering the phase costs."""
        starts: dict[int, float] = {}
        seen: set[str] = set()
        for op in program.ops:
            if op.phase not in seen:
                seen.add(op.phase)
                starts[op.index] = get(f"host.start.{op.phase}_s", "host.start.other_s")
        return starts

    @staticmethod
    def _parameters(program: Program) -> int:
        return sum(s.category == "gradient" and s.born >= 0 for s in program.storages)

    def _hidden_nodes(self, program: Program) -> float:
        """Autograd nodes that call no operator (accumulation, sums of gradients that pass
        through), a backward operator: the forward pass makes one node an operator, and every
        parameter has one that accumulates its gradient."""
        backward = [op for op in program.ops if op.phase == "backward" and not op.recomputed]
        if not backward:
            return 0.0
        made = sum(op.autograd for op in program.ops if op.phase != "backward" or op.recomputed)
        made += self._parameters(program)
        seen = sum(op.autograd_nodes for op in backward)
        return max(0, made - seen) / len(backward)

    def cost(self, op: Op, launches: int) -> HostCost:
        """Host time of one operator that makes `launches` launches."""
        if op.graph:
            return HostCost(0.0, 0.0, 0.0)  # one launch brings them all: `timeline.schedule`
        if self._engine is not None:
            return self._engine.cost(op, launches)
        if self.compiled.covers(op):
            return self.compiled.cost(op, launches)
        before = max(self._call_s(op) - self.launch_s * min(launches, 1), 0.2e-6)
        if op.index in self._cold:
            before *= self.collective_factor
        before += op.module_calls * self.module_s
        if op.phase == "backward" and not op.recomputed:
            before += op.autograd_nodes * self.node_s + self._hidden_nodes_s
        if op.index == 0:
            before += self._start_s
        before *= self.factor
        before += self.dispatch_s + self._starts.get(op.index, 0.0)
        apart = op.distributed and op.phase != "optimizer"
        instruction_s = self.distributed_s if apart else self.instruction_s
        before += op.python_calls * self.python_s + op.python_instructions * instruction_s
        after = self.item_s / 4 if op.sync else 0.0
        launch_s = self.launch_s
        before += self._inside_s(op, launches) * self.factor
        if op.args.get("accumulate") and "index_put" in op.name:
            launch_s = self._further[_SUMS]
        elif launches >= _MANY:
            launch_s = self._further.get(host_class(op.name), launch_s)
        return HostCost(before * self.scale, launch_s * self.scale, after * self.scale, op.sync)

    def _inside_s(self, op: Op, launches: int) -> float:
        """What a convolution or a group norm does beside its first call of a library.

        cuDNN is called once for the gradient of the input and once for that of the weight, and what
        it launches beside its product (folding, layouts) it launches as an elementwise kernel is; a
        bias is added, or its gradient summed, by an operator of its own
        (aten/src/ATen/native/Convolution.cpp). A group norm's statistics, factors and sums are
        kernels with temporaries of their own (aten/src/ATen/native/cuda/group_norm_kernel.cu).
        Measured one by one: `validation/recordings/h200/host_pace`.
        """
        if launches < 2 or op.name not in _LIBRARIES:
            return 0.0
        seconds, others = 0.0, launches - 1
        if op.name == "aten::convolution" and len(op.inputs) > 2:
            seconds = self._base_s("aten::add_", 0) - self.launch_s + self.view_s[0]
            others -= 1
        elif op.name == "aten::convolution_backward":
            of_input, of_weight, of_bias = gradients_asked(op)
            if of_input and of_weight:
                seconds += self._get(*_CONVOLUTION) - self.launch_s
                others -= 1
            if of_bias:
                seconds += self._base_s("aten::sum", 0) - self.launch_s
                others -= 1
        return seconds + max(others, 0) * (self._further[_SUMS] - self.launch_s)

    def _call_s(self, op: Op) -> float:
        """One call with its first launch, no autograd node of the backward pass counted."""
        mode = int(op.autograd and (op.phase != "backward" or op.recomputed))
        if op.view and op.index not in self._lone:
            return self.view_s[mode]
        if op.name == "aten::_local_scalar_dense":
            return self.item_s / 2 if op.sync else self.item_host_s
        if op.name == "gpuscope::synchronize":
            return self.synchronize_s
        key = (op.name, mode)
        base = self._known.get(key)
        if base is None:
            base = self._known[key] = self._base_s(op.name, mode, op.view)
        if host_class(op.name) == "foreach":
            tensors = op.args.get("self")
            count = len(tensors) if isinstance(tensors, tuple) else len(op.inputs)
            each = self.fused_tensor_s if "fused" in op.name else self.foreach_tensor_s
            base += each * count
        return base

    def _base_s(self, name: str, mode: int, view: bool = False) -> float:
        base = name.rpartition("::")[2]
        kind = "view" if view else host_class(name)
        modes = (_MODES[mode], "plain") if kind == "collective" else (_MODES[mode],)
        known = (f"host.op.{op}.{m}_s" for op in (base, base.rstrip("_")) for m in modes)
        return self._get(*known, f"host.{kind}.{_MODES[mode]}_s")


_MODES = ("plain", "autograd")

_CONVOLUTION = ("host.op.convolution.plain_s", "host.convolution.plain_s")

_LIBRARIES = frozenset(
    {
        "aten::convolution",
        "aten::convolution_backward",
        "aten::native_group_norm",
        "aten::native_group_norm_backward",
    }
)
"""Operators that `HostModel._inside_s` is of."""

_SUMS = "sums by index"

_MANY = 8
"""Launches of one operator from which they are a library's loop, not what one call measured."""


def _lone_views(program: Program) -> frozenset[int]:
    """Indices of views that Python asked for by themselves.

    They pay for the way from Python to C++ and back, as any call does; those that an operator makes
    on its way (a linear layer's transposed weight) do not. A call from Python is seen by the Python
    work before it, and has one operator if there is Python work again before the next one.
    """
    ops = program.ops
    return frozenset(
        op.index
        for op, after in zip(ops, (*ops[1:], None)[: len(ops)], strict=True)
        if op.view and op.python_calls and (after is None or after.python_calls)
    )


def _cold_collectives(program: Program) -> frozenset[int]:
    """Indices of calls of collectives that do not follow their like, views left out."""
    found, before = set(), ""
    for op in program.ops:
        if op.view:
            continue
        if op.name != before and host_class(op.name) == "collective":
            found.add(op.index)
        before = op.name
    return frozenset(found)
