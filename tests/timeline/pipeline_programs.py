"""Costed pipelines made by hand: equal stages, host next to free, messages next to free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from timeline_programs import batch, call, kernel, ranked, recv, send

from gpuscope.cost.types import CostedOp, CostedProgram
from gpuscope.program.types import ProcessGroup

FREE = {"before_us": 0.0, "launch_us": 0.0, "after_us": 0.0}


def gpipe_order(stages: int, micro: int, stage: int) -> list[str]:
    """All forwards, then all backwards."""
    return ["F"] * micro + ["B"] * micro


def one_f_one_b_order(stages: int, micro: int, stage: int) -> list[str]:
    """As many forwards as there are stages behind, then one forward and one backward in turn."""
    ahead = min(stages - stage - 1, micro)
    return ["F"] * ahead + ["F", "B"] * (micro - ahead) + ["B"] * ahead


class StageBuilder:
    """One stage's operators; every receive is waited for by the work that needs it.

    What is sent after one piece of work and what is received before the next one is one batch, as
    the schedules of PyTorch and Megatron have it ("send forward, receive backward").
    """

    def __init__(self, stage: int, stages: int, us: dict[str, float], message_us: float) -> None:
        self.stage, self.stages, self.us, self.message_us = stage, stages, us, message_us
        self.ops: list[CostedOp] = []

    def add(self, item: CostedOp) -> int:
        self.ops.append(item)
        return len(self.ops) - 1

    def neighbour(self, what: str, ahead: bool) -> int | None:
        """The stage that `what` goes to (ahead) or comes from."""
        found = self.stage + (1 if (what == "F") == ahead else -1)
        return found if 0 <= found < self.stages else None

    def build(self, order: Sequence[str]) -> list[CostedOp]:
        needed = self.exchange(None, order[0])
        for what, following in zip(order, [*order[1:], ""], strict=True):
            done = self.add(call(kernel(self.us[what]), name=what, waits=needed, **FREE))
            needed = self.exchange((what, done), following)
        return self.ops

    def exchange(self, done: tuple[str, int] | None, following: str) -> tuple[int, ...]:
        messages = []
        if done is not None and (to := self.neighbour(done[0], True)) is not None:
            messages.append(send(self.message_us, to, stream=1, waits=(done[1],), **FREE))
        source = self.neighbour(following, False) if following else None
        if source is not None:
            messages.append(recv(self.message_us, source, stream=1, **FREE))
        placed = [self.add(item) for item in batch(*messages, number=len(self.ops) + 1)]
        return () if source is None else (placed[-1],)


def pipeline(
    orders: Sequence[Sequence[str]],
    forward_us: float = 100,
    backward_us: float = 200,
    message_us: float = 0.0,
    replicas: int = 1,
) -> tuple[list[CostedProgram], list[tuple[int, ...]]]:
    """Programs and members; ranks of one stage follow each other, `replicas` of them."""
    stages = len(orders)
    programs, members = [], []
    for stage, order in enumerate(orders):
        us = {"F": forward_us, "B": backward_us}
        rank = stage * replicas
        ops = [
            replace(item, op=replace(item.op, peer=item.op.peer * replicas))
            if item.op.peer >= 0
            else item
            for item in StageBuilder(stage, stages, us, message_us).build(order)
        ]
        group = ProcessGroup("7", "pp", tuple(s * replicas for s in range(stages)))
        world = stages * replicas
        programs.append(ranked(ops, rank, (group,), world, launch_latency_s=0.0, kernel_gap_s=0.0))
        members.append(tuple(range(rank, rank + replicas)))
    return programs, members
