"""In which order each rank of a pipeline computes, by schedule.

The orders are PyTorch's: those of its multi-stage schedules are asked from its own generators
(`torch.distributed.pipelining.schedules`), which need no process group; GPipe and 1F1B follow the
loops of `ScheduleGPipe` and `Schedule1F1B`. The schedules themselves: GPipe (Huang et al. 2019,
arXiv:1811.06965), 1F1B and its interleaved form (Narayanan et al. 2021, arXiv:2104.04473), looped
breadth-first (Lamy-Poirier 2023, arXiv:2211.05953), zero bubble (Qi et al. 2024, arXiv:2401.10241).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Literal

from gpuscope.document.text import Text, joined
from gpuscope.errors import InvalidValueError, UnknownNameError

__all__ = [
    "SCHEDULES",
    "Action",
    "Kind",
    "PipelineShape",
    "bubble_fraction",
    "compute_order",
    "stage_of_rank",
]

Kind = Literal["forward", "backward", "backward_input", "backward_weight", "reduce"]

SCHEDULES = {
    "gpipe": "all forwards, then all backwards",
    "1f1b": "one forward, one backward",
    "interleaved": "1F1B over several virtual stages a rank",
    "looped-bfs": "GPipe over several virtual stages a rank",
    "zb": "1F1B with the backward of weights deferred into the bubble (ZB1P)",
    "zbv": "two virtual stages a rank in a V, backward of weights deferred",
}
"""Schedules by the name a user types, with what they do."""

SINGLE = frozenset({"gpipe", "1f1b"})
"""Schedules of one stage a rank, which PyTorch runs by loops of their own."""

SPLIT = frozenset({"zb", "zbv"})
"""Schedules that split the backward into that of inputs and that of weights."""


@dataclass(frozen=True, slots=True)
class Action:
    """One piece of a rank's work: a pass of one microbatch through one stage.

    Attributes:
        kind: which pass; "reduce" is the synchronisation of gradients after the last one.
        stage: global stage number, 0 is the first of the model.
        microbatch: which one; -1 for "reduce".
    """

    kind: Kind
    stage: int
    microbatch: int = -1


@dataclass(frozen=True, slots=True)
class PipelineShape:
    """A pipeline: its schedule, ranks, virtual stages a rank, and microbatches a step.

    Attributes:
        schedule: one of `SCHEDULES`.
        ranks: ranks of the pipeline.
        microbatches: microbatches of a step.
        virtual: stages a rank holds.
    """

    schedule: str
    ranks: int
    microbatches: int
    virtual: int = 1

    def __post_init__(self) -> None:
        """Refuse what the schedule cannot run.

        Raises:
            UnknownNameError: no such schedule.
            InvalidValueError: numbers that the schedule does not allow.
        """
        if self.schedule not in SCHEDULES:
            raise UnknownNameError(Text("schedule"), self.schedule, list(SCHEDULES))
        if min(self.ranks, self.microbatches, self.virtual) < 1:
            raise InvalidValueError(
                Text(
                    "A pipeline of {ranks} ranks, {virtual} stages each, with {microbatches} "
                    "microbatches cannot be.",
                    ranks=self.ranks,
                    virtual=self.virtual,
                    microbatches=self.microbatches,
                ),
                Text("Each is one or more."),
                Text("Type for example: --pp 4 --schedule 1f1b"),
            )
        self._check_virtual()
        self._check_microbatches()

    def _check_virtual(self) -> None:
        if self.schedule in SINGLE and self.virtual > 1:
            raise InvalidValueError(
                Text(
                    "The schedule '{schedule}' has one stage a rank, not {virtual}.",
                    schedule=self.schedule,
                    virtual=self.virtual,
                ),
                Text("Only interleaved schedules keep several virtual stages on a rank."),
                Text("Use --schedule interleaved, or leave out the virtual stages."),
            )
        if self.schedule == "zbv" and self.virtual != 2:
            raise InvalidValueError(
                Text(
                    "The schedule 'zbv' has two stages a rank, not {virtual}.", virtual=self.virtual
                ),
                Text("Its stages go down the ranks and up again, like a V."),
                Text("Give two virtual stages, or use --schedule zb."),
            )

    def _check_microbatches(self) -> None:
        if self.schedule == "1f1b" and self.microbatches < self.ranks:
            raise InvalidValueError(
                Text(
                    "1F1B needs as many microbatches as stages: {microbatches} are fewer than "
                    "{ranks}.",
                    microbatches=self.microbatches,
                    ranks=self.ranks,
                ),
                Text("PyTorch's Schedule1F1B refuses fewer."),
                Text(
                    "Make the global batch {ranks} microbatches or more, or use --schedule gpipe.",
                    ranks=self.ranks,
                ),
            )
        rounds = max(1, self.microbatches // self.ranks)
        if self.schedule in ("interleaved", "zb") and self.microbatches % rounds:
            fits = [m for m in (self.ranks * rounds, self.ranks * (rounds + 1)) if m > 0]
            raise InvalidValueError(
                Text(
                    "{microbatches} microbatches do not divide into {rounds} rounds.",
                    microbatches=self.microbatches,
                    rounds=rounds,
                ),
                Text("Interleaved schedules give each round of the pipeline as many microbatches."),
                Text(
                    "Use {fits} microbatches, or --schedule 1f1b.",
                    fits=joined(map(str, fits), " or "),
                ),
            )

    @property
    def stages(self) -> int:
        """Stages of the whole pipeline."""
        return self.ranks * self.virtual

    def rank_of(self, stage: int) -> int:
        """The rank of the pipeline that holds a stage: in loops, or in a V for "zbv"."""
        if self.schedule == "zbv" and (stage // self.ranks) % 2:
            return self.ranks - 1 - stage % self.ranks
        return stage % self.ranks


def stage_of_rank(shape: PipelineShape, rank: int) -> tuple[int, ...]:
    """The stages that a rank holds, in the order of the model."""
    return tuple(s for s in range(shape.stages) if shape.rank_of(s) == rank)


def bubble_fraction(shape: PipelineShape) -> float | None:
    """Share of a step that a rank idles, for equal stages and free transfers; None if unknown.

    (p-1)/(vm+p-1): Narayanan et al. 2021, section 2.2, as a share of the whole step. Zero-bubble
    schedules depend on how the backward splits, so they have none here.
    """
    if shape.schedule in SPLIT:
        return None
    ramp = shape.ranks - 1
    return ramp / (shape.virtual * shape.microbatches + ramp)


@lru_cache(maxsize=32)
def compute_order(shape: PipelineShape) -> tuple[tuple[Action, ...], ...]:
    """What each rank of the pipeline computes, in order, without communication.

    Returns:
        A tuple of actions for each rank. The last action on a stage is its "reduce".
    """
    if shape.schedule == "gpipe":
        orders = [_gpipe(shape, rank) for rank in range(shape.ranks)]
    elif shape.schedule == "1f1b":
        orders = [_one_forward_one_backward(shape, rank) for rank in range(shape.ranks)]
    else:
        orders = [_own(actions) for actions in _of_torch(shape)]
    return tuple(_with_reduce(order, shape.microbatches) for order in orders)


def _gpipe(shape: PipelineShape, rank: int) -> list[Action]:
    count = shape.microbatches
    return [
        *(Action("forward", rank, i) for i in range(count)),
        *(Action("backward", rank, i) for i in range(count)),
    ]


def _one_forward_one_backward(shape: PipelineShape, rank: int) -> list[Action]:
    """`Schedule1F1B`: the last stage warms up with one forward, each before it with one more."""
    warmup = min(shape.microbatches, shape.ranks - rank)
    order = [Action("forward", rank, i) for i in range(warmup)]
    for i in range(shape.microbatches):
        order.append(Action("backward", rank, i))
        if i + warmup < shape.microbatches:
            order.append(Action("forward", rank, i + warmup))
    return order


_TORCH_CLASSES = {
    "interleaved": "ScheduleInterleaved1F1B",
    "looped-bfs": "ScheduleLoopedBFS",
    "zb": "ScheduleInterleavedZeroBubble",
    "zbv": "ScheduleZBVZeroBubble",
}


def _of_torch(shape: PipelineShape) -> list[list[Any]]:
    """The orders of PyTorch's multi-stage schedules, from the methods that make them."""
    from torch.distributed.pipelining import schedules

    rounds = max(1, shape.microbatches // shape.ranks)
    facts = SimpleNamespace(
        pp_group_size=shape.ranks,
        n_local_stages=shape.virtual,
        num_stages=shape.stages,
        _n_microbatches=shape.microbatches,
        _num_stages=shape.stages,
        microbatches_per_round=shape.microbatches // rounds,
        _stages=[None] * shape.virtual,
    )
    kind = getattr(schedules, _TORCH_CLASSES[shape.schedule])
    order = kind._calculate_single_rank_operations
    return [order(facts, rank) for rank in range(shape.ranks)]


_KINDS: dict[str, Kind] = {
    "F": "forward",
    "B": "backward",
    "I": "backward_input",
    "W": "backward_weight",
}


def _own(actions: list[Any]) -> list[Action]:
    """PyTorch's actions as ours; its placeholders for idle time carry no meaning at run time."""
    return [
        Action(_KINDS[a.computation_type.value], a.stage_index, a.microbatch_index)
        for a in actions
        if a is not None
    ]


def _with_reduce(order: list[Action], microbatches: int) -> tuple[Action, ...]:
    """Gradients of a stage are synchronised after its last backward pass."""
    left: dict[int, int] = {}
    out: list[Action] = []
    for action in order:
        out.append(action)
        if action.kind in ("backward", "backward_weight"):
            left[action.stage] = left.get(action.stage, microbatches) - 1
            if not left[action.stage]:
                out.append(Action("reduce", action.stage))
    return tuple(out)
