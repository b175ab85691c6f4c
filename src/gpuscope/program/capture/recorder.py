"""The dispatch mode that writes down every operator of a step."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import (
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.utils._python_dispatch import TorchDispatchMode

from gpuscope.document.text import Text
from gpuscope.errors import CaptureError
from gpuscope.program.capture import (
    accumulating,
    composites,
    dynamic,
    named_kernels,
    taken_apart,
    triton_kernels,
)
from gpuscope.program.capture.calls import (
    COPIES,
    Facts,
    facts_of,
    flat,
    plain_arguments,
    sync_of,
    wants_grad,
)
from gpuscope.program.capture.conversions import COMPRESSED, Departures, sparse_parts
from gpuscope.program.capture.distributed import collectives, fully_sharded
from gpuscope.program.capture.fakes import (
    PRIM_DEVICE,
    accelerator,
    answer_device,
    on_device,
    without_dynamo,
)
from gpuscope.program.capture.helpers import Helpers
from gpuscope.program.capture.host_values import HostValues
from gpuscope.program.capture.loss_results import keep_unreduced
from gpuscope.program.capture.operators import REPLACED_IN_INFERENCE
from gpuscope.program.capture.replay import Replay
from gpuscope.program.capture.values import Values
from gpuscope.program.capture.writer import StepWriter
from gpuscope.program.types import TensorSpec


class Recorder(StepWriter, TorchDispatchMode):
    """Records operators while `recording`; before that it only watches memory.

    Args:
        fake: the fake mode below this one.
        strict: refuse unsupported operators instead of estimating them.
        generator: what host tensors draw their random numbers from.
    """

    supports_higher_order_operators = True

    def __init__(
        self,
        fake: FakeTensorMode,
        *,
        strict: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        TorchDispatchMode.__init__(self)
        StepWriter.__init__(self)
        self.fake = fake
        self.strict = strict
        self.values = Values()
        self.host_values = HostValues(generator)
        self.away = self.over = False
        self.watch: Any = None
        self._turn = threading.RLock()
        self.unsupported: dict[str, None] = {}
        self.replay = Replay(fake)
        self.helpers = Helpers()
        self.restricted: dict[str, str] = {}
        self._facts: dict[Any, Facts] = {}
        self._written: list[weakref.ref[torch.Tensor]] = []  # views, by the latest operator

    def built(self) -> None:
        """The user's build() is over; replaced by what is to be done then."""

    @contextmanager
    def looking_away(self) -> Iterator[None]:
        """Operators inside of the block are none of the step's: somebody asks for shapes."""
        before, self.away = self.away, True
        try:
            yield
        finally:
            self.away = before

    # ---- dispatch -----------------------------------------------------------------------

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is PRIM_DEVICE:
            return answer_device(args)
        if self.away:
            return func(*args, **(kwargs or {}))
        for kind in types:
            if kind is not FakeTensor and _takes_itself_apart(kind):
                return NotImplemented  # and comes back with what it holds
        if self.over:
            return func(*args, **(kwargs or {}))
        # Asking for the abstract class first would run Python, and count as the step's.
        if type(func) is not OpOverload and isinstance(func, HigherOrderOperator):
            from gpuscope.program.capture import higher_order

            return higher_order.run(self, func, args, kwargs or {})
        with self._turn:
            self.python.pause()
            try:
                return self._dispatch(func, args, kwargs or {})
            finally:
                self.python.resume()

    @contextmanager
    def in_thread(self) -> Iterator[None]:
        """What a thread of the captured code does is recorded, too; one operator at a time."""
        if self.over:
            yield
            return
        with ExitStack() as stack:
            with self._turn:
                stack.enter_context(self.fake)
                stack.enter_context(self)
            try:
                yield
            finally:
                with self._turn:
                    stack.close()

    def end(self) -> None:
        """The capture is over; threads of its code that go on are not recorded."""
        self.over = self.fake.over = True  # type: ignore[attr-defined]

    def _dispatch(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args and isinstance(args[0], FakeTensor) and args[0].fake_mode is not self.fake:
            return func(*args, **kwargs)  # somebody asks for shapes only
        if self.watch is not None:
            self.watch.operator()
        facts = self._facts_of(func)
        if self._written and not facts.viewing:  # as autograd repeats views, it locks the node
            from gpuscope.program.capture import strided_gradients

            strided_gradients.settle(self, self._written)
        taken = self._elsewhere(func, facts, args, kwargs)
        if taken is not NotImplemented:
            return taken
        if facts.name in composites.LOOKED_AT:
            composites.look_at(self, facts.name, args)
        args, kwargs = self._keep_on_device(facts, args, kwargs)
        func = self._as_run(func, args, kwargs)
        facts = self._facts_of(func)
        args, kwargs, out = self._made(func, facts, args, kwargs)
        if facts.name == "aten::resize_":
            self.storages.resized(args[0].untyped_storage())
        if isinstance(kwargs.get("out"), torch.Tensor):
            out = kwargs["out"]  # some shape rules make another
        if facts.viewing and torch.is_inference_mode_enabled():
            _like_its_base(args[0], out)
        self._record(facts, args, kwargs, out)
        if facts.in_place and torch.is_grad_enabled() and self._keeps_node(args[0]):
            self._written.append(weakref.ref(args[0]))
        self.host_values.follow(func, facts, args, kwargs, out)
        return out

    def _elsewhere(self, func: Any, facts: Facts, args: Any, kwargs: Any) -> Any:
        """The call by those whose business it is; NotImplemented where it is recorded here."""
        if facts.communicates:
            return collectives.run(self, func, facts, args, kwargs)
        if facts.name in fully_sharded.TAKEN_APART:
            with self:
                return fully_sharded.run(self.storages, facts.name, args, kwargs)
        if facts.skip:
            return self._skipped(func, facts, args, kwargs)
        taken = named_kernels.run(self, func, facts, args, kwargs)
        if taken is not NotImplemented:
            return taken
        if not facts.name.startswith("aten::") and (own := triton_kernels.body(facts.name)):
            with self:
                return own(*args, **kwargs)
        if facts.composite:
            taken = self._decompose(func, facts, args, kwargs)
            if taken is not NotImplemented:
                return taken
        if facts.name == "aten::_local_scalar_dense":
            return self._item(facts, args)
        if facts.name in ("aten::_pin_memory", "aten::pin_memory"):
            return self._pin(func, args)
        taken = taken_apart.run(self, func, facts, args, kwargs)
        if taken is not NotImplemented:
            return taken
        if not facts.name.startswith("aten::") and (body := _body(func)) is not None:
            with self:
                return body(*args, **kwargs)
        if facts.name in dynamic.INDEXING:
            with self:
                return dynamic.index(func, facts.name, args, kwargs)
        return NotImplemented

    def _as_run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The operator that C++ calls where it avoids one in place for tensor subclasses alone."""
        if func is torch.ops.aten.index_put.default and _accumulates_in_backward(args):
            return _INDEX_PUT_IMPL
        if func is _ADD and self._older(args[0]) and accumulating.in_place(args, kwargs):
            return _ADD_INTO
        into = accumulating.INTO_ZEROS.get(func)
        if into is not None and accumulating.into_fresh(self.ops, self.storages.id_of(args[0])):
            return into
        return func

    def _made(self, func: Any, facts: Facts, args: Any, kwargs: Any) -> tuple[Any, Any, Any]:
        """The arguments as fakes, and what comes of them: as before, where the call was met."""
        key = self.replay.key(func, args, kwargs)
        if key is None:
            args, kwargs = self._as_fakes(args), self._as_fakes(kwargs)
        if key is not None and self.replay.known(key):
            out = self.replay.make(key, args)
        else:
            adopted = self.helpers.adopted
            out = self._call(func, facts, args, kwargs)
            if not func._schema.returns:
                out = None
            keep_unreduced(facts.name, args, out)
            usual = adopted == self.helpers.adopted and facts.name not in dynamic.SIZED_BY_DATA
            usual = usual and torch.Tag.inplace_view not in func.tags
            if key is not None and usual:
                self.replay.learn(key, args, out)
        return args, kwargs, out

    def _keeps_node(self, written: Any) -> bool:
        """Whether autograd makes a node for a view written to; compilers write to nothing."""
        traced = getattr(self, "is_traced", None)
        if not isinstance(written, torch.Tensor) or not written._is_view():
            return False
        return traced is None or not traced()

    def _older(self, tensor: Any) -> bool:
        """Whether a tensor was made before the autograd node that runs, if one does."""
        node = torch._C._current_autograd_node()
        if node is None or not isinstance(tensor, torch.Tensor):
            return False
        number = self.storages.id_of(tensor)
        began = self.node_began if node is self._last_node else len(self.ops)
        return number >= 0 and self.storages.lives[number].born < began

    def _facts_of(self, func: Any) -> Facts:
        facts = self._facts.get(func)
        if facts is None:
            facts = self._facts[func] = facts_of(func)
        return facts

    def _as_fakes(self, value: Any) -> Any:
        """Real tensors (made before the capture) as fakes of their own, so that they stay as is."""
        if isinstance(value, torch.Tensor):
            if isinstance(value, FakeTensor):
                return value
            fake = self.fake.from_tensor(value)
            self.host_values.adopt(fake, value)
            return fake
        if isinstance(value, dict):
            return {k: self._as_fakes(v) for k, v in value.items()}
        if type(value) in (list, tuple):
            return type(value)(self._as_fakes(v) for v in value)
        return value

    def _skipped(self, func: Any, facts: Facts, args: Any, kwargs: Any) -> Any:
        key = self.replay.key(func, args, kwargs) if facts.name == "aten::detach" else None
        if key is not None and self.replay.known(key):
            out = self.replay.make(key, args)
        else:
            out = self._call(func, facts, args, kwargs)
            if key is not None:
                self.replay.learn(key, args, out)
        self.host_values.follow(func, facts, args, kwargs, out)
        return out

    def _decompose(self, func: Any, facts: Facts, args: Any, kwargs: Any) -> Any:
        """Composite operators reach a mode whole in inference mode: take them apart above us."""
        name = f"{facts.name}.data" if facts.overload == "data" else facts.name
        replacement = REPLACED_IN_INFERENCE.get(name)
        with self:
            if replacement is not None and any(on_device(t) for t in flat(args[:1])):
                return replacement(*args, **kwargs)
            return func.decompose(*args, **kwargs)

    def _call(self, func: Any, facts: Facts, args: Any, kwargs: Any) -> Any:
        own = dynamic.OWN_SHAPES.get(facts.name)
        if own is not None:
            return own(args, kwargs)
        if facts.name == "aten::_to_sparse" or any(_is_sparse(t) for t in args):
            from gpuscope.program.capture import sparse

            with self.looking_away():
                found = sparse.run(self, func, facts, args, kwargs)
            if found is not NotImplemented:
                return found
        try:
            return func(*args, **kwargs)
        except DynamicOutputShapeException:
            real = self.host_values.compute(func, args, kwargs)
            if real is not None:
                return dynamic.like(real, args[0])
            return dynamic.run(func, facts.name, args, kwargs, self.values, self._storage_id)
        except UnsupportedOperatorException:
            return self._unsupported(func, facts, args, kwargs)
        except NotImplementedError:
            return self._unsupported(func, facts, args, kwargs)
        except RuntimeError as error:
            if not self._adopt_helpers(error, facts, args, kwargs):
                raise
            return func(*args, **kwargs)

    def _unsupported(self, func: Any, facts: Facts, args: Any, kwargs: Any) -> Any:
        if facts.name.startswith("aten::"):
            found = dynamic.tried(func, args, kwargs)
            if found is not None:
                return found
        if "quantized" in facts.name or "quantize_per" in facts.name:
            raise CaptureError(
                Text("Quantized tensors of torch.ao.quantization cannot be captured."),
                Text("PyTorch has kernels for them on CPUs alone, and no shapes without values."),
                Text("Leave quantize_dynamic and convert out: on a GPU, such layers do not run."),
            )
        tensors = [t for t in flat((args, tuple(kwargs.values()))) if isinstance(t, torch.Tensor)]
        if self.strict or not tensors:
            raise CaptureError(
                Text("The operator '{operator}' cannot be captured.", operator=facts.name),
                Text("It has no shape rule (no meta kernel), so its result is not known."),
                _rule_or_not_strict() if self.strict else Text("Leave it out while predicting."),
            )
        self.unsupported.setdefault(facts.name)
        like = tensors[0]
        if facts.name.endswith("_backward"):  # a gradient is like what was differentiated
            named = dict(zip(facts.argument_names, args, strict=False))
            like = next((named[n] for n in ("self", "input") if n in named), like)
        with self.fake:
            made = tuple(torch.empty_like(like) for _ in func._schema.returns)
        return made[0] if len(made) == 1 else made

    def _keep_on_device(self, facts: Facts, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """C++ reads "cpu" as the device of a fake and asks for it again: put that right."""
        device = kwargs.get("device")
        if facts.name == "aten::where" and all(
            not isinstance(t, torch.Tensor) or t.dim() == 0 or on_device(t) for t in args
        ):
            self._adopted(facts, args, kwargs)  # numbers: a fill on the device, and no copy to it
        if facts.name == "aten::_to_copy" and device is not None and on_device(args[0]):
            if torch.device(device).type == "cpu" and not Departures.asked:
                kwargs = dict(kwargs, device=accelerator())
            return args, kwargs
        if facts.name.startswith("aten::_sparse_coo_tensor_with") and any(map(on_device, args)):
            return args, dict(kwargs, device=accelerator())
        if torch._C._current_autograd_node() is None:
            return args, kwargs
        if device is None:
            self._left_on_host(args)
            return args, kwargs
        if torch.device(device).type == "cpu" and (not self.modules.stack):
            tensors = [t for t in args if isinstance(t, torch.Tensor)]
            if not tensors or on_device(tensors[0]):
                kwargs = dict(kwargs, device=accelerator())
        return args, kwargs

    def _left_on_host(self, args: Any) -> None:
        """A number that a gradient's formula made was taken to be on the device: beside a gradient
        in host memory it is there, too."""
        tensors = [t for t in args if isinstance(t, FakeTensor)]
        numbers = [t for t in tensors if not t.dim() and on_device(t)]
        if not numbers or any(t.dim() and on_device(t) for t in tensors):
            return
        if len(numbers) == len(tensors):
            return
        moved = [self._storage_id(t) for t in numbers]
        for tensor, storage in zip(numbers, moved, strict=True):
            tensor.fake_device = torch.device("cpu")
            self.storages.lives[storage].device = False
        self._relabel(moved, "host")

    def _relabel(self, storages: list[int], device: str) -> None:
        """The last operators had these storages elsewhere than it was thought."""
        for at in range(len(self.ops) - 1, max(len(self.ops) - 9, -1), -1):
            op = self.ops[at]
            if any(s.storage in storages for s in (*op.inputs, *op.outputs)):
                self.ops[at] = replace(
                    op,
                    inputs=_moved(op.inputs, storages, device),
                    outputs=_moved(op.outputs, storages, device),
                )

    def _adopt_helpers(self, error: Exception, facts: Facts, args: Any, kwargs: Any) -> bool:
        """Helpers of C++ composites, made on "cpu" (see helpers.py), belong on the device."""
        return "device" in str(error) and self._adopted(facts, args, kwargs)

    def _adopted(self, facts: Facts, args: Any, kwargs: Any) -> bool:
        given = flat((args, tuple(kwargs.values())))
        if not any(on_device(t) for t in given):
            return False
        adopted = self.helpers.adopt(facts.name, given, self._storage_id)
        for storage in adopted:
            self.storages.lives[storage].device = True
        self._relabel(adopted, "device")
        return bool(adopted)

    def _item(self, facts: Facts, args: Any) -> Any:
        tensor = args[0]
        if not isinstance(tensor, FakeTensor):
            return torch.ops.aten._local_scalar_dense.default(tensor)
        value = self.host_values.told(tensor, "item")
        if value is None and tensor.constant is not None:
            value = tensor.constant.item()
        elif value is None:
            value = self.value_of(tensor)
        sync = "item" if on_device(tensor) else ""
        self.append(facts.name, facts.overload, (self.spec(tensor),), (), {}, sync=sync)
        return value

    def _pin(self, func: Any, args: Any) -> Any:
        with self.fake:
            pinned = torch.empty_like(args[0])
        self.host_values.alias(pinned, args[0])
        self._pinned(pinned)
        return pinned

    def _pinned(self, tensor: torch.Tensor) -> None:
        number = self.storages.see(tensor, False, "", "pinned", "input")
        self.storages.lives[number].pinned = True

    def value_of(self, tensor: torch.Tensor) -> Any:
        """The value taken for every element of a tensor that the host reads."""
        if self.watch is not None:
            self.watch.read()
        storage = self._storage_id(tensor)
        if tensor.dtype is torch.bool:
            from gpuscope.program.capture import loops

            if loops.draws_again():
                self.values.assume(Text("What a distribution draws is taken as accepted at once."))
                return True
            wanted = None if self.values.knows(storage) else loops.keeps_going()
            if wanted is not None:
                return self.flag_of_loop(wanted)
        return self.values.scalar(storage, tensor.dtype)

    def shares_of(self, tensor: torch.Tensor) -> list[int] | None:
        """What is taken for a list of counts whose sum is known."""
        if tensor.dim() != 1 or tensor.is_floating_point():
            return None
        return self.values.shares(self._storage_id(tensor), tensor.numel())

    def flag_of_loop(self, wanted: bool) -> bool:
        """A flag that decides whether a `while` loop goes on: it does."""
        self.values.assume(
            Text("Loops that end when data of the device says so go on to their other bound.")
        )
        return wanted

    # ---- writing down -------------------------------------------------------------------

    def _storage_id(self, tensor: torch.Tensor) -> int:
        return self.storages.see(tensor, on_device(tensor), self.modules.current, "", "other")

    def _record(self, facts: Facts, args: Any, kwargs: Any, out: Any) -> None:
        given = (args, tuple(value for name, value in kwargs.items() if name != "out"))
        tensors = [t for t in flat(given) if isinstance(t, torch.Tensor)]
        inputs = [self.spec(t) for t in self._parts(tensors)]
        phase = self._phase(args)
        module, recomputed = self._module(phase)
        label = facts.name
        outs = [t for t in flat(out) if isinstance(t, torch.Tensor)]
        if not outs and "out" in kwargs:
            outs = flat(kwargs["out"])
        sparse = any(t.layout is not torch.strided for t in (*tensors, *outs))
        outs = self._parts(outs)
        if Departures.asked and kwargs.get("non_blocking"):
            self._pinned(outs[0])  # as aten::_to_copy makes it
        elif kwargs.get("pin_memory") and outs and not on_device(outs[0]):
            self._pinned(outs[0])
        if facts.name in COPIES and not module:
            crosses = inputs[-1].device == "host" and on_device(outs[0])
            phase = "input" if crosses else phase
        outputs = [self.spec(t, module, label, phase) for t in outs]
        in_storages = {s.storage for s in inputs}
        for spec in outputs:
            if spec.device == "host" and spec.storage not in in_storages:
                self.helpers.made(spec.storage)
        self._learn(facts, args, inputs, outputs)
        if facts.name == "aten::empty" and not outputs[0].numel:
            return
        arguments = plain_arguments(facts, args, kwargs) if self.recording else {}
        if sparse and any(hasattr(t, COMPRESSED) for t in tensors):
            arguments["compressed"] = True
        view = facts.viewing or (
            not facts.writes and bool(outputs) and all(s.storage in in_storages for s in outputs)
        )
        self.append(
            f"{facts.name}.sparse" if sparse else facts.name,
            facts.overload,
            tuple(inputs),
            tuple(outputs),
            arguments,
            module=module,
            phase=phase,
            recomputed=recomputed,
            view=view,
            autograd=(torch.is_grad_enabled() or facts.name.startswith("gpuscope::"))
            and wants_grad(args),
            sync=sync_of(facts, args, kwargs, inputs, outputs),
        )

    def _parts(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """The tensors that hold memory: of a sparse one its places and its values."""
        if all(t.layout is torch.strided for t in tensors):
            return tensors
        with self.looking_away(), torch.no_grad():
            return [part for t in tensors for part in sparse_parts(t)]

    def _learn(self, facts: Facts, args: Any, inputs: Any, outputs: Any) -> None:
        if facts.name == "aten::_amp_foreach_non_finite_check_and_unscale_":
            return  # a healthy step finds no infinity: found_inf stays 0
        written = [s.storage for s in inputs] if facts.writes and not outputs else []
        for storage in written:
            self.values.forget(storage)
        self.values.learn(
            facts.name, args, [s.storage for s in outputs], [s.storage for s in inputs]
        )


without_dynamo(Recorder)


@cache
def _takes_itself_apart(kind: type) -> bool:
    """Whether tensors of a class hold others, and know what an operator on them is."""
    if hasattr(kind, "__tensor_flatten__"):
        return True
    own: Any = getattr(kind, "__torch_dispatch__", None)
    plain = own is None or own is torch._C._disabled_torch_dispatch_impl
    return not plain and not issubclass(kind, FakeTensor)


@cache
def _body(func: Any) -> Any:
    """The Python of a `torch.library.custom_op` that has no shape rule, which is run instead."""
    known: Any = getattr(sys.modules.get("torch._library.custom_ops"), "OPDEFS", {})
    made = known.get(func._schema.name)
    if made is None or made._abstract_fn is not None:
        return None
    if torch._library.utils.can_generate_trivial_fake_impl(func):
        return None
    return made._backend_fns.get("cuda") or made._init_fn


_INDEX_PUT_IMPL = torch.ops.aten._index_put_impl_.default
_ADD, _ADD_INTO = torch.ops.aten.add.Tensor, torch.ops.aten.add_.Tensor


def _accumulates_in_backward(args: Any) -> bool:
    return (
        len(args) > 3
        and bool(args[3])
        and torch._C._current_autograd_node() is not None
        and not torch.is_grad_enabled()
    )


def _rule_or_not_strict() -> Text:
    return Text(
        "Give it one with torch.library.register_fake, or leave out --strict to "
        "estimate it as a copy of its inputs."
    )


def _is_sparse(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is not torch.strided


def _like_its_base(base: Any, out: Any) -> None:
    """A view made in inference mode still says that it requires grad (`linear` looks at it)."""
    if isinstance(out, torch.Tensor) and base.requires_grad and not out.requires_grad:
        out.requires_grad_(True)


def _moved(
    specs: tuple[TensorSpec, ...], storages: list[int], device: Any
) -> tuple[TensorSpec, ...]:
    return tuple(replace(s, device=device) if s.storage in storages else s for s in specs)
