"""RMS normalisation in one kernel: `torch.nn.functional.rms_norm` instead of five operators.

Models of transformers write it out (square, mean, inverse root, two products, casts to float32
and back), each a pass over the activations and a launch. PyTorch has one kernel for it on a GPU
(since 2.9). Classes differ (some scale by 1 + weight): a class is replaced only if it gives what
`rms_norm` gives, tried on random numbers.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from gpuscope.advice.change import Change
from gpuscope.advice.registry import register
from gpuscope.advice.types import NO_CODE, ChangeCase, Fit
from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError

if TYPE_CHECKING:
    from gpuscope.advice.changes.hooks.live import Live

__all__ = ["FusedNorm"]

_FIRST_TORCH = (2, 9)


class FusedNorm(Change):
    """Normalise in one kernel."""

    name = "fused-norm"
    title = Text("RMS norm in one kernel")
    group = "operators"
    numerics = "reordered"
    rank = 30

    def fits(self, case: ChangeCase) -> Fit:
        """It needs RMS norms that are written out, in code that no compiler fuses."""
        if case.program is None or case.seen is None:
            return NO_CODE
        paths = {m.path for m in case.program.modules if m.class_name.endswith("RMSNorm")}
        work = [op for op in case.program.ops if op.module in paths and not op.view]
        if not any(op.name == "aten::rsqrt" for op in work):
            why = Text("No RMS norm is written out.")
            return Fit(False, why, relevant=False)
        if case.program.compiled:
            why = Text("The compiler fuses the norms already.")
            return Fit(False, why)
        return Fit(
            True,
            Text(
                "{paths} RMS norms are written out in {work} operators.",
                paths=len(paths),
                work=len(work),
            ),
        )

    def install(self, live: Live) -> None:
        """Replace the forward pass of each class of RMS norm that computes the same."""
        import torch

        release = tuple(int(n) for n in torch.__version__.split(".")[:2])
        if release < _FIRST_TORCH:
            raise UnsupportedError(
                Text(
                    "PyTorch {version} has no kernel of its own for RMS norms.",
                    version=torch.__version__,
                ),
                Text("It came with 2.9."),
                Text("Type: pip install -U torch"),
            )
        live.on_model(lambda root: _fuse(live, root))


def _fuse(live: Live, root: Any) -> None:
    import torch

    written_out: dict[type, Any] = {}
    for module in root.modules():
        cls = type(module)
        if cls.__name__.endswith("RMSNorm") and cls is not torch.nn.RMSNorm:
            written_out.setdefault(cls, module)
    for cls, module in written_out.items():
        epsilon = epsilon_of(module)
        if epsilon and not getattr(cls.forward, "gpuscope_fused", False) and same(module, epsilon):
            live.set(cls, "forward", _fused(cls.forward, epsilon))


def _fused(original: Any, name: str) -> Any:
    import torch

    @functools.wraps(original)
    def forward(this: Any, hidden: Any) -> Any:
        weight = this.weight
        autocast = torch.is_autocast_enabled(hidden.device.type)
        if weight.dtype is not hidden.dtype and not autocast:
            return original(this, hidden)  # mixed types have no kernel
        return torch.nn.functional.rms_norm(hidden, weight.shape, weight, getattr(this, name))

    forward.gpuscope_fused = True  # type: ignore[attr-defined]
    return forward


def epsilon_of(module: Any) -> str | None:
    """Name of the attribute with epsilon, of a norm with one weight and nothing else."""
    names = [name for name, _ in module.named_parameters(recurse=False)]
    if names != ["weight"] or module.weight.dim() != 1 or any(True for _ in module.children()):
        return None
    return next(
        (
            n
            for n in ("variance_epsilon", "eps", "epsilon")
            if isinstance(getattr(module, n, None), float)
        ),
        None,
    )


def same(module: Any, epsilon: str) -> bool:
    """Whether a norm's class gives what `rms_norm` gives, tried on random numbers on the host."""
    import copy

    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes(), torch.no_grad(), torch.device("cpu"):
        generator = torch.Generator().manual_seed(7)
        probe = copy.copy(module)
        probe._parameters = {}
        probe._forward_pre_hooks, probe._forward_hooks = {}, {}
        weight = torch.randn(16, generator=generator)
        probe.register_parameter("weight", torch.nn.Parameter(weight))
        x = torch.randn(4, 16, generator=generator)
        try:
            found = type(module).forward(probe, x)
        except Exception:  # whatever it wants, it is no plain norm
            return False
        wanted = torch.nn.functional.rms_norm(x, (16,), weight, getattr(module, epsilon))
        if not isinstance(found, torch.Tensor) or found.shape != wanted.shape:
            return False
        return bool(torch.allclose(found, wanted, rtol=1e-5, atol=1e-5))


register(FusedNorm())
