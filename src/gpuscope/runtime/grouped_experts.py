"""A layer of experts without a loop: tokens sorted by expert, one grouped product a linear.

`for e, expert in enumerate(experts): t = where(chosen == e); out[t] += expert(x[t])` asks the
device for the number of tokens of each expert, and launches small products for each. Here they are
sorted by expert once; `torch._grouped_mm` multiplies all groups in one launch, and reads where they
end from the device, so the host waits for nothing. The experts' weights are stacked for the step:
gradients flow to the original parameters, whose names, optimizer and checkpoints stay.

Where grouped products cannot run (float32, a processor, older GPUs, odd sizes), groups are
multiplied one after the other, with one wait a layer. Where experts are not of a kind that is
followed, the loop runs as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from gpuscope.runtime.equal_experts import alike
from gpuscope.runtime.row_wise import attributes_read

__all__ = ["add_experts"]

Product = Callable[[torch.Tensor, Sequence[Any]], torch.Tensor]
"""A linear layer of every expert: given sorted rows and the layers, the rows after it."""


def add_experts(
    out: torch.Tensor,
    experts: Any,
    x: torch.Tensor,
    chosen: torch.Tensor,
    weights: torch.Tensor | None = None,
    *,
    count: int | None = None,
    by_expert: bool = False,
    masked: bool = False,
) -> None:
    """Add to `out`, in place, what each token's experts make of it.

    Args:
        out: [tokens, width].
        experts: modules by number, one tensor in, one out.
        x: [tokens, width].
        chosen: numbers of experts, [tokens] or [tokens, k]; a number beyond them chooses none.
        weights: factors, of the shape of `chosen` (or with a last dimension of one); None for one.
        count: only the first experts.
        by_expert: weights are [tokens, experts] instead, one for each expert.
        masked: the loop took `x[chosen == e]`: `chosen` may have as many dimensions as `x` but one.
    """
    number = len(experts) if count is None else int(count)
    each = [experts[i] for i in range(number)]
    if masked and chosen.dim() > 1:
        if not _as_rows(out, x, chosen, weights, by_expert):
            _masked_loop(out, each, x, chosen, weights, by_expert)
            return
        out, x, chosen = out.view(-1, out.shape[-1]), x.reshape(-1, x.shape[-1]), chosen.reshape(-1)
        weights = None if weights is None else weights.reshape(-1)
    if not _fits(out, x, chosen, weights, by_expert) or not alike(each):
        _loop(out, each, x, chosen, weights, by_expert)
        return
    k = 1 if chosen.dim() == 1 else chosen.shape[1]
    expert, order = torch.sort(chosen.reshape(-1), stable=True)
    token = order if k == 1 else torch.div(order, k, rounding_mode="floor")
    held = (expert >= 0) & (expert < number)
    expert = expert.clamp(0, number - 1)
    factors = _factors(weights, order, token, expert, held, by_expert)
    rows = x.index_select(0, token)
    made = _run(each, rows, _products(rows, each, expert)) * factors.unsqueeze(-1)
    out.index_add_(0, token, made.to(out.dtype))


def _as_rows(
    out: torch.Tensor, x: torch.Tensor, chosen: torch.Tensor, weights: Any, by_expert: bool
) -> bool:
    """Whether the leading dimensions can be taken as one."""
    lead = tuple(chosen.shape)
    if not out.is_contiguous() or not lead == tuple(x.shape[:-1]) == tuple(out.shape[:-1]):
        return False
    return not by_expert and (weights is None or tuple(weights.shape) in (lead, (*lead, 1)))


def _fits(
    out: torch.Tensor, x: torch.Tensor, chosen: torch.Tensor, weights: Any, by_expert: bool
) -> bool:
    if x.dim() != 2 or chosen.dim() not in (1, 2) or chosen.shape[0] != x.shape[0]:
        return False
    if chosen.dtype not in (torch.int64, torch.int32) or out.shape[0] != x.shape[0]:
        return False
    if chosen.numel() == 0 or weights is None:
        return chosen.numel() > 0
    if by_expert:
        return bool(weights.dim() == 2 and weights.shape[0] == x.shape[0])
    return tuple(weights.shape) in (tuple(chosen.shape), (*chosen.shape, 1))


def _factors(
    weights: Any,
    order: torch.Tensor,
    token: torch.Tensor,
    expert: torch.Tensor,
    held: torch.Tensor,
    by_expert: bool,
) -> torch.Tensor:
    """A factor for each sorted row; nothing for those that no expert takes."""
    if weights is None:
        return held
    if by_expert:
        taken = weights.reshape(-1).index_select(0, token * weights.shape[1] + expert)
    else:
        taken = weights.reshape(-1).index_select(0, order)
    return taken.masked_fill(~held, 0.0)  # type: ignore[no-any-return]


def _loop(
    out: torch.Tensor,
    experts: Sequence[Any],
    x: torch.Tensor,
    chosen: torch.Tensor,
    weights: Any,
    by_expert: bool,
) -> None:
    """The loop as it was."""
    for e, expert in enumerate(experts):
        places = torch.where(chosen == e)
        made = expert(x[places[0]])
        if weights is not None:
            paired = tuple(weights.shape[: chosen.dim()]) == tuple(chosen.shape)
            factor = weights[places] if paired else weights[places[0]]
            factor = weights[places[0], e] if by_expert else factor
            made = made * (factor if factor.dim() == made.dim() else factor.unsqueeze(-1))
        out.index_add_(0, places[0], made.to(out.dtype))


def _masked_loop(
    out: torch.Tensor,
    experts: Sequence[Any],
    x: torch.Tensor,
    chosen: torch.Tensor,
    weights: Any,
    by_expert: bool,
) -> None:
    """The loop as it was, by masks of several dimensions."""
    for e, expert in enumerate(experts):
        mask = chosen == e
        made = expert(x[mask])
        if weights is not None:
            factor = weights[mask][:, e] if by_expert else weights[mask]
            made = made * (factor if factor.dim() == made.dim() else factor.unsqueeze(-1))
        out[mask] = out[mask] + made.to(out.dtype)


# -- experts ---------------------------------------------------------------------------------------


class _Stand:
    """Stands for a module whose linear layers are those of all experts."""


def _run(experts: Sequence[Any], rows: torch.Tensor, product: Product) -> torch.Tensor:
    """What a module makes of rows, in all experts at once."""
    first = experts[0]
    if type(first) is nn.Linear:
        return product(rows, experts)
    if not first._modules:
        return first(rows)  # type: ignore[no-any-return]
    if type(first) is nn.Sequential:
        for number in range(len(first)):
            rows = _run([expert[number] for expert in experts], rows, product)
        return rows
    stand: Any = _Stand()
    for name in attributes_read(type(first)):
        if name in first._modules:
            parts = [expert._modules[name] for expert in experts]
            setattr(stand, name, _called(parts, product))
        else:
            setattr(stand, name, getattr(first, name))
    return type(first).forward(stand, rows)  # type: ignore[no-any-return]


def _called(parts: list[Any], product: Product) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda rows: _run(parts, rows, product)


# -- products --------------------------------------------------------------------------------------


def _products(rows: torch.Tensor, experts: Sequence[Any], expert: torch.Tensor) -> Product:
    """How linear layers are multiplied here."""
    linears = [m for m in experts[0].modules() if type(m) is nn.Linear]
    kind = rows.device.type
    dtype = rows.dtype
    if torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
    numbers = torch.arange(len(experts), device=rows.device, dtype=expert.dtype)
    ends = torch.searchsorted(expert, numbers, right=True, out_int32=True)
    if _can_group(rows, dtype, linears):
        return lambda x, layers: _grouped(x, layers, expert, numbers, ends, dtype)
    sizes = _sizes(ends, rows.shape[0])

    def one_by_one(x: torch.Tensor, layers: Sequence[Any]) -> torch.Tensor:
        parts = torch.split(x, sizes)
        return torch.cat([layer(part) for layer, part in zip(layers, parts, strict=True)])

    return one_by_one


def _can_group(rows: torch.Tensor, dtype: torch.dtype, linears: Sequence[Any]) -> bool:
    """bfloat16 on a device that can; rows of 16 bytes (torch checks the latter)."""
    device = rows.device
    if dtype is not torch.bfloat16 or not _device_groups(device.type, device.index):
        return False
    return all(m.in_features % 8 == 0 and m.out_features % 8 == 0 for m in linears)


def _device_groups(kind: str, index: int | None) -> bool:
    """Whether grouped products run on a device: compute capability 9.0 or later."""
    if kind != "cuda" or not hasattr(torch, "_grouped_mm"):
        return False
    return torch.cuda.get_device_capability(index) >= (9, 0)


# A graph that is traced takes the answer as it is, and asks no device in every step.
_device_groups._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _sizes(ends: torch.Tensor, rows: int) -> list[int]:
    """Rows of each expert; the host waits for the device. Taken as equal where nothing is known."""
    from torch._guards import detect_fake_mode

    known = ends.cpu()
    number = known.shape[0]
    if detect_fake_mode() is not None:
        stops = [rows * (i + 1) // number for i in range(number)]
    else:
        stops = known.tolist()
    return [stop - begin for begin, stop in zip([0, *stops], stops, strict=False)]


def _grouped(
    x: torch.Tensor,
    layers: Sequence[Any],
    expert: torch.Tensor,
    numbers: torch.Tensor,
    ends: torch.Tensor,
    dtype: torch.dtype,
) -> torch.Tensor:
    """[rows, in] times [experts, in, out], each row with its own expert's weights."""
    weight = torch.stack([layer.weight for layer in layers]).to(dtype).transpose(-2, -1)
    made: torch.Tensor = torch._grouped_mm(x.to(dtype), weight, offs=ends)
    if layers[0].bias is None:
        return made
    bias = torch.stack([layer.bias for layer in layers]).to(dtype)
    # A product with ones and zeros: its gradient is a product as well, not a sum that meets at a
    # few addresses.
    chosen = (expert.unsqueeze(-1) == numbers).to(dtype)
    return torch.addmm(made, chosen, bias)
