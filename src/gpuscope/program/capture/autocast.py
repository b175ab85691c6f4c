"""CUDA autocast for fake tensors.

C++ autocast asks a tensor whether it "is CUDA" before casting, and fakes answer C++ with "cpu"
(see fakes.py). So the casting kernels are replaced, for the time of a capture, by these, which
follow the same lists: https://docs.pytorch.org/docs/stable/amp.html#cuda-ops-that-can-autocast-to-float16
and aten/src/ATen/autocast_mode.h (AT_FORALL_LOWER_PRECISION_FP, AT_FORALL_FP32,
AT_FORALL_PROMOTE).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from gpuscope.program.capture.calls import made_of_others
from gpuscope.program.capture.patches import by_thread, here, quiet

LOWER_PRECISION = (
    "_convolution",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d.input",
    "conv_transpose3d.input",
    "convolution",
    "prelu",
    "addmm",
    "addmv",
    "addr",
    "matmul",
    "einsum",
    "mm",
    "mv",
    "linalg_vecdot",
    "linear",
    "addbmm",
    "baddbmm",
    "bmm",
    "chain_matmul",
    "linalg_multi_dot",
    "_thnn_fused_lstm_cell",
    "_thnn_fused_gru_cell",
    "lstm_cell",
    "gru_cell",
    "rnn_tanh_cell",
    "rnn_relu_cell",
    "scaled_dot_product_attention",
)

FLOAT32 = (
    "acos",
    "asin",
    "cosh",
    "erfinv",
    "exp",
    "expm1",
    "log",
    "log10",
    "log2",
    "log1p",
    "reciprocal",
    "rsqrt",
    "sinh",
    "tan",
    "pow.Tensor_Scalar",
    "pow.Tensor_Tensor",
    "pow.Scalar",
    "softplus",
    "layer_norm",
    "native_layer_norm",
    "group_norm",
    "nuclear_norm",
    "cosine_similarity",
    "poisson_nll_loss",
    "cosine_embedding_loss",
    "nll_loss",
    "nll_loss2d",
    "hinge_embedding_loss",
    "kl_div",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "mse_loss",
    "margin_ranking_loss",
    "multilabel_margin_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "multi_margin_loss",
    "binary_cross_entropy_with_logits",
    "dist",
    "pdist",
    "cdist",
    "renorm",
    "logsumexp",
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_nearest3d",
    "upsample_linear1d",
    "upsample_bilinear2d",
    "upsample_trilinear3d",
    "upsample_bicubic2d",
    "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d",
    "_upsample_bilinear2d_aa",
    "_upsample_bicubic2d_aa",
    "rms_norm",
    "linalg_matrix_norm",
    "linalg_matrix_norm.str_ord",
    "nuclear_norm.dim",
    "frobenius_norm.dim",
    "norm.Scalar",
    "norm.ScalarOpt_dim",
)

SINCE = {"rms_norm": (2, 12)}
"""First version of PyTorch that has an operator on its lists: before, it ran in what it was given
(pull request 174824)."""

RESULT_FLOAT32 = (
    "prod",
    "prod.dim_int",
    "softmax.int",
    "log_softmax.int",
    "cumprod",
    "cumsum",
    "sum",
    "sum.dim_IntList",
    "linalg_vector_norm",
)
"""Asked for a float32 result, unless the caller named a dtype (`fp32_set_opt_dtype`)."""

PROMOTE = (
    "addcdiv",
    "addcmul",
    "atan2",
    "bilinear",
    "cross",
    "dot",
    "vdot",
    "grid_sampler",
    "index_put",
    "tensordot",
    "scatter_add",
    "cat",
    "stack",
)

_version = [tuple(int(n) for n in torch.__version__.split(".")[:2])]


@contextmanager
def as_of(version: tuple[int, int]) -> Iterator[None]:
    """Captures inside cast as another version of PyTorch does: the one that a recording is of."""
    _version.append(version)
    try:
        yield
    finally:
        _version.pop()


_OFF = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)


class _Cache:
    """Casts of leaf weights, kept until autocast ends (as `cached_cast` does)."""

    def __init__(self) -> None:
        self.casts: dict[int, tuple[Any, torch.Tensor]] = {}

    def cast(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        if tensor.dtype is dtype or not tensor.is_floating_point():
            return tensor
        if tensor.dtype is torch.float64 or not _concerned(tensor):
            return tensor
        keep = (
            isinstance(tensor, FakeTensor)
            and torch.is_autocast_cache_enabled()
            and tensor.requires_grad
            and tensor.is_leaf
            and tensor.dtype is torch.float32
            and dtype is not torch.float32
        )
        if not keep:
            return tensor.to(dtype)
        held = self.casts.get(id(tensor))
        if held is None or held[0] is not tensor:
            held = (tensor, tensor.to(dtype))
            self.casts[id(tensor)] = held
        return held[1]


def _concerned(tensor: torch.Tensor) -> bool:
    """Whether autocast of CUDA casts a tensor: a capture's fakes, and in another thread, for which
    these kernels stand in as well, what really lies on a device."""
    return isinstance(tensor, FakeTensor) or (tensor.is_cuda and not here())


def _map(value: Any, convert: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return convert(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_map(v, convert) for v in value)
    return value


def _widest(values: Any, dtype: torch.dtype) -> torch.dtype:
    if isinstance(values, torch.Tensor):
        return torch.float32 if values.dtype is torch.float32 else dtype
    if isinstance(values, (list, tuple)):
        for value in values:
            if _widest(value, dtype) is torch.float32:
                return torch.float32
    return dtype


def _kernel(overload: Any, policy: str, cache: _Cache) -> Callable[..., Any]:
    names = [argument.name for argument in overload._schema.arguments]
    dtype_at = names.index("dtype") if "dtype" in names else len(names)

    def run(*args: Any, **kwargs: Any) -> Any:
        dtype = torch.get_autocast_dtype("cuda")
        if policy == "result":
            with torch._C._ExcludeDispatchKeyGuard(_OFF):
                named = kwargs.get("dtype") is not None or any(
                    isinstance(a, torch.dtype) for a in args
                )
                if not named and _concerned(args[0]) and args[0].is_floating_point():
                    args = tuple(a for i, a in enumerate(args) if i < dtype_at or a is not None)
                    kwargs = dict(kwargs, dtype=torch.float32)
                return overload(*args, **kwargs)
        if policy == "float32":
            dtype = torch.float32
        elif policy == "promote":
            dtype = _widest(args, dtype)

        def cast(tensor: torch.Tensor) -> torch.Tensor:
            return cache.cast(tensor, dtype)

        with torch._C._ExcludeDispatchKeyGuard(_OFF):
            # Last argument first, as the compiled C++ evaluates them: gradients come back in the
            # opposite order (recorded on an H200: weight, input, bias).
            named_casts = {k: _map(kwargs[k], cast) for k in reversed(kwargs)}
            kwargs = {k: named_casts[k] for k in kwargs}
            args = tuple(_map(a, cast) for a in reversed(args))[::-1]
            return overload(*args, **kwargs)

    return run


def register(library: torch.library.Library) -> _Cache:
    """Register the casting kernels on `library`; returns the weight cache to be cleared."""
    cache = _Cache()
    with quiet(r"(?s).*Overriding a previously registered kernel"):
        for policy, names in (
            ("lower", LOWER_PRECISION),
            ("float32", FLOAT32),
            ("result", RESULT_FLOAT32),
            ("promote", PROMOTE),
        ):
            for name in names:
                if SINCE.get(name, (0, 0)) > _version[-1]:
                    continue
                base, _, overload_name = name.partition(".")
                packet = getattr(torch.ops.aten, base, None)
                overload = getattr(packet, overload_name or "default", None)
                if overload is None:
                    continue
                kernel = _kernel(overload, policy, cache)
                if not _has_kernel(overload, "AutocastCUDA"):  # of another version of PyTorch
                    kernel = by_thread(kernel, _uncast(overload))
                _implement(library, name, kernel)
    return cache


def _has_kernel(overload: Any, key: str) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(overload.name(), key))


def _uncast(overload: Any) -> Callable[..., Any]:
    """What an operator does under autocast that has no rule for it."""
    if _has_kernel(overload, "CompositeImplicitAutograd"):
        composite: Callable[..., Any] = made_of_others(overload)
        return composite  # the operators that it is made of may have one

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_OFF):
            return overload(*args, **kwargs)

    return run


def _implement(library: torch.library.Library, name: str, kernel: Callable[..., Any]) -> None:
    try:
        library.impl(name, kernel, "AutocastCUDA", allow_override=True)
    except TypeError:  # torch before 2.8 has no allow_override and permits the override itself
        library.impl(name, kernel, "AutocastCUDA")
