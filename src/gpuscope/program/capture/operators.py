"""Own composite operators: what CUDA runs as one kernel, but a CPU torch would take apart.

Attention, dropout and recurrent layers choose their implementation inside C++ by looking at the
device. Under fakes they would fall to the CPU's choice. Here each becomes one operator with the
results, saved tensors and backward of the CUDA one:

* `gpuscope::attention(q, k, v, mask, ...) -> (out, logsumexp)`; `gpuscope::attention_backward`.
  Saved for backward: q, k, v, out and a float32 logsumexp per query row, as
  `_scaled_dot_product_flash_attention` does. `sequences` lie one after the other in a row and see
  only themselves, as in the kernels for lengths that vary; of different lengths, it is how many
  equal ones do as much work. A query sees `window` keys at most, its own the last; 0: all.
  `to_end`: the causal mask's corner is the last query and the last key, not the first two.
* `aten::native_dropout` (fused, with a bool mask) for `dropout` in training, as
  `at::dropout` chooses on CUDA (aten/src/ATen/native/Dropout.cpp, `is_fused_kernel_acceptable`).
* `gpuscope::without_padding(padded [B, T, D], rows) -> [1, rows, D]`, `gpuscope::with_padding`: a
  nested tensor of the strided layout from a padded one, and back: see `encoders`.
* `gpuscope::lstm_cell`, `gpuscope::gru_cell` and their gradients: see `cells`.
* `gpuscope::rnn(input, hx, weights, ...) -> (out, hn, cn, reserve)`; `gpuscope::rnn_backward`,
  as `_cudnn_rnn`.

The kernels are registered for the AutogradCUDA dispatch key, which fake tensors on "cuda"
carry, and removed after the capture.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from gpuscope.program.capture import cells
from gpuscope.program.capture.calls import made_of_others
from gpuscope.program.capture.fakes import on_device
from gpuscope.program.capture.patches import by_thread

_LIBRARY: torch.library.Library | None = None


def define() -> None:
    """Define the gpuscope operators once per process (schemas and shapes; no kernels)."""
    global _LIBRARY
    if _LIBRARY is not None:
        return
    lib = torch.library.Library("gpuscope", "DEF")
    lib.define(
        "attention(Tensor q, Tensor k, Tensor v, Tensor? mask, float dropout_p, bool causal, "
        "float? scale, str backend, float sequences=1.0, int window=0, bool to_end=False) "
        "-> (Tensor, Tensor)"
    )
    lib.define(
        "attention_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor out, "
        "Tensor logsumexp, Tensor? mask, float dropout_p, bool causal, float? scale, "
        "str backend, bool of_mask=False, float sequences=1.0, int window=0, "
        "bool to_end=False) -> Tensor[]"
    )
    lib.define(
        "rnn(Tensor input, Tensor[] hx, Tensor[] weights, str mode, int hidden_size, "
        "int num_layers, bool bidirectional, bool batch_first, float dropout, bool train, "
        "int steps=0) -> (Tensor, Tensor, Tensor, Tensor)"
    )
    lib.define(
        "rnn_backward(Tensor input, Tensor[] hx, Tensor[] weights, Tensor out, Tensor grad, "
        "Tensor reserve, str mode, int hidden_size, int num_layers, bool bidirectional, "
        "bool batch_first, int steps=0) -> Tensor[]"
    )
    lib.define("rms_norm(Tensor x, Tensor? weight, float eps) -> (Tensor, Tensor)")
    lib.define(
        "rms_norm_backward(Tensor grad, Tensor x, Tensor rstd, Tensor? weight) -> (Tensor, Tensor)"
    )
    lib.define("without_padding(Tensor padded, int rows) -> Tensor")
    lib.define("with_padding(Tensor rows, int[] size) -> Tensor")
    cells.define(lib)
    lib.impl("without_padding", _without_padding_meta, "Meta")
    lib.impl("with_padding", _with_padding_meta, "Meta")
    lib.impl("rms_norm", _rms_norm_meta, "Meta")
    lib.impl("rms_norm_backward", _rms_norm_backward_meta, "Meta")
    lib.impl("attention", _attention_meta, "Meta")
    lib.impl("attention_backward", _attention_backward_meta, "Meta")
    lib.impl("rnn", _rnn_meta, "Meta")
    lib.impl("rnn_backward", _rnn_backward_meta, "Meta")
    _LIBRARY = lib


def _output_like(q: torch.Tensor, head_dim: int) -> torch.Tensor:
    """An output [B, H, S, D] in the memory order of the query, as cuDNN's attention makes it."""
    if head_dim == q.shape[-1]:
        return torch.empty_like(q)
    order = sorted(range(q.dim()), key=lambda d: q.stride()[d], reverse=True)
    shape = (*q.shape[:-1], head_dim)
    made = q.new_empty([shape[d] for d in order])
    return made.permute([order.index(d) for d in range(q.dim())])


def _rows_first(shape: Sequence[int], like: torch.Tensor) -> torch.Tensor:
    """A tensor [B, H, S, D] that lies as [B, S, H, D], as the memory-efficient kernel makes all."""
    b, h, s, d = shape
    return like.new_empty((b, s, h, d)).transpose(1, 2)


def _efficient_alone(q: torch.Tensor) -> bool:
    """Whether only the memory-efficient kernel takes the type, on any device."""
    return q.dtype is torch.float32 and q.dim() == 4


def _attention_meta(q: Any, k: Any, v: Any, mask: Any, *rest: Any) -> Any:
    sums = q.new_empty(q.shape[:-1], dtype=torch.float32)
    if _efficient_alone(q):
        return _rows_first((*q.shape[:-1], v.shape[-1]), q), sums
    return _output_like(q, v.shape[-1]), sums


def _attention_backward_meta(
    grad: Any,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    logsumexp: Any,
    mask: Any,
    dropout_p: float,
    causal: bool,
    scale: float | None,
    backend: str,
    of_mask: bool = False,
    sequences: float = 1.0,
    window: int = 0,
    to_end: bool = False,
) -> Any:
    # Gradients have the layout of the inputs; a mask's is written whole, expanded or not.
    if _efficient_alone(q):
        made = [_rows_first(t.shape, t) for t in (q, k, v)]
    else:
        made = [torch.empty_like(t) for t in (q, k, v)]
    return [*made, q.new_empty((*q.shape[:-1], k.shape[-2]))] if of_mask else made


def rnn_reserve_bytes(mode: str, layer_bytes: int, layers: int, directions: int) -> int:
    """Bytes of cuDNN's reserve space of a training RNN (activations kept for backward).

    In units of one layer's output in one direction (`layer_bytes`: time x batch x hidden): the
    gate activations and the cell states of each layer, and what passes between layers. Read off
    an H200 (validation/recordings/h200/micro/memory.csv.gz): 5 for an LSTM, 6 for a GRU, one more
    for every layer but the last; 1 for a plain RNN (its only gate; read off `gaps.jsonl.gz` beside
    it, where 9.8 of these units are kept and borrowed by two layers together).
    """
    each = {"lstm": 5, "gru": 6}.get(mode, 1)
    return layer_bytes * directions * (each * layers + layers - 1)


def _rnn_meta(
    x: Any,
    hx: Any,
    weights: Any,
    mode: str,
    hidden: int,
    layers: int,
    bidirectional: bool,
    batch_first: bool,
    dropout: float,
    train: bool,
    steps: int = 0,
) -> Any:
    directions = 2 if bidirectional else 1
    if x.dim() == 2:  # packed: the sequences' steps one after the other
        x, batch_first = x.unsqueeze(1), False
    batch, seq = (x.shape[0], x.shape[1]) if batch_first else (x.shape[1], x.shape[0])
    # cuDNN works time-major; batch-first outputs are a transposed view of it.
    width = hx[0].shape[-1] * directions
    out = x.new_empty((seq, batch, width))
    out = out.transpose(0, 1) if batch_first else out
    out = out.squeeze(1) if steps else out
    reserve = 0
    if train:
        layer_bytes = seq * batch * hidden * x.element_size()
        reserve = rnn_reserve_bytes(mode, layer_bytes, layers, directions)
        if x.dtype is not torch.float32:  # half-precision weights are packed anew every call
            reserve += sum(w.numel() for w in weights) * x.element_size()
    cn = torch.empty_like(hx[1]) if len(hx) > 1 else x.new_empty(0)
    return out, torch.empty_like(hx[0]), cn, x.new_empty(reserve, dtype=torch.uint8)


def _rnn_backward_meta(x: Any, hx: Any, weights: Any, *rest: Any) -> Any:
    grads = [torch.empty_like(t) for t in (x, *hx)]
    # Weight gradients share one flat buffer, as the parameters do after flatten_parameters().
    total = sum(w.numel() for w in weights)
    flat = x.new_empty(total, dtype=weights[0].dtype) if weights else None
    offset = 0
    for w in weights:
        assert flat is not None
        grads.append(flat[offset : offset + w.numel()].view(w.shape))
        offset += w.numel()
    return grads


def _rms_norm_meta(x: Any, weight: Any, eps: float) -> Any:
    return torch.empty_like(x), x.new_empty((*x.shape[:-1], 1), dtype=torch.float32)


def _rms_norm_backward_meta(grad: Any, x: Any, rstd: Any, weight: Any) -> Any:
    return torch.empty_like(x), torch.empty_like(weight if weight is not None else x[:0])


def _without_padding_meta(padded: Any, rows: int) -> Any:
    return padded.new_empty((1, rows, padded.shape[-1]))


def _with_padding_meta(rows: Any, size: Any) -> Any:
    return rows.new_empty(size)


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, eps: float) -> Any:
        out, rstd = torch.ops.gpuscope.rms_norm(x, weight, eps)
        ctx.save_for_backward(x, rstd, weight)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:  # type: ignore[override]
        x, rstd, weight = ctx.saved_tensors
        dx, dw = torch.ops.gpuscope.rms_norm_backward(grad, x, rstd, weight)
        return dx, dw if weight is not None else None, None


def rms_norm(x: Any, shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """Replacement of `rms_norm`: one fused kernel on CUDA (since torch 2.9, one trailing dim)."""
    if len(shape) != 1 or (weight is not None and weight.dtype is not x.dtype):
        variance = x.float().pow(2).mean(dim=tuple(range(-len(shape), 0)), keepdim=True)
        out = (x.float() * torch.rsqrt(variance + (eps or 1e-6))).to(x.dtype)
        return out if weight is None else out * weight
    return _RmsNorm.apply(x, weight, eps or 1e-6)


def group_norm(
    x: Any,
    groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Any:
    """Replacement of `group_norm`: off the CPU it works on channels first, and copies what is not.

    aten/src/ATen/native/group_norm.cpp; an H200 shows the copy before every group norm of a UNet
    in channels last, and the convolution after it copies back.
    """
    pixels = math.prod(x.shape[2:])
    return torch.ops.aten.native_group_norm(
        x.contiguous(), weight, bias, x.shape[0], x.shape[1], pixels, groups, eps
    )[0]


def _kernel_of_its_own(overload: Any) -> Any:
    """A composite that has a kernel on CUDA, which a CPU-only torch would take apart."""

    def run(*args: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return overload(*args)

    return run


ONLY = "_only"
"""After the name of an attention implementation for which cuDNN must not stand in."""


def choose_backend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: Any,
    dropout_p: float,
    causal: bool = False,
) -> str:
    """Name the attention implementation that PyTorch would choose on CUDA.

    Follows aten/src/ATen/native/transformers/cuda/sdp_utils.cpp: flash for half precision without a
    mask and head_dim <= 256, as many queries as keys where it is causal
    (`check_flash_causal_non_square_seqlens`), memory-efficient otherwise, math when neither is
    enabled, when the dtype is float64, or when the values of a head (images: places last) or the
    mask's keys (T5's relative positions: heads last) do not lie side by side. A mask that wants a
    gradient leaves the memory-efficient kernel alone
    (validation/recordings/h200/micro/attention_masks.jsonl.gz), and so does one of other than two
    or four dimensions (sdp_utils_cpp.h, `check_attn_mask_shape`; fresh/sloped-distances.csv.gz in
    those recordings). cuDNN's kernels stand in for flash and memory-efficient where the device
    prefers them: that is decided when a program is costed. A mask beside shared key heads leaves
    only cuDNN (seen on an H200); devices that do not prefer it would take the math path there,
    which is then costed as memory-efficient attention.
    """
    if any(_last_apart(t) for t in (q, k, v, mask) if t is not None):
        return "math"
    half = q.dtype in (torch.float16, torch.bfloat16)
    flash = torch.backends.cuda.flash_sdp_enabled()
    flash = flash and not (causal and q.shape[-2] != k.shape[-2])
    efficient = torch.backends.cuda.mem_efficient_sdp_enabled()
    if flash and half and mask is None and q.shape[-1] <= 256:
        return "flash"
    same_heads = q.dim() < 4 or q.shape[1] == k.shape[1]
    if efficient and same_heads and q.dtype is not torch.float64:
        return "efficient"
    cudnn = getattr(torch.backends.cuda, "cudnn_sdp_enabled", bool)()
    cudnn = cudnn and not (mask is not None and mask.requires_grad)
    if half and cudnn and (not flash or (not same_heads and q.shape[-1] % 8 == 0)):
        return "cudnn"
    return "math"


def _last_apart(tensor: torch.Tensor) -> bool:
    """A tensor whose last dimension does not lie side by side: every fused kernel refuses it.

    aten/src/ATen/native/transformers/sdp_utils_cpp.h, `check_last_dim_stride_equals_1_dense`.
    """
    return tensor.dim() > 0 and tensor.shape[-1] != 1 and tensor.stride(-1) != 1


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, mask: Any, options: Any) -> Any:
        out, logsumexp = torch.ops.gpuscope.attention(q, k, v, mask, *options)
        ctx.save_for_backward(q, k, v, out, logsumexp, mask)
        ctx.options = options
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:  # type: ignore[override]
        q, k, v, out, logsumexp, mask = ctx.saved_tensors
        of_mask = ctx.needs_input_grad[3]
        dq, dk, dv, *rest = torch.ops.gpuscope.attention_backward(
            grad, q, k, v, out, logsumexp, mask, *ctx.options, of_mask
        )
        return dq, dk, dv, rest[0] if of_mask else None, None


class _TracedProduct(torch.autograd.Function):
    """A product whose gradients are computed in autocast's type.

    AOTAutograd traces the backward pass while autocast is on (`backward_pass_autocast`,
    torch/_functorch/config.py), so its products are cast like any other; eagerly they are not.
    """

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any, dtype: Any) -> Any:
        ctx.save_for_backward(a, b)
        ctx.dtype = dtype
        return a @ b

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:  # type: ignore[override]
        a, b = ctx.saved_tensors
        low, kept = grad.to(ctx.dtype), a.dtype
        da = low @ b.to(ctx.dtype).transpose(-2, -1)
        db = a.to(ctx.dtype).transpose(-2, -1) @ low
        return da.to(kept), db.to(kept), None


class Traced:
    """What a compiler would trace the backward pass under: autocast's type, None without it."""

    autocast: ClassVar[torch.dtype | None] = None


def _product() -> Any:
    """How attention multiplies: plainly, or as a compiler traces it under autocast."""
    dtype = Traced.autocast
    if dtype is None:
        return torch.matmul
    return lambda a, b: _TracedProduct.apply(a, b, dtype)


class _SafeSoftmax(torch.autograd.Function):
    """`aten::_safe_softmax` over the last dimension: what it calls, and its own derivative."""

    @staticmethod
    def forward(ctx: Any, scores: Any) -> Any:
        weights = torch.softmax(scores, dim=-1)
        hidden = torch.isneginf(scores).all(dim=-1, keepdim=True)
        weights = torch.where(hidden, weights.new_zeros(()), weights)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:  # type: ignore[override]
        (weights,) = ctx.saved_tensors
        return torch._softmax_backward_data(grad, weights, -1, weights.dtype)


def _math_attention(
    q: Any,
    k: Any,
    v: Any,
    mask: Any,
    dropout_p: float,
    causal: bool,
    scale: float | None,
    grouped: bool,
) -> Any:
    """The unfused path, operator by operator, as `_scaled_dot_product_attention_math`.

    Half-precision inputs are computed in float32 (allow_fp16_bf16_reduction_math_sdp is off by
    default), and `_safe_softmax` clears rows that are masked throughout
    (aten/src/ATen/native/transformers/attention.cpp). Fewer key heads are repeated where `grouped`
    says so; else they are broadcast.
    """
    dtype = q.dtype
    if dtype in (torch.float16, torch.bfloat16):
        q, k, v = q.float(), k.float(), v.float()
        mask = mask.float() if mask is not None and mask.dtype is not torch.bool else mask
    factor = math.sqrt(scale if scale is not None else 1.0 / math.sqrt(q.shape[-1]))
    if grouped and k.shape[-3] != q.shape[-3]:
        groups = q.shape[-3] // k.shape[-3]
        k, v = k.repeat_interleave(groups, dim=-3), v.repeat_interleave(groups, dim=-3)
    if causal:
        mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
    if mask is not None and mask.dtype is torch.bool:
        mask = torch.where(mask, 0.0, -math.inf).to(q.dtype)
    product = _product()
    scores = product(q * factor, k.transpose(-2, -1) * factor)
    weights = _SafeSoftmax.apply(scores if mask is None else scores + mask)
    if dropout_p > 0:
        weights = torch.dropout(weights, dropout_p, True)
    return product(weights, v).to(dtype)


def attention(
    q: Any,
    k: Any,
    v: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Replacement of `scaled_dot_product_attention` for device tensors."""
    if torch.is_autocast_enabled("cuda"):
        dtype = torch.get_autocast_dtype("cuda")
        q, k, v = (t.to(dtype) if t.is_floating_point() else t for t in (q, k, v))
    backend = choose_backend(q, k, v, attn_mask, dropout_p, is_causal)
    if backend == "math" or q.dim() != 4:
        return _math_attention(q, k, v, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        # CUDA turns a bool mask into an additive one of the query's dtype first.
        attn_mask = torch.where(attn_mask, 0.0, -math.inf).to(q.dtype)
    if attn_mask is not None and (attn_mask.requires_grad or attn_mask.dim() not in (2, 4)):
        attn_mask = attn_mask.expand(*q.shape[:-1], k.shape[-2])
        backend += ONLY
    elif not getattr(torch.backends.cuda, "cudnn_sdp_enabled", bool)():
        backend += ONLY  # nothing stands in for it: `sdpa_kernel` says so
    options = (float(dropout_p), bool(is_causal), scale, backend)
    return _Attention.apply(q, k, v, attn_mask, options)


def dropout(x: Any, p: float, train: bool) -> Any:
    """Replacement of `dropout`: the fused kernel whenever CUDA would take it."""
    if not train or p == 0 or x.numel() == 0:
        return x
    if p < 1:
        return torch.native_dropout(x, p, True)[0]
    return x * torch.zeros((), dtype=x.dtype, device=x.device)


class _Rnn(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, options: Any, n_hx: int, *tensors: Any) -> Any:
        hx, weights = list(tensors[:n_hx]), list(tensors[n_hx:])
        out, hn, cn, reserve = torch.ops.gpuscope.rnn(x, hx, weights, *options)
        ctx.save_for_backward(x, out, reserve, *tensors)
        ctx.options, ctx.n_hx = options, n_hx
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(reserve)
        return out, hn, cn, reserve

    @staticmethod
    def backward(ctx: Any, grad: Any, *rest: Any) -> Any:  # type: ignore[override]
        x, out, reserve, *tensors = ctx.saved_tensors
        grad = torch.zeros_like(out) if grad is None else grad
        hx, weights = tensors[: ctx.n_hx], tensors[ctx.n_hx :]
        grads = torch.ops.gpuscope.rnn_backward(
            x, hx, weights, out, grad, reserve, *ctx.options[:5], ctx.options[-1]
        )
        return (grads[0], None, None, *grads[1:])


def _rnn(mode: str) -> Any:
    def run(
        x: Any,
        hx: Any,
        params: Any,
        has_biases: bool,
        num_layers: int,
        dropout_p: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
        steps: int = 0,
    ) -> Any:
        states = list(hx) if isinstance(hx, (list, tuple)) else [hx]
        if torch.is_autocast_enabled("cuda"):
            dtype = torch.get_autocast_dtype("cuda")
            x, states = x.to(dtype), [h.to(dtype) for h in states]
            params = [w.to(dtype) for w in params]
        per_weight = {"lstm": 4, "gru": 3}.get(mode, 1)
        hidden = params[0].shape[0] // per_weight
        options = (
            mode,
            hidden,
            num_layers,
            bidirectional,
            batch_first,
            float(dropout_p),
            bool(train),
            steps,
        )
        out, hn, cn, _ = _Rnn.apply(x, options, len(states), *states, *params)
        return (out, hn, cn) if mode == "lstm" else (out, hn)

    return run


def _packed_rnn(mode: str) -> Any:
    run = _rnn(mode)

    def packed(x: Any, batch_sizes: Any, hx: Any, params: Any, *options: Any) -> Any:
        return run(x, hx, params, *options, False, batch_sizes.shape[0])

    return packed


def _of_packed(name: str) -> Any:
    """A function of `packed`, which few programs need."""

    def call(*args: Any, **kwargs: Any) -> Any:
        from gpuscope.program.capture import packed

        return getattr(packed, name)(*args, **kwargs)

    return call


def _pad_circular(x: Any, padding: Any) -> Any:
    from gpuscope.program.capture import circular

    return circular.pad(x, padding)


def register(library: torch.library.Library) -> None:
    """Register the replacements on `library` (an "IMPL" library of "aten")."""

    def replace(name: str, kernel: Any, key: str = "AutogradCUDA") -> None:
        packet, _, overload = name.partition(".")
        func = getattr(getattr(torch.ops.aten, packet), overload or "default")
        library.impl(name, by_thread(kernel, made_of_others(func)), key)

    replace("scaled_dot_product_attention", attention)
    replace("dropout", dropout)
    replace("group_norm", group_norm)
    if hasattr(torch.ops.aten, "_fused_rms_norm"):
        replace("rms_norm", rms_norm)
    for name in ("silu_backward", "mish_backward"):
        of_its_own = _kernel_of_its_own(getattr(torch.ops.aten, name).default)
        library.impl(name, of_its_own, "AutogradCUDA")
    for mode, name in (("lstm", "lstm.input"), ("gru", "gru.input")):
        replace(name, _rnn(mode))
        replace(f"{mode}.data", _packed_rnn(mode))
    for mode in ("tanh", "relu"):
        replace(f"rnn_{mode}.input", _rnn(f"rnn_{mode}"))
        replace(f"rnn_{mode}.data", _packed_rnn(f"rnn_{mode}"))
    replace("lstm_cell", cells.lstm_cell)
    replace("gru_cell", cells.gru_cell)
    replace("pad_sequence", _of_packed("pad_sequence"))
    replace("_pad_circular", _pad_circular)
    for key in ("AutogradCUDA", "AutogradCPU"):
        replace("_pad_packed_sequence", _of_packed("pad"), key)
        replace("_pack_padded_sequence_backward", _of_packed("pack_backward"), key)


REPLACED_IN_INFERENCE: dict[str, Any] = {
    "aten::scaled_dot_product_attention": attention,
    "aten::dropout": dropout,
    "aten::rms_norm": rms_norm,
    "aten::group_norm": group_norm,
    "aten::lstm": _rnn("lstm"),
    "aten::gru": _rnn("gru"),
    "aten::lstm_cell": cells.lstm_cell,
    "aten::gru_cell": cells.gru_cell,
    "aten::lstm.data": _packed_rnn("lstm"),
    "aten::gru.data": _packed_rnn("gru"),
    "aten::_pad_packed_sequence": _of_packed("pad"),
    "aten::pad_sequence": _of_packed("pad_sequence"),
}
"""The same replacements for inference mode, where the autograd keys are switched off and the
composite operator itself arrives at the recorder."""


def replaces(args: tuple[Any, ...]) -> bool:
    """Whether the first tensor argument lives on the device (else the CPU's own path is right)."""
    return bool(args) and on_device(args[0])
