"""Expert parallelism: experts on different ranks, tokens carried by all-to-all; and the matrices of
each expert cut over ranks, which gather their tokens."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812 - torch's own usage
from torch import nn
from torch.distributed import _functional_collectives as functional
from torch.distributed._functional_collectives import all_to_all_single_autograd
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Shard, distribute_tensor

from gpuscope.program.models.building.precision import holds_no_values
from gpuscope.program.models.networks.fused_steps import Reorder, order_back
from gpuscope.program.models.networks.transformer import Transformer
from gpuscope.program.models.networks.transformer_experts import Exchange, MixtureOfExperts
from gpuscope.program.models.parallel.mesh import Meshes

# Since PyTorch 2.13 they have other names.
_gathered = getattr(functional, "all_gather_single_autograd", None) or (
    functional.all_gather_tensor_autograd
)
_scattered = getattr(functional, "reduce_scatter_single_autograd", None) or (
    functional.reduce_scatter_tensor_autograd
)
_counted = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


@dataclass(frozen=True, slots=True)
class Order:
    """How tokens that came rank by rank were put in the order of their experts.

    `back` is the order in which they came, where their order here is changed by gathers alone.
    """

    order: torch.Tensor
    back: torch.Tensor | None = None

    def undone(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens in the order in which they came."""
        if self.back is None:
            return torch.empty_like(tokens).index_copy(0, self.order, tokens)
        return _reordered(tokens, self.back, self.order)


def ordered(
    came: torch.Tensor, counts: torch.Tensor, here: int, fused: bool
) -> tuple[torch.Tensor, Order]:
    """Tokens that came by rank, then by expert, put together by expert.

    Args:
        came: (n, hidden).
        counts: how many of each, rank by rank and expert by expert.
        here: experts of this rank.
        fused: rows are gathered into their order, and their gradients too.
    """
    place = torch.arange(came.shape[0], device=came.device)
    expert = torch.searchsorted(counts.cumsum(0), place, right=True) % here
    order = expert.argsort(stable=True)
    if fused:
        back = order_back(order)
        return _reordered(came, order, back), Order(order, back)
    return came[order], Order(order)


@dataclass(frozen=True, slots=True)
class Route:
    """How tokens came: their order here, and how many went to and came from each rank."""

    order: Order
    sent: list[int]
    received: list[int]


class AllToAll:
    """Carries each token to the rank of its expert and the result back (Lepikhin et al. 2020).

    The ranks first tell each other how many tokens come for each expert, and the host waits for
    those numbers: it must know the sizes of what it sends.

    Args:
        mesh: the ep ranks.
        count: routed experts, a multiple of the ranks.
        fused: rows are gathered into their order, and their gradients too.
    """

    def __init__(self, mesh: DeviceMesh, count: int, *, fused: bool = False) -> None:
        self.fused = fused
        self.group = mesh.get_group()
        self.ranks = mesh.size()
        self.here = count // self.ranks

    def there(
        self, tokens: torch.Tensor, counts: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, Route]:
        """See `Exchange`."""
        coming = torch.empty_like(counts)
        dist.all_to_all_single(coming, counts, group=self.group)
        sent, received = self._sizes(counts, coming, tokens.shape[0])
        arrived = all_to_all_single_autograd(tokens, received, sent, self.group)
        sorted_, order = ordered(arrived, coming, self.here, self.fused)
        return sorted_, coming.view(self.ranks, self.here).sum(0), Route(order, sent, received)

    def back(self, tokens: torch.Tensor, route: object) -> torch.Tensor:
        """See `Exchange`."""
        assert isinstance(route, Route)
        returned: torch.Tensor = all_to_all_single_autograd(
            route.order.undone(tokens), route.sent, route.received, self.group
        )
        return returned

    def _sizes(
        self, going: torch.Tensor, coming: torch.Tensor, total: int
    ) -> tuple[list[int], list[int]]:
        """Tokens to and from each rank, read by the host."""
        by_rank = torch.stack((going, coming)).view(2, self.ranks, self.here).sum(-1)
        sent, received = by_rank.tolist()
        if holds_no_values(str(going.device)):
            even = [total // self.ranks + (i < total % self.ranks) for i in range(self.ranks)]
            return even, even
        return sent, received


@dataclass(frozen=True, slots=True)
class Gathered:
    """What came together.

    Attributes:
        order: of the tokens of all ranks.
        mine: tokens of this rank; most: of any.
        rows: where tokens lie between those of ranks that had fewer; None where all had as many.
        before: what the exchange before it needs on the way back.
    """

    order: Order
    mine: int
    most: int
    rows: torch.Tensor | None
    before: object


class Cut:
    """Ranks that share the matrices of each expert: tokens of all are gathered before, and their
    partial results summed and given back after (Megatron-LM's `expert_tensor_parallel_size`,
    megatron/core/transformer/moe/token_dispatcher.py).

    Args:
        mesh: the etp ranks.
        here: experts of a rank.
        before: what brings tokens to these ranks; None where all experts are here.
        fused: as of `AllToAll`.
    """

    def __init__(
        self, mesh: DeviceMesh, here: int, before: Exchange | None, *, fused: bool = False
    ) -> None:
        self.group, self.ranks = mesh.get_group(), mesh.size()
        self.here, self.before, self.fused = here, before, fused

    def there(
        self, tokens: torch.Tensor, counts: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, Gathered]:
        """See `Exchange`."""
        route: object = None
        if self.before is not None:
            tokens, counts, route = self.before.there(tokens, counts)
        coming = counts.new_empty(self.ranks * self.here)
        _counted(coming, counts, group=self.group)
        mine = tokens.shape[0]
        sizes = coming.view(self.ranks, self.here).sum(-1).tolist()
        if holds_no_values(str(tokens.device)):
            sizes = [mine] * self.ranks
        most = max(sizes)
        came = _gathered(_filled(tokens, most), 0, self.group)
        rows = None
        if min(sizes) < most:
            parts = [torch.arange(n) + rank * most for rank, n in enumerate(sizes)]
            rows = torch.cat(parts).to(tokens.device)
            came = came[rows]
        sorted_, order = ordered(came, coming, self.here, self.fused)
        whole = coming.view(self.ranks, self.here).sum(0)
        return sorted_, whole, Gathered(order, mine, most, rows, route)

    def back(self, tokens: torch.Tensor, route: object) -> torch.Tensor:
        """See `Exchange`."""
        assert isinstance(route, Gathered)
        leaving = route.order.undone(tokens)
        if route.rows is not None:
            empty = leaving.new_zeros(self.ranks * route.most, leaving.shape[1])
            leaving = empty.index_copy(0, route.rows, leaving)
        summed: torch.Tensor = _scattered(leaving, "sum", 0, self.group)[: route.mine]
        return summed if self.before is None else self.before.back(summed, route.before)


def _filled(tokens: torch.Tensor, rows: int) -> torch.Tensor:
    missing = rows - tokens.shape[0]
    return F.pad(tokens, (0, 0, 0, missing)) if missing else tokens


def _reordered(*inputs: torch.Tensor) -> torch.Tensor:
    moved: torch.Tensor = Reorder.apply(*inputs)  # type: ignore[no-untyped-call]
    return moved


def apply_expert_parallel(model: Transformer, meshes: Meshes) -> None:
    """Keep of every block's experts those of this rank, and of these its part.

    Args:
        model: on its device.
        meshes: of the job; experts are spread.
    """
    spread = meshes.spread
    assert spread is not None
    for block in model.layers:
        feed = block.feed
        if not isinstance(feed, MixtureOfExperts):
            continue
        ranks = 1 if meshes.ep is None else meshes.ep.size()
        if meshes.ep is not None:
            feed.exchange = AllToAll(meshes.ep, feed.count, fused=feed.fused)
        if meshes.etp is not None:
            here = feed.count // ranks
            feed.exchange = Cut(meshes.etp, here, feed.exchange, fused=feed.fused)
        for name, matrix in list(feed.experts.named_parameters()):
            places = [Shard(0)] if meshes.ep is not None else []
            if meshes.etp is not None:  # without biases, which `checks` refuses
                places.append(Shard(1 if name == "down" else 2))
            part = nn.Parameter(distribute_tensor(matrix, spread, places))
            feed.experts.register_parameter(name, part)
