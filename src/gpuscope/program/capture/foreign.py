"""Places in torch and transformers that take another path because tensors are fakes."""

from __future__ import annotations

import inspect
import math
import sys
from itertools import count
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_map

from gpuscope.document.text import Text
from gpuscope.errors import CaptureError
from gpuscope.program.capture import checkpoints
from gpuscope.program.capture.conversions import TYPE_NAMES
from gpuscope.program.capture.fakes import accelerator, on_device, with_index
from gpuscope.program.capture.patches import Patches, by_thread
from gpuscope.program.script.runner import when_imported


def install(patch: Patches, recorder: Any) -> None:
    """Make them take the path of a real run."""
    _foreach(patch)
    _grouping(patch)
    _module_conversion(patch)
    transformers_as_run(patch, recorder)
    _scripting(patch)
    _one_device(patch)
    _control_flow(patch)
    # Weights are read one after the other: fakes are of the thread that made their mode.
    patch.environment({"HF_DEACTIVATE_ASYNC_LOAD": "1"})
    _sharing(patch)
    _exchange(patch)
    _full_history(patch, recorder)
    checkpoints.install(patch, recorder)
    _profiling(patch)
    _masks(patch, recorder)
    patch.set(torch.backends.cudnn, "is_acceptable", _no)  # the RNN's own question about cuDNN


def _foreach(patch: Patches) -> None:
    """Optimizers use their foreach path for exact types only; fakes are a subclass."""
    from torch.utils import _foreach_utils

    for module in (_foreach_utils, sys.modules.get("torch.optim.optimizer")):
        types = getattr(module, "_foreach_supported_types", None)
        if types is not None and FakeTensor not in types:
            patch.everywhere(module, "_foreach_supported_types", [*types, FakeTensor])


class _TypeOfDevice(type):
    """`torch.cuda.FloatTensor`: makes tensors, and is asked whether one is such."""

    dtype: torch.dtype

    def __call__(cls, *given: Any) -> torch.Tensor:
        place = accelerator()
        if len(given) == 1 and isinstance(given[0], torch.Tensor):
            return given[0].to(place, cls.dtype)
        if len(given) == 1 and not isinstance(given[0], (int, torch.Size)):
            return torch.tensor(given[0], dtype=cls.dtype, device=place)
        return torch.empty(*given, dtype=cls.dtype, device=place)

    def __instancecheck__(cls, found: object) -> bool:
        return on_device(found) and getattr(found, "dtype", None) is cls.dtype


def _older_names(patch: Patches) -> None:
    for name, dtype in TYPE_NAMES.items():
        made = _TypeOfDevice(name, (), {"__module__": "torch.cuda", "dtype": dtype})
        patch.set(torch.cuda, name, made)


def _control_flow(patch: Patches) -> None:
    """`torch.cond` is a branch that the host takes, with gradients, too."""

    def cond(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
        return true_fn(*operands) if bool(pred) else false_fn(*operands)

    patch.set(torch, "cond", cond)


def _one_device(patch: Patches) -> None:
    """What older code says of devices: one replica of `DataParallel`, `torch.cuda.FloatTensor`."""
    _older_names(patch)

    def scatter(self: Any, inputs: Any, kwargs: Any, device_ids: Any) -> Any:
        def moved(value: Any) -> Any:
            return value.to(accelerator()) if isinstance(value, torch.Tensor) else value

        return (tree_map(moved, inputs),), (tree_map(moved, kwargs or {}),)

    def default_type(kind: Any) -> None:
        name = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__name__}"
        torch.set_default_device("cuda" if ".cuda." in name else None)
        torch.set_default_dtype(TYPE_NAMES[name.rpartition(".")[2]])

    patch.set(torch.nn.DataParallel, "scatter", scatter)
    patch.set(torch, "set_default_tensor_type", default_type)


def _masks(patch: Patches, recorder: Any) -> None:
    """A mask of flags keeps its values where encoder layers turn it into numbers to add."""
    functional = torch.nn.functional
    original = functional._canonical_mask

    def hidden(flags: torch.Tensor) -> torch.Tensor:
        return torch.zeros(flags.shape).masked_fill_(flags, -math.inf)

    def canonical(mask: Any, *args: Any, **kwargs: Any) -> Any:
        made = original(mask, *args, **kwargs)
        if made is not None and made is not mask and mask.dtype is torch.bool:
            recorder.host_values.translate(mask, made, hidden)
        return made

    patch.set(functional, "_canonical_mask", canonical)


def _sharing(patch: Patches) -> None:
    """Shared memory: one process holds it all."""
    is_shared = torch.Tensor.is_shared

    def share(self: torch.Tensor) -> torch.Tensor:
        vars(self)[_SHARED] = True
        return self

    def shared(self: torch.Tensor) -> bool:
        if not isinstance(self, FakeTensor):
            return bool(is_shared(self))
        return on_device(self) or _SHARED in vars(self)

    patch.set(torch.Tensor, "share_memory_", share)
    patch.set(torch.Tensor, "is_shared", shared)


_SHARED = "_gpuscope_shared"


def _exchange(patch: Patches) -> None:
    """DLPack: PyTorch itself gets another view; what else asks would read memory that is none."""
    from torch.utils import dlpack

    from_dlpack = dlpack.from_dlpack

    def view(given: Any, **kwargs: Any) -> torch.Tensor:
        return given.detach() if isinstance(given, FakeTensor) else from_dlpack(given, **kwargs)

    def capsule(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        raise CaptureError(
            Text("A tensor is handed to another library through DLPack."),
            Text("That library would read its memory, and without a device there is none."),
            Text(
                "Put what the library does into a torch.library.custom_op with a "
                "register_fake, or leave it out while predicting."
            ),
        )

    for owner in (torch, dlpack):
        patch.set(owner, "from_dlpack", view)
        patch.set(owner, "to_dlpack", lambda tensor: tensor, only_if_present=True)  # for `view`
    patch.set(torch.Tensor, "__dlpack__", capsule)


def _grouping(patch: Patches) -> None:
    """Optimizers and clipping group tensors in C++, which takes every fake for a CPU tensor."""
    group = torch._C._group_tensors_by_device_and_dtype

    def by_device(tensorlists: Any, with_indices: bool = False) -> Any:
        groups: dict[Any, Any] = {}
        for (device, dtype), found in group(tensorlists, with_indices).items():
            first = next((t for t in found[0][0] if t is not None), None)
            groups[(device if first is None else first.device, dtype)] = found
        return groups

    patch.set(torch._C, "_group_tensors_by_device_and_dtype", by_device)


def _module_conversion(patch: Patches) -> None:
    """`Module.to` swaps fakes, which they refuse: convert in place, as with real tensors."""
    rebuilt: dict[int, tuple[Any, Any]] = {}

    def convert(tensor: Any, fn: Any) -> Any:
        with torch.no_grad():
            applied = fn(tensor)
        fakes = isinstance(tensor, FakeTensor) and isinstance(applied, FakeTensor)
        if fakes and (_on_meta(tensor) == _on_meta(applied)):
            tensor.data = applied
            return tensor
        if id(tensor) in rebuilt:  # a tied weight keeps its tie
            return rebuilt[id(tensor)][1]
        made = torch.nn.Parameter(applied, tensor.requires_grad)
        rebuilt[id(tensor)] = (tensor, made)
        return made

    def replace(owner: Any, key: str, old: Any, new: Any) -> None:
        if isinstance(old, FakeTensor):
            owner[key] = new
        else:  # of a model made before the capture, which gets it back
            patch.set_item(owner, key, new)

    def apply(self: torch.nn.Module, fn: Any, recurse: bool = True) -> torch.nn.Module:
        if recurse:
            for child in self.children():
                child._apply(fn)
        for key, parameter in self._parameters.items():
            if parameter is None:
                continue
            grad = parameter.grad
            made = convert(parameter, fn)
            replace(self._parameters, key, parameter, made)
            if grad is not None:
                with torch.no_grad():
                    made.grad = fn(grad)
        for key, buffer in self._buffers.items():
            if buffer is not None and is_lazy(buffer):
                convert(buffer, fn)
            elif buffer is not None:
                replace(self._buffers, key, buffer, fn(buffer))
        return self

    parse = torch._C._nn._parse_to

    def parse_to(*args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], int):
            args = (with_index(args[0]), *args[1:])
        return parse(*args, **kwargs)

    patch.set(torch.nn.Module, "_apply", apply)
    patch.set(torch._C._nn, "_parse_to", parse_to)


def _scripting(patch: Patches) -> None:
    """What cannot be scripted or traced because it calls a replaced function stays as it is."""

    def as_is(compile_: Any) -> Any:
        def compiled(obj: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return compile_(obj, *args, **kwargs)
            except Exception:  # the compiler has many
                return obj

        return compiled

    for name in ("script", "trace"):
        patch.set(torch.jit, name, as_is(getattr(torch.jit, name)))


class _NoEvents(list[Any]):
    """What a profiler has recorded: nothing."""

    def table(self, *args: Any, **kwargs: Any) -> str:
        """An empty table."""
        return ""


def _full_history(patch: Patches, recorder: Any) -> None:
    """L-BFGS keeps steps until its history is full, and goes through it in each iteration: the
    step that is recorded is one of those after. Each of its losses is less than the one before."""
    step = torch.optim.LBFGS.step

    def filled(self: torch.optim.LBFGS, closure: Any) -> Any:
        asked = count(1)

        def closer() -> Any:
            loss = closure()
            if isinstance(loss, FakeTensor):  # where it stays as it was, the step is over
                recorder.values.fill(recorder._storage_id(loss), 1.0 / next(asked))
            return loss

        result = step(self, closer)
        kept, size = self.state[self._params[0]], self.param_groups[0]["history_size"]
        missing = size - len(kept.get("old_dirs") or ())
        if recorder.recording or kept.get("old_dirs") is None or missing <= 0:
            return result
        for name, like in (("old_dirs", kept["d"]), ("old_stps", kept["d"]), ("ro", kept["d"][0])):
            kept[name] += [torch.empty_like(like) for _ in range(missing)]
        recorder.values.assume(Text("L-BFGS's history is taken as full, as after many steps."))
        return result

    patch.set(torch.optim.LBFGS, "step", filled)


def _profiling(patch: Patches) -> None:
    """PyTorch's profiler, where the user's code has it on, finds nothing to record."""
    kineto: Any = torch.profiler.profiler._KinetoProfile
    for name in (
        "prepare_trace",
        "start_trace",
        "stop_trace",
        "export_chrome_trace",
        "export_stacks",
        "export_memory_timeline",
    ):
        patch.set(kineto, name, _nothing, only_if_present=True)
    for name in ("key_averages", "events"):
        patch.set(kineto, name, lambda *args, **kwargs: _NoEvents())


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


def _on_meta(tensor: FakeTensor) -> bool:
    return tensor.fake_device.type == "meta"


def _no(*args: Any, **kwargs: Any) -> bool:
    return False


def transformers_as_run(patch: Patches, recorder: Any) -> None:
    """transformers takes fake tensors for a trace, and then builds 4-D masks for attention.

    A run without torch.compile is none. With it, it is one: the masks are really built.
    To be called again when the user's code may have imported more of it.
    """
    names = ("is_tracing", "is_fake_tensor", "is_torchdynamo_compiling", "is_jit_tracing")
    tracing = recorder.__dict__.setdefault(
        "is_traced", lambda *args, **kwargs: bool(recorder.compiled)
    )
    answers: dict[Any, Any] = {}
    for module_name, module in list(sys.modules.items()):
        if not module_name.startswith("transformers") or module is None:
            continue
        for name in names:
            asked = vars(module).get(name)
            if callable(asked) and getattr(asked, "__wrapped__", None) is not tracing:
                answer = answers.get(asked)  # hundreds of modules have the same functions by name
                if answer is None:
                    answer = answers[asked] = by_thread(tracing, asked)
                patch.everywhere(module, name, answer)
    _beams_to_the_limit(patch, recorder)
    _speech_without_marks(patch, recorder)


def when_weights_are_read(patch: Patches) -> None:
    """Weights are read and saved without a device, by whatever library is imported for that."""

    def reading() -> None:
        from gpuscope.program.capture import weight_files

        weight_files.install(patch)

    def saving() -> None:
        from gpuscope.program.capture import weight_files

        weight_files.install_saving(patch)

    def transformers() -> None:
        modeling = sys.modules["transformers.modeling_utils"]
        # It asks the driver how much memory is free.
        patch.set(modeling, "caching_allocator_warmup", _nothing, only_if_present=True)
        _numbered_devices(patch, modeling)

    patch.on_undo(when_imported("safetensors", reading))
    patch.on_undo(when_imported("safetensors.torch", saving))
    patch.on_undo(when_imported("transformers.modeling_utils", transformers))


def _numbered_devices(patch: Patches, modeling: Any) -> None:
    """`device_map="auto"` puts modules on device 0, a number that means none without a driver."""
    original = getattr(modeling, "_get_device_map", None)
    if original is None:
        return

    def device_map(*args: Any, **kwargs: Any) -> Any:
        found = original(*args, **kwargs)
        if not isinstance(found, dict):
            return found
        return {k: with_index(v) if isinstance(v, int) else v for k, v in found.items()}

    patch.set(modeling, "_get_device_map", device_map)


def _speech_without_marks(patch: Patches, recorder: Any) -> None:
    """Whisper's text has no marks of time: its loop then goes on to the next whole window."""
    module = sys.modules.get("transformers.models.whisper.generation_whisper")
    mixin = getattr(module, "WhisperGenerationMixin", None)
    original = getattr(mixin, "_retrieve_segment", None)
    if original is None or getattr(original, "without_marks", False):
        return

    def retrieve(*args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(original).bind(*args, **kwargs).arguments
        tokens = given["seek_sequence"]
        recorder.values.assume(
            Text("Whisper's text is taken without marks of time: a window is a segment.")
        )
        given["seek_sequence"] = torch.zeros(tokens.shape, dtype=tokens.dtype, device=tokens.device)
        return original(**given)

    retrieve.without_marks = True  # type: ignore[attr-defined]
    patch.set(mixin, "_retrieve_segment", staticmethod(retrieve))


def _beams_to_the_limit(patch: Patches, recorder: Any) -> None:
    """A beam search goes on to its limit of length: that its beams could not improve is unknown.

    Its other ends are `any()` and `all()` of scores, which are taken as checks elsewhere.
    """
    utils = sys.modules.get("transformers.generation.utils")
    mixin = getattr(utils, "GenerationMixin", None)
    original = getattr(mixin, "_beam_search_has_unfinished_sequences", None)
    if original is None or getattr(original, "to_the_limit", False):
        return
    static = isinstance(vars(mixin).get(original.__name__), staticmethod)

    def unfinished(*args: Any, **kwargs: Any) -> torch.Tensor:
        going = original(*args, **kwargs)
        given = inspect.signature(original).bind(*args, **kwargs).arguments
        hits = given.get("next_token_hits_stopping_criteria")
        ended = None if hits is None else recorder.host_values.told(hits.all(), "item")
        return torch.tensor(not ended, device=going.device)

    unfinished.to_the_limit = True  # type: ignore[attr-defined]
    patch.set(mixin, original.__name__, staticmethod(unfinished) if static else unfinished)
