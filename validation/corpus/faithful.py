"""Whether a captured step calls the operators of a real one, run on the CPU.

The real step runs under a plain `TorchDispatchMode`. CUDA and the CPU choose other operators in a
few places; they are listed once, in `SAME`, `NO_WORK` and `as_the_device`, and nothing else is
forgiven: names, shapes and dtypes of the tensors that go in, and how often.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

Calls = Counter[str]

NO_WORK = frozenset(
    "detach alias lift_fresh lift empty empty_like empty_strided new_empty new_empty_strided"
    " _unsafe_view _reshape_alias resize_ set_ is_same_size is_pinned _local_scalar_dense"
    " record_stream transpose_ unsqueeze_ squeeze_ t_ unsafe_split unsafe_chunk".split()
)
"""Bookkeeping without device work; `_local_scalar_dense` reads, which on the CPU is no copy."""

SAME = {
    "add_": "add",  # a mode that watches makes the engine add gradients anew, a GPU does not
    "cudnn_batch_norm": "native_batch_norm",
    "cudnn_batch_norm_backward": "native_batch_norm_backward",
    "_native_batch_norm_legit": "native_batch_norm",
    "_native_batch_norm_legit_no_training": "native_batch_norm",
    "miopen_batch_norm": "native_batch_norm",
    "mkldnn_convolution": "convolution",
    "_index_put_impl_": "index_put",
    "index_put_": "index_put",
    "masked_fill_": "index_put",
}
"""What the CPU calls otherwise than CUDA, the work being the same."""

WHOLE = ("attention", "attention_backward", "rnn", "rnn_backward", "rms_norm", "rms_norm_backward")
"""One operator on the device, many on the CPU: only how often it is called is held against it."""


COUNTING = ("histc", "cumsum")
"""Counted in float32 on the CPU, in whole numbers on the device: transformers asks which it is."""


BUFFERED = ("log_sigmoid_backward", "_embedding_bag_backward")
"""What the forward pass kept for these, last of their tensors, has another size on the CPU."""


def told(name: str, tensors: list[tuple[str, tuple[int, ...]]]) -> str:
    """One call in words: name, and the dtypes and shapes that went in."""
    short = name.rpartition("::")[2]
    short = SAME.get(short, short)
    if short in WHOLE:
        return short
    if short in BUFFERED:
        tensors = tensors[:-1]
    if short in COUNTING:
        return f"{short}({', '.join(str(list(s)) for _, s in tensors)})"
    return f"{short}({', '.join(f'{d}{list(s)}' for d, s in tensors)})"


def captured_calls(program: Any) -> Calls:
    """What a captured program says that a step calls on the device."""
    calls: Calls = Counter()
    for op in program.ops:
        if op.view or op.name.rpartition("::")[2] in NO_WORK:
            continue
        copies = op.name in ("aten::_to_copy", "aten::copy_")
        if copies and len({s.device for s in (*op.inputs, *op.outputs)}) > 1:
            continue  # between host and device; the CPU has no such copies
        inputs = [(s.dtype, s.shape) for s in op.inputs]
        calls[told(op.name, inputs)] += op.repeat
    return calls


def real_calls(build: Callable[[str], Callable[[], object]]) -> Calls:
    """What a second step calls on the CPU."""
    with as_the_device() as watch:
        step = build("cpu")
        step()
        with watch:
            step()
    return watch.calls


def difference(ours: Calls, real: Calls) -> dict[str, list[str]]:
    """Calls that only one of both has, the most frequent first."""

    def listed(counts: Calls) -> list[str]:
        return [f"{n} x {call}" for call, n in counts.most_common()]

    return {"only captured": listed(ours - real), "only real": listed(real - ours)}


class Watch(TorchDispatchMode):
    """Counts operators that are no views; `hidden` while a whole operator works inside."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Calls = Counter()
        self.hidden = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        namespace, _, rest = func.name().partition("::")
        name = rest.split(".")[0]
        if torch.is_inference_mode_enabled() and not self.hidden:
            with self:  # there composite operators arrive whole
                decomposed = func.decompose(*args, **kwargs)
            if decomposed is not NotImplemented:
                return decomposed
        if name == "_euclidean_dist" and not self.hidden:
            from gpuscope.program.capture.comparisons import distance

            with self:  # what it calls below the dispatcher, on every device
                return distance(*args)
        counted = not (
            self.hidden or namespace in ("prim", "profiler") or name in NO_WORK or func.is_view
        )
        if counted:
            tensors = list(_tensors((args, tuple(kwargs.values()))))
            apart = _APART.get(name)
            self.calls.update(apart(tensors) if apart else [told(name, tensors)])
        return func(*args, **kwargs)

    def note(self, name: str) -> None:
        """Count a whole operator."""
        if self in _active():
            self.calls[name] += 1

    @contextmanager
    def whole(self) -> Iterator[None]:
        """What runs inside is one operator on the device."""
        self.hidden += 1
        try:
            yield
        finally:
            self.hidden -= 1


def _apart(tensors: list[tuple[str, tuple[int, ...]]]) -> list[str]:
    """A grouped product of float32, which CUDA takes apart: one product each of even groups."""
    (kind, left), (_, right), ends = tensors[:3]
    groups = ends[1][0]
    if len(right) == 3:
        left, right = (left[0] // groups, left[1]), right[1:]
    elif len(left) == 3:
        left, right = left[1:], (right[0], right[1] // groups)
    else:
        left, right = (left[0], left[1] // groups), (right[0] // groups, right[1])
    return [told("mm", [(kind, left), (kind, right)])] * groups


def _safe_softmax(tensors: list[tuple[str, tuple[int, ...]]]) -> list[str]:
    """What it calls below the dispatcher, on every device
    (aten/src/ATen/native/transformers/attention.cpp)."""
    kind, shape = tensors[0]
    rows = "bool", (*shape[:-1], 1)
    return [
        told("_softmax", tensors),
        told("isneginf", tensors),
        told("all", [("bool", shape)]),
        told("new_zeros", tensors),
        told("where", [rows, (kind, ()), (kind, shape)]),
    ]


def _product(tensors: list[tuple[str, tuple[int, ...]]]) -> list[str]:
    """`matmul` of matrices, which arrives whole below autograd."""
    return [told("mm" if all(len(shape) == 2 for _, shape in tensors) else "matmul", tensors)]


_APART = {"_grouped_mm": _apart, "_safe_softmax": _safe_softmax, "matmul": _product}


def _active() -> list[Any]:
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    return list(_get_current_dispatch_mode_stack())


def _tensors(value: Any) -> Iterator[tuple[str, tuple[int, ...]]]:
    if isinstance(value, torch.Tensor):
        yield str(value.dtype).removeprefix("torch."), tuple(value.shape)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)


class _Whole(torch.autograd.Function):
    """A function as one operator, its backward pass as another."""

    @staticmethod
    def forward(ctx: Any, watch: Watch, name: str, run: Any, *inputs: Any) -> Any:
        watch.note(name)
        with watch.whole(), torch.enable_grad():
            held = [
                x.detach().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x
                for x in inputs
            ]
            out = run(*held)
        several = isinstance(out, tuple)
        ctx.set_materialize_grads(False)  # a device is told of none, and fills none with zeros
        ctx.saved = watch, name, held, out if several else (out,)
        return tuple(o.detach() for o in out) if several else out.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        watch, name, held, out = ctx.saved
        watch.note(f"{name}_backward")
        wanted = [i for i, x in enumerate(held) if isinstance(x, torch.Tensor) and x.requires_grad]
        found: list[Any] = [None] * len(held)
        with watch.whole():
            pairs = [
                (o, g) for o, g in zip(out, grads, strict=True) if o.requires_grad and g is not None
            ]
            made = torch.autograd.grad(
                [o for o, _ in pairs],
                [held[i] for i in wanted],
                [g for _, g in pairs],
                allow_unused=True,
            )
            for i, grad in zip(wanted, made, strict=True):
                # Gradients have the layout of the inputs, as CUDA makes them.
                found[i] = grad if grad is None else torch.empty_like(held[i]).copy_(grad)
        return (None, None, None, *found)


def _attention(watch: Watch) -> Callable[..., Any]:
    whole = torch.ops.aten.scaled_dot_product_attention.default
    # Where no kernel of CUDA takes it: products, as written out in PyTorch.
    written_out = torch.ops.aten._scaled_dot_product_attention_math

    def attention(
        q: Any,
        k: Any,
        v: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **more: Any,
    ) -> Any:
        if attn_mask is not None and attn_mask.dtype is torch.bool:
            attn_mask = torch.where(attn_mask, 0.0, -torch.inf)  # before a kernel is chosen
        if q.dtype is torch.float32 and q.shape[-3] != k.shape[-3]:
            return written_out(q, k, v, attn_mask, dropout_p, is_causal, **more)[0]
        if attn_mask is not None and attn_mask.requires_grad:
            attn_mask = attn_mask.expand(*q.shape[:-1], k.shape[-2])  # its gradient is summed after
        if attn_mask is not None and _refused(attn_mask):
            return written_out(q, k, v, attn_mask, dropout_p, is_causal, **more)[0]

        def run(q: Any, k: Any, v: Any, mask: Any) -> Any:
            made = whole.decompose(q, k, v, mask, dropout_p, is_causal, **more)
            return _laid_out_like(q, made)

        return _Whole.apply(watch, "attention", run, q, k, v, attn_mask)

    return attention


def _refused(mask: torch.Tensor) -> bool:
    """A mask that every kernel of CUDA refuses: its keys do not lie side by side
    (ATen/native/transformers/sdp_utils_cpp.h, `check_last_dim_stride_equals_1_dense`)."""
    return mask.shape[-1] != 1 and mask.stride(-1) != 1


def _laid_out_like(q: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
    """An attention's output in the memory order of the query, as CUDA makes it."""
    order = sorted(range(q.dim()), key=lambda d: q.stride()[d], reverse=True)
    back = [order.index(d) for d in range(q.dim())]
    return made.permute(order).contiguous().permute(back)


def _dropout(watch: Watch) -> Callable[..., Any]:
    def dropout(x: Any, p: float, train: bool) -> Any:
        if not train or not p or not x.numel():
            return x
        if p < 1:
            return torch.native_dropout(x, p, True)[0]
        return torch.ops.aten.dropout.default.decompose(x, p, train)

    return dropout


def _rms_norm(watch: Watch) -> Callable[..., Any]:
    whole = torch.ops.aten.rms_norm.default

    def rms_norm(x: Any, shape: Any, weight: Any = None, eps: Any = None) -> Any:
        def run(x: Any, weight: Any) -> Any:
            return whole.decompose(x, shape, weight, eps)

        return _Whole.apply(watch, "rms_norm", run, x, weight)

    return rms_norm


def _group_norm(
    x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> Any:
    """CUDA's wants rows of channels (ATen/native/group_norm.cpp), the CPU's takes any order."""
    n, channels = x.shape[:2]
    size = x.numel() // max(n * channels, 1)
    found = torch.native_group_norm(x.contiguous(), weight, bias, n, channels, size, groups, eps)
    return found[0]


def _recurrent(watch: Watch, whole: Any) -> Callable[..., Any]:
    def recurrent(x: Any, hx: Any, weights: Any, *rest: Any) -> Any:
        states = [hx] if isinstance(hx, torch.Tensor) else list(hx)

        def run(x: Any, *flat: Any) -> Any:
            first, later = list(flat[: len(states)]), list(flat[len(states) :])
            return whole.decompose(x, first[0] if hx is states[0] else first, later, *rest)

        return _Whole.apply(watch, "rnn", run, x, *states, *weights)

    return recurrent


@contextmanager
def _decoding_as_on_cuda(model: Any) -> Iterator[None]:
    """transformers' experts of a decoded token: one batched product on every device but the CPU."""
    kept = model.get_experts_implementation()
    model.set_experts_implementation(
        {part: "batched_mm" if way == "grouped_mm" else way for part, way in kept.items()}
    )
    try:
        yield
    finally:
        model.set_experts_implementation(kept)


@contextmanager
def _experts_as_on_cuda() -> Iterator[None]:
    mixin = getattr(sys.modules.get("transformers.generation.utils"), "GenerationMixin", None)
    kept = getattr(mixin, "_optimize_model_for_decode", None)
    if kept is not None:
        mixin._optimize_model_for_decode = _decoding_as_on_cuda
    try:
        yield
    finally:
        if kept is not None:
            mixin._optimize_model_for_decode = kept


@contextmanager
def as_the_device() -> Iterator[Watch]:
    """The CPU chooses what CUDA chooses: whole operators, optimizers over lists of tensors."""
    optimizers = sys.modules["torch.optim.optimizer"]
    watch = Watch()
    kept = optimizers._get_foreach_kernels_supported_devices
    optimizers._get_foreach_kernels_supported_devices = lambda: [*kept(), "cpu"]
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library.impl("scaled_dot_product_attention", _attention(watch), "AutogradCPU")
        library.impl("dropout", _dropout(watch), "AutogradCPU")
        library.impl("rms_norm", _rms_norm(watch), "AutogradCPU")
        library.impl("group_norm", _group_norm, "AutogradCPU")
        for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
            whole = getattr(torch.ops.aten, name).input
            library.impl(f"{name}.input", _recurrent(watch, whole), "AutogradCPU")
    try:
        with _experts_as_on_cuda():
            yield watch
    finally:
        library._destroy()
        optimizers._get_foreach_kernels_supported_devices = kept
