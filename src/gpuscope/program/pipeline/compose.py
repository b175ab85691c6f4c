"""A pipeline rank's step, composed from the blocks of its stages in the order of its script.

A stage is captured over two microbatches; its step of any number of them repeats the second one's
blocks. Memory of one microbatch lives from its forward to its backward wherever the schedule puts
them, so the activations that a rank holds come out of the schedule. Pure data; knows no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.program.pipeline.blocks import SHARED, BlockKey, StageBlocks
from gpuscope.program.pipeline.orders import PipelineShape
from gpuscope.program.pipeline.placed_stage import Numbers, PlacedStage
from gpuscope.program.pipeline.script import Sharing, Turn, late_reductions, scripts
from gpuscope.program.types import Op, ProcessGroup, Program, Storage

__all__ = ["ASIDE", "RankPlace", "compose"]

ASIDE = 90
"""Stream of what replicas share beside the passes; PyTorch numbers its own from 0 on."""


@dataclass(frozen=True, slots=True)
class RankPlace:
    """Where a composed rank stands in its job.

    Attributes:
        rank: global rank.
        world_size: ranks of the job.
        pipeline: the process group of its pipeline, its ranks in the order of the stages.
    """

    rank: int
    world_size: int
    pipeline: ProcessGroup

    @property
    def position(self) -> int:
        """Its rank within the pipeline."""
        return self.pipeline.ranks.index(self.rank)


def compose(
    stages: Mapping[int, StageBlocks],
    shape: PipelineShape,
    place: RankPlace,
    *,
    name: str = "",
    sharing: Sharing = "in_turn",
) -> Program:
    """The step of one rank of a pipeline.

    Args:
        stages: blocks of the stages that this rank holds, by stage number. Equal stages may be
            given the same blocks.
        shape: schedule, ranks, virtual stages and microbatches.
        place: which rank of which job this is.
        name: what to call the program; the first stage's name by default.
        sharing: when replicas gather parameters and sum gradients, see `Software.sharing`.

    Raises:
        InvalidValueError: blocks are missing, or do not suit the schedule.
    """
    units = {stage: blocks.units for stage, blocks in stages.items()}
    turns = late_reductions(scripts(shape)[place.position], sharing, units)
    held = sorted({turn.stage for turn in turns if turn.stage >= 0})
    _check(stages, shape, held, turns)
    names = Numbers()
    parts = {stage: PlacedStage(stages[stage], names) for stage in held}
    writer = _Writer(parts, _groups(parts, place), place)
    gathered = {
        stage: writer.begin(part, aside=sharing == "beside") for stage, part in parts.items()
    }
    positions: list[int] = []
    for turn in turns:
        waits = [positions[w] for w in turn.waits]
        if turn.transfer:
            positions.append(writer.transfer(parts[turn.stage], turn, waits))
            continue
        if turn.kind == "reduce" and sharing == "beside":
            positions.append(writer.aside(parts[turn.stage], ("reduce", SHARED)))
            continue
        needed = gathered.pop(turn.stage, []) if turn.kind == "forward" else []
        several = units.get(turn.stage, 1) > 1
        owed = writer.waiting(waits if several else [*waits, *needed])
        for part in parts.values() if turn.kind == "finish" else (parts[turn.stage],):
            writer.block(part, part.key_of(turn), turn.microbatch, owed)
            owed = writer.owed
        positions.append(len(writer.ops) - 1)
        if several:  # the pass needs the last unit's parameters near its end only
            writer.waiting(needed)
    return _program(writer, parts, shape, place, name)


def _check(
    stages: Mapping[int, StageBlocks],
    shape: PipelineShape,
    held: Sequence[int],
    turns: Sequence[Turn],
) -> None:
    missing = [stage for stage in held if stage not in stages]
    if missing:
        raise InvalidValueError(
            Text("The blocks of stage {missing} are missing.", missing=missing[0]),
            Text(
                "This rank of '{schedule}' holds the stages {stages}.",
                schedule=shape.schedule,
                stages=", ".join(map(str, held)),
            ),
            "",
        )
    split = any(turn.kind == "backward_weight" for turn in turns)
    if any(stages[stage].split != split for stage in held):
        raise InvalidValueError(
            Text(
                "The schedule '{schedule}' needs the backward split into that of inputs and that "
                "of weights.",
                schedule=shape.schedule,
            )
            if split
            else Text(
                "The schedule '{schedule}' needs the backward whole.", schedule=shape.schedule
            ),
            Text("The stages were captured the other way."),
            Text("Capture them with split={split}", split=str(split)),
        )


class _Writer:
    """Writes a rank's operators."""

    def __init__(self, parts: Mapping[int, PlacedStage], groups: _Groups, place: RankPlace) -> None:
        self.parts, self.groups, self.where = parts, groups, place
        self.ops: list[Op] = []
        self._regions: dict[tuple[int, int, int], int] = {}
        self.owed: tuple[int, ...] = ()

    def waiting(self, waits: Sequence[int]) -> tuple[int, ...]:
        """What the default stream has been told to wait for, these included."""
        self.owed = tuple(sorted({*self.owed, *waits}))
        return self.owed

    def transfer(self, part: PlacedStage, turn: Turn, waits: Sequence[int]) -> int:
        """A send or a receive for each tensor; returns the position of the last."""
        owed = self.waiting(waits)
        self.owed = ()
        variant = part.variant(turn.microbatch)
        sending = turn.kind == "send"
        table = part.blocks.sends if sending else part.blocks.receives
        for spec in table.get((turn.payload, variant), ()):
            tensor = (part.spec(spec, turn.microbatch),)
            self.ops.append(
                Op(
                    index=len(self.ops),
                    name="c10d::send" if sending else "c10d::recv_",
                    inputs=tensor,
                    outputs=() if sending else tensor,
                    args={"tag": 0, **({"batch": turn.batch + 1} if turn.batch >= 0 else {})},
                    phase="forward",  # issued by the main thread, outside of autograd
                    group=self.groups.pipeline,
                    peer=self.where.pipeline.ranks[turn.peer],
                    waits=owed,
                    site=Text(
                        "microbatch {number}, stage {stage}",
                        number=turn.microbatch,
                        stage=turn.stage,
                    ),
                )
            )
            owed = ()
            part.used.setdefault(tensor[0].storage, len(self.ops) - 1)
            if sending:
                part.sent[tensor[0].storage] = len(self.ops) - 1
        return len(self.ops) - 1

    def begin(self, part: PlacedStage, *, aside: bool) -> list[int]:
        """What a stage does before its first pass; what that pass waits for, where it is aside."""
        key = ("begin", SHARED)
        if not aside or not part.templates(key):
            self.block(part, key, -1, ())
            return []
        return [self.aside(part, key)]

    def aside(self, part: PlacedStage, key: BlockKey) -> int:
        """A block on a stream of its own; returns the position of its last operator.

        It begins when the default stream comes to where it is issued, and does not hold that up.
        """
        owed, self.owed = self.owed, ()
        first = len(self.ops)
        before = next((op.index for op in reversed(self.ops) if _runs(op)), None)
        self.block(part, key, -1, ())
        for index in range(first, len(self.ops)):
            op = self.ops[index]
            waits = op.waits if index > first or before is None else (*op.waits, before)
            stream = op.stream or ASIDE
            self.ops[index] = replace(op, stream=stream, waits=tuple(sorted(set(waits))))
        self.owed = owed
        return len(self.ops) - 1

    def block(
        self, part: PlacedStage, key: BlockKey, microbatch: int, owed: tuple[int, ...]
    ) -> None:
        """The operators of one block as a microbatch runs them."""
        part.begins(key, microbatch, len(self.ops))
        self.owed, ops, groups = owed, self.ops, self.groups.of(part)
        for template, own in part.templates(key):
            values = dict(template)
            values["index"] = len(ops)
            whose = microbatch if own else -1
            values["inputs"] = tuple([part.spec(s, whose) for s in template["inputs"]])
            values["outputs"] = tuple([part.spec(s, whose) for s in template["outputs"]])
            if values["group"] >= 0:
                values["group"] = groups[values["group"]]
            if values["region"]:
                values["region"] = self._region(part, values["region"], microbatch)
            waits = values["waits"]
            if waits:
                waits = self._moved(part, waits, microbatch)
            if self.owed and values["stream"] == 0 and not values["view"]:
                waits, self.owed = tuple(sorted({*waits, *self.owed})), ()
            values["waits"] = waits
            ops.append(Op(**values))
        if microbatch >= 0:
            part.after[microbatch] = len(ops)

    def _region(self, part: PlacedStage, region: int, microbatch: int) -> int:
        """Calls of compiled functions are numbered anew: each microbatch makes its own."""
        key = (id(part), region, microbatch)
        return self._regions.setdefault(key, len(self._regions) + 1)

    def _moved(self, part: PlacedStage, waits: Sequence[int], microbatch: int) -> tuple[int, ...]:
        """Captured positions that an operator waits for, as positions of this program."""
        moved = (part.place(wait, microbatch) for wait in waits if wait >= 0)
        return tuple(sorted({at for at in moved if at is not None and at < len(self.ops)}))


def _runs(op: Op) -> bool:
    """Whether it is in the order of the default stream, which a transfer of its own is not."""
    return op.stream == 0 and op.peer < 0 and not op.view


class _Groups:
    """The process groups of a rank, each once, whichever stage uses it."""

    def __init__(
        self,
        groups: Sequence[ProcessGroup],
        pipeline: int,
        numbers: Mapping[int, Mapping[int, int]],
    ) -> None:
        self.groups, self.pipeline, self._numbers = tuple(groups), pipeline, numbers

    def of(self, part: PlacedStage) -> Mapping[int, int]:
        """Numbers of the groups of a stage's own capture."""
        return self._numbers[id(part)]


def _groups(parts: Mapping[int, PlacedStage], place: RankPlace) -> _Groups:
    """Collect the groups; those of a stage captured on another rank become this rank's own."""
    groups: list[ProcessGroup] = []
    numbers: dict[int, dict[int, int]] = {}
    for part in parts.values():
        program = part.blocks.program
        shift = place.rank - program.rank
        numbers[id(part)] = {}
        for index, group in enumerate(program.groups):
            moved = _as_seen_from(group, shift, program.world_size)
            if set(moved.ranks) == set(place.pipeline.ranks):
                moved = place.pipeline
            if moved not in groups:
                groups.append(moved)
            numbers[id(part)][index] = groups.index(moved)
    if place.pipeline not in groups:
        groups.append(place.pipeline)
    return _Groups(groups, groups.index(place.pipeline), numbers)


def _as_seen_from(group: ProcessGroup, shift: int, world: int) -> ProcessGroup:
    """A group of the captured rank as the rank `shift` further on has it.

    Meshes are regular: the group moves with the rank. One of the whole world, or that does not
    fit into it when moved, is the same for both.
    """
    ranks = tuple(rank + shift for rank in group.ranks)
    if not shift or group.size == world or min(ranks) < 0 or max(ranks) >= world:
        return group
    return replace(group, name=f"{group.name}+{shift}", ranks=ranks)


def _program(
    writer: _Writer,
    parts: Mapping[int, PlacedStage],
    shape: PipelineShape,
    place: RankPlace,
    name: str,
) -> Program:
    programs = [part.blocks.program for part in parts.values()]
    ops = tuple(writer.ops)
    storages = _while_used([s for part in parts.values() for s in part.storages(len(ops))], ops)
    modules = {info.path: info for program in programs for info in program.modules}
    assumptions = dict.fromkeys(a for program in programs for a in program.assumptions)
    if shape.microbatches > 2:
        same = Text("Every microbatch after the first is taken to run like the second.")
        assumptions[same] = None
    base = programs[0]
    return replace(
        base,
        name=name or base.name,
        ops=ops,
        storages=tuple(storages),
        modules=tuple(modules.values()),
        parameters=sum(p.parameters for p in programs),
        assumptions=tuple(assumptions),
        unsupported=tuple(dict.fromkeys(u for p in programs for u in p.unsupported)),
        samples=_times(base.samples, shape.microbatches),
        tokens=_times(base.tokens, shape.microbatches),
        capture_s=sum(p.capture_s for p in {id(p): p for p in programs}.values()),
        rank=place.rank,
        world_size=place.world_size,
        groups=writer.groups.groups,
    )


def _while_used(storages: Sequence[Storage], ops: Sequence[Op]) -> list[Storage]:
    """Storages that live while something names them: a reduction may be issued before its pass."""
    last: dict[int, int] = {}
    for op in ops:
        for spec in (*op.inputs, *op.outputs):
            last[spec.storage] = op.index
    return [
        replace(storage, died=last[storage.id] + 1)
        if storage.died is not None and last.get(storage.id, -1) >= storage.died
        else storage
        for storage in storages
    ]


def _times(count: int | None, microbatches: int) -> int | None:
    return None if count is None else count * microbatches
