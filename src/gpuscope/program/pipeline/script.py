"""What each rank of a pipeline does, turn by turn: passes, sends and receives, and what waits.

Transfers are placed, batched and waited for as PyTorch's schedules do it at run time: 1F1B sends
and receives in one batch and waits for both before it goes on; the schedules of several stages post
a receive as soon as the sender has its data under way, wait for it just before its use, and wait
for what they sent at the end of the step only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from gpuscope.program.pipeline.orders import Action, PipelineShape, compute_order

__all__ = ["Payload", "Sharing", "Turn", "TurnKind", "in_flight", "late_reductions", "scripts"]

TurnKind = Literal[
    "forward", "backward", "backward_input", "backward_weight", "reduce", "finish", "send", "recv"
]

Payload = Literal["", "activation", "gradient"]

Sharing = Literal["in_turn", "at_ends", "beside"]
"""When replicas gather parameters and sum gradients, see `Software.sharing`."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One thing that a rank's host issues.

    Attributes:
        kind: a pass of a microbatch, the synchronisation of gradients, the end of the step
            ("finish": clipping, optimizer), or a transfer.
        stage: the stage of this rank that it belongs to; -1 for "finish".
        microbatch: which one; -1 for "reduce" and "finish".
        payload: what a transfer carries.
        peer: rank of the pipeline at the other end of a transfer; -1 for anything else.
        batch: transfers of one number are issued as one (`batch_isend_irecv`); -1: alone.
        waits: earlier turns (positions in the rank's script) that the rank's stream waits for
            before this one.
    """

    kind: TurnKind
    stage: int
    microbatch: int = -1
    payload: Payload = ""
    peer: int = -1
    batch: int = -1
    waits: tuple[int, ...] = ()

    @property
    def transfer(self) -> bool:
        """Whether it sends or receives."""
        return self.kind in ("send", "recv")


@lru_cache(maxsize=32)
def scripts(shape: PipelineShape) -> tuple[tuple[Turn, ...], ...]:
    """The turns of every rank of a pipeline, by rank.

    The last turn of each is "finish".
    """
    if shape.schedule == "gpipe":
        return tuple(_gpipe(shape, rank) for rank in range(shape.ranks))
    if shape.schedule == "1f1b":
        return tuple(_one_forward_one_backward(shape, rank) for rank in range(shape.ranks))
    return tuple(_run_time(shape, actions) for actions in _with_transfers(shape))


class _Writer:
    """Collects the turns of one rank; waits are carried by the next turn."""

    def __init__(self, shape: PipelineShape) -> None:
        self.shape = shape
        self.turns: list[Turn] = []
        self._waits: tuple[int, ...] = ()
        self._batches = 0

    def add(self, turn: Turn) -> int:
        """Issue a turn after what was waited for; returns its position."""
        waits, self._waits = self._waits, ()
        self.turns.append(
            Turn(
                turn.kind,
                turn.stage,
                turn.microbatch,
                turn.payload,
                turn.peer,
                turn.batch,
                tuple(sorted(set(waits))),
            )
        )
        return len(self.turns) - 1

    def wait(self, turns: list[int]) -> None:
        """What comes next runs after these transfers."""
        self._waits += tuple(turns)

    def batch(self, turns: list[Turn]) -> list[int]:
        """`_batch_p2p`: sends and receives together are one batch, one kind alone is not."""
        if len({turn.kind for turn in turns}) > 1:
            number, self._batches = self._batches, self._batches + 1
            turns = [Turn(t.kind, t.stage, t.microbatch, t.payload, t.peer, number) for t in turns]
        return [self.add(turn) for turn in turns]

    def transfer(
        self, kind: Literal["send", "recv"], stage: int, microbatch: int, payload: Payload
    ) -> list[Turn]:
        """The one transfer of a stage's data, or none at the ends of the pipeline."""
        onward = (kind == "send") == (payload == "activation")
        other = stage + 1 if onward else stage - 1
        if not 0 <= other < self.shape.stages:
            return []
        peer = self.shape.rank_of(other)
        if peer == self.shape.rank_of(stage):
            return []
        return [Turn(kind, stage, microbatch, payload, peer)]

    def done(self) -> tuple[Turn, ...]:
        """All turns, the end of the step included."""
        self.add(Turn("finish", -1))
        return tuple(self.turns)


def _gpipe(shape: PipelineShape, rank: int) -> tuple[Turn, ...]:
    """`ScheduleGPipe._step_microbatches`."""
    out, sent = _Writer(shape), []
    for i in range(shape.microbatches):
        out.wait(out.batch(out.transfer("recv", rank, i, "activation")))
        out.add(Turn("forward", rank, i))
        sent += out.batch(out.transfer("send", rank, i, "activation"))
    out.wait(sent)
    sent = []
    for i in range(shape.microbatches):
        out.wait(out.batch(out.transfer("recv", rank, i, "gradient")))
        out.add(Turn("backward", rank, i))
        sent += out.batch(out.transfer("send", rank, i, "gradient"))
    out.wait(sent)
    out.add(Turn("reduce", rank))
    return out.done()


def _one_forward_one_backward(shape: PipelineShape, rank: int) -> tuple[Turn, ...]:
    """`Schedule1F1B._step_microbatches`."""
    out, count = _Writer(shape), shape.microbatches
    warmup = min(count, shape.ranks - rank)
    sent: list[int] = []
    for i in range(warmup):
        out.wait(out.batch(out.transfer("recv", rank, i, "activation")))
        out.add(Turn("forward", rank, i))
        out.wait(sent)
        if i != warmup - 1:
            sent = out.batch(out.transfer("send", rank, i, "activation"))
    forwards, backwards = warmup, 0
    while True:
        send = out.transfer("send", rank, forwards - 1, "activation")
        out.wait(out.batch(send + out.transfer("recv", rank, backwards, "gradient")))
        out.add(Turn("backward", rank, backwards))
        send = out.transfer("send", rank, backwards, "gradient")
        backwards += 1
        if forwards == count:
            break
        out.wait(out.batch(send + out.transfer("recv", rank, forwards, "activation")))
        out.add(Turn("forward", rank, forwards))
        forwards += 1
    sent = out.batch(send)
    for i in range(backwards, count):
        out.wait(out.batch(out.transfer("recv", rank, i, "gradient")))
        out.add(Turn("backward", rank, i))
        out.wait(sent)
        sent = out.batch(out.transfer("send", rank, i, "gradient"))
    out.wait(sent)
    out.add(Turn("reduce", rank))
    return out.done()


_LETTERS = {
    "forward": "F",
    "backward": "B",
    "backward_input": "I",
    "backward_weight": "W",
    "reduce": "REDUCE_GRAD",
}


def _with_transfers(shape: PipelineShape) -> list[list[Any]]:
    """The compute order of every rank with PyTorch's sends and receives in between."""
    from torch.distributed.pipelining import schedules

    def theirs(action: Action) -> Any:
        microbatch = None if action.microbatch < 0 else action.microbatch
        kind = schedules._ComputationType.from_str(_LETTERS[action.kind])
        return schedules._Action(action.stage, kind, microbatch)

    order = {
        rank: [theirs(action) for action in actions]
        for rank, actions in enumerate(compute_order(shape))
    }
    whole = schedules._add_send_recv(order, shape.rank_of, shape.stages)
    return [whole[rank] for rank in range(shape.ranks)]


def _run_time(shape: PipelineShape, actions: list[Any]) -> tuple[Turn, ...]:
    """`_PipelineScheduleRuntime._step_microbatches`."""
    out = _Writer(shape)
    names: dict[str, TurnKind] = {
        "F": "forward",
        "B": "backward",
        "I": "backward_input",
        "W": "backward_weight",
    }
    received: dict[tuple[str, int, int], list[int]] = {}
    sent: list[int] = []
    for action in actions:
        code, stage, microbatch = action.computation_type.value, action.stage_index, -1
        if code == "REDUCE_GRAD":
            out.add(Turn("reduce", stage))
            continue
        microbatch = action.microbatch_index
        payload: Payload = "activation" if code.endswith("F") else "gradient"
        if code.startswith("SEND"):
            sent += out.batch(out.transfer("send", stage, microbatch, payload))
        elif code.startswith("RECV"):
            key = (payload, stage, microbatch)
            received[key] = out.batch(out.transfer("recv", stage, microbatch, payload))
        else:
            if code != "W":
                out.wait(received.pop((payload, stage, microbatch), []))
            out.add(Turn(names[code], stage, microbatch))
    out.wait(sent)
    return out.done()


def late_reductions(
    turns: tuple[Turn, ...], how: Sharing, units: Mapping[int, int]
) -> tuple[Turn, ...]:
    """The turns of a rank with its reductions where the software has them.

    Args:
        turns: as `scripts` gives them.
        how: "in_turn", PyTorch's way: after a stage's last pass, and the passes of the rank's other
            stages wait for it. "at_ends": all of them after the last pass of all, as Megatron-LM's
            `finalize_model_grads` does without overlap
            (megatron/core/distributed/finalize_model_grads.py). "beside": only the end of the
            step waits for them (`--overlap-grad-reduce`,
            megatron/core/distributed/param_and_grad_buffer.py). Of several units each is summed as
            soon as the last pass has its gradients; here all begin with that pass, a unit's share
            of it early. A single one begins after it.
        units: of each stage.
    """
    if how == "in_turn":
        return turns
    late = [at for at, turn in enumerate(turns) if turn.kind == "reduce"]
    if how == "beside":
        owed = {wait for at in late for wait in turns[at].waits}  # what was sent, by then
        every = [replace(turn, waits=()) if at in late else turn for at, turn in enumerate(turns)]
        every[-1] = replace(every[-1], waits=tuple(sorted({*every[-1].waits, *late, *owed})))
        turns = tuple(every)
        order = _with_last_pass(turns, late, units)
    else:
        order = [at for at in range(len(turns) - 1) if at not in set(late)]
        order += [*late, len(turns) - 1]
    new = {at: number for number, at in enumerate(order)}
    return tuple(
        replace(turns[at], waits=tuple(sorted(new[wait] for wait in turns[at].waits)))
        for at in order
    )


def _with_last_pass(
    turns: tuple[Turn, ...], late: list[int], units: Mapping[int, int]
) -> list[int]:
    """Positions with the reductions of several units before their stage's last backward pass."""
    before: dict[int, int] = {}
    for at in late:
        if units.get(turns[at].stage, 1) > 1:
            passes = [n for n in range(at) if turns[n].stage == turns[at].stage]
            last = max((n for n in passes if turns[n].kind.startswith("backward")), default=at)
            before[last] = at
    early = set(before.values())
    order: list[int] = []
    for at in range(len(turns)):
        if at in before:
            order.append(before[at])
        if at not in early:
            order.append(at)
    return order


def in_flight(turns: tuple[Turn, ...]) -> int:
    """Most microbatches whose activations a rank holds at once (virtual stages count each)."""
    held = most = 0
    for turn in turns:
        if turn.kind == "forward":
            held += 1
            most = max(most, held)
        elif turn.kind in ("backward", "backward_weight"):
            held -= 1
    return most
