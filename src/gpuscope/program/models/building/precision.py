"""Dtypes, autocast and attention backends as PyTorch code asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext

import torch
from torch import nn

from gpuscope.program.capture.patches import alone, patches
from gpuscope.program.models.settings import Settings

_INIT_FUNCTIONS = (
    "uniform_",
    "normal_",
    "constant_",
    "ones_",
    "zeros_",
    "xavier_uniform_",
    "xavier_normal_",
    "kaiming_uniform_",
    "kaiming_normal_",
    "trunc_normal_",
    "orthogonal_",
)


def torch_dtype(name: str) -> torch.dtype:
    """The torch dtype of that name."""
    dtype = getattr(torch, name)
    assert isinstance(dtype, torch.dtype)
    return dtype


def holds_no_values(device: str) -> bool:
    """Whether tensors made now have no values (fakes or the meta device): nothing to initialise."""
    return is_without_values(torch.empty(0, device=device))


def new_weights(settings: Settings) -> AbstractContextManager[None]:
    """Make parameters as the settings ask; see `weights_on`."""
    return weights_on(settings.device, settings.weight_dtype)


@contextmanager
def weights_on(device: str, dtype: str) -> Iterator[None]:
    """Make parameters directly on the device and in the dtype asked for.

    On a real device they get the model's own random initialisation; where tensors hold no values
    initialisation is skipped.
    """
    before = torch.get_default_dtype()
    with ExitStack() as stack:
        stack.enter_context(torch.device(device))
        if holds_no_values(device):
            stack.enter_context(_no_initialisation())
        torch.set_default_dtype(torch_dtype(dtype))
        stack.callback(torch.set_default_dtype, before)
        yield


def is_without_values(tensor: torch.Tensor) -> bool:
    """Whether a tensor is a fake or on the meta device."""
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor) or tensor.is_meta


@contextmanager
def _no_initialisation() -> Iterator[None]:
    """Tensors without values stay as they are; those that another thread makes do have some."""

    def only_values(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def initialise(tensor: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
            return tensor if is_without_values(tensor) else original(tensor, *args, **kwargs)

        return initialise

    with alone(), patches() as patch:
        for name in _INIT_FUNCTIONS:
            patch.everywhere(nn.init, name, only_values(getattr(nn.init, name)))
        yield


def set_matmul_precision(settings: Settings) -> None:
    """float32 matrix multiplies: full precision, or TensorFloat-32 for "tf32".

    Convolutions keep PyTorch's default, which allows TensorFloat-32 in both cases.
    """
    torch.set_float32_matmul_precision("high" if settings.dtype == "tf32" else "highest")


def autocast(settings: Settings) -> AbstractContextManager[object]:
    """`torch.autocast` for mixed precision, else nothing."""
    if not settings.amp:
        return nullcontext()
    return torch.autocast(settings.device, dtype=torch_dtype(settings.compute_dtype))


def attention_backend(settings: Settings) -> AbstractContextManager[object]:
    """Only the flash kernel for "flash"; PyTorch's own choice otherwise."""
    if settings.attention != "flash":
        return nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    context: AbstractContextManager[object] = sdpa_kernel(SDPBackend.FLASH_ATTENTION)
    return context
