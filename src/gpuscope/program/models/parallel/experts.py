"""Expert parallelism: experts on different ranks, tokens carried by all-to-all."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._functional_collectives import all_to_all_single_autograd
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Shard, distribute_tensor

from gpuscope.program.models.building.precision import holds_no_values
from gpuscope.program.models.networks.fused_steps import Reorder, order_back
from gpuscope.program.models.networks.transformer import Transformer
from gpuscope.program.models.networks.transformer_experts import MixtureOfExperts


@dataclass(frozen=True, slots=True)
class Route:
    """How tokens came: their order here, and how many went to and came from each rank.

    `back` is the order in which they came, where their order here is changed by gathers alone.
    """

    order: torch.Tensor
    sent: list[int]
    received: list[int]
    back: torch.Tensor | None = None


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
        # They come by rank, then by expert; experts want them together.
        place = torch.arange(sum(received), device=tokens.device)
        expert = torch.searchsorted(coming.cumsum(0), place, right=True) % self.here
        order = expert.argsort(stable=True)
        mine = coming.view(self.ranks, self.here).sum(0)
        if self.fused:
            back = order_back(order)
            return _reordered(arrived, order, back), mine, Route(order, sent, received, back)
        return arrived[order], mine, Route(order, sent, received)

    def back(self, tokens: torch.Tensor, route: object) -> torch.Tensor:
        """See `Exchange`."""
        assert isinstance(route, Route)
        if route.back is None:
            leaving = torch.empty_like(tokens).index_copy(0, route.order, tokens)
        else:
            leaving = _reordered(tokens, route.back, route.order)
        returned: torch.Tensor = all_to_all_single_autograd(
            leaving, route.sent, route.received, self.group
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


def _reordered(*inputs: torch.Tensor) -> torch.Tensor:
    moved: torch.Tensor = Reorder.apply(*inputs)  # type: ignore[no-untyped-call]
    return moved


def apply_expert_parallel(model: Transformer, mesh: DeviceMesh) -> None:
    """Keep of every block's experts those of this rank.

    Args:
        model: on its device.
        mesh: the ep ranks, one dimension.
    """
    for block in model.layers:
        feed = block.feed
        if not isinstance(feed, MixtureOfExperts):
            continue
        feed.exchange = AllToAll(mesh, feed.count, fused=feed.fused)
        for name, matrix in list(feed.experts.named_parameters()):
            part = nn.Parameter(distribute_tensor(matrix, mesh, [Shard(0)]))
            feed.experts.register_parameter(name, part)
