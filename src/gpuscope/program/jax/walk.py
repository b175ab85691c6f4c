"""The walk over a compiled module's instructions in the order they run: operators and their memory.

Each instruction's result lies in a piece of memory (`Value`). What XLA's buffer assignment keeps in
place stays in place here (openxla/xla `xla/service/copy_insertion.cc`): a loop's state, a donated
argument. A loop is walked once for each of its known rounds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpuscope.document.text import Text
from gpuscope.program.jax.hlo import Array, Computation, Instruction, Module
from gpuscope.program.types import Category, Op, Phase, ProcessGroup, Storage, TensorSpec
from gpuscope.registry import Registry

__all__ = ["INSTRUCTIONS", "Value", "Walk", "instruction"]


@dataclass(frozen=True, slots=True)
class Value:
    """One array and the memory that it lies in."""

    array: Array
    storage: int

    @property
    def spec(self) -> TensorSpec:
        """As an operator sees it."""
        return self.array.spec(self.storage)

    def read(self, elements: int) -> TensorSpec:
        """So many of its elements, one after the other."""
        flat = Array(self.array.dtype, (elements,), (0,), self.array.host)
        return flat.spec(self.storage)


@dataclass(slots=True)
class Buffer:
    """A piece of memory while it is being walked."""

    nbytes: int
    category: Category
    born: int
    label: str
    module: str = ""
    last: int = -1
    kept: bool = False


Emitter = Callable[["Walk", Instruction], None]

INSTRUCTIONS = Registry[Emitter](Text("XLA instruction"), "gpuscope.program.jax.instructions")


def instruction(*opcodes: str) -> Callable[[Emitter], Emitter]:
    """Register what turns instructions of these opcodes into operators; of a custom call the
    opcode is its target."""

    def register(emitter: Emitter) -> Emitter:
        for opcode in opcodes:
            INSTRUCTIONS.add(opcode, emitter)
        return emitter

    return register


FREE = frozenset(
    (
        "parameter constant get-tuple-element tuple bitcast after-all add-dependency "
        "opt-barrier partition-id replica-id copy-done async-update domain"
    ).split()
)
"""Opcodes without a kernel: names for memory that is there."""

_MOST_ROUNDS = 4096
"""Rounds of a loop that are walked one by one."""


@dataclass
class Walk:
    """A module's walk under way.

    Attributes:
        module: what is walked.
        world: ranks of the job.
        ops, buffers, groups: what was found so far.
        started: memory of collectives' results that nothing has waited for.
        notes: what the reader should know.
    """

    module: Module
    world: int = 1
    ops: list[Op] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    groups: list[ProcessGroup] = field(default_factory=list)
    notes: dict[Text, None] = field(default_factory=dict)
    values: dict[str, tuple[Value, ...]] = field(default_factory=dict)
    wanted: dict[tuple[str, int], int] = field(default_factory=dict)
    recomputed: bool = False
    phase: Phase = "forward"
    scope: str = ""
    line: str = ""
    graph: int = 0
    runs: int = 0
    started: set[int] = field(default_factory=set)

    # -- memory ------------------------------------------------------------------------------------

    def buffer(self, nbytes: int, category: Category, label: str, born: int | None = None) -> int:
        """A new piece of memory; its number."""
        at = len(self.ops) if born is None else born
        self.buffers.append(Buffer(nbytes, category, at, label, _module(self.scope), last=at))
        return len(self.buffers) - 1

    def operands(self, given: Instruction) -> tuple[Value, ...]:
        """The arrays that an instruction takes, tuples flattened."""
        return tuple(value for name in given.operands for value in self.values.get(name, ()))

    def result(
        self, given: Instruction, arrays: Sequence[Array] | None = None
    ) -> tuple[Value, ...]:
        """Memory for an instruction's result."""
        made = []
        for number, array in enumerate(given.arrays if arrays is None else arrays):
            storage = self.wanted.get((given.name, number))
            if storage is None:
                backward = self.phase == "backward"
                category: Category = "temporary" if backward else "activation"
                storage = self.buffer(array.nbytes, category, given.opcode)
            made.append(Value(array, storage))
        self.values[given.name] = tuple(made)
        return tuple(made)

    # -- operators ---------------------------------------------------------------------------------

    def emit(
        self,
        name: str,
        inputs: Iterable[TensorSpec],
        outputs: Iterable[TensorSpec],
        args: Mapping[str, object] | None = None,
        **more: Any,
    ) -> int:
        """Add an operator; its index."""
        index = len(self.ops)
        op = Op(
            index=index,
            name=name,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            args=args or {},
            module=_module(self.scope),
            phase=self.phase,
            line=self.line,
            recomputed=self.recomputed,
            graph=self.graph,
        )
        for spec in (*op.inputs, *op.outputs):
            if spec.storage >= 0:
                self.buffers[spec.storage].last = index
        self.ops.append(replace(op, **more))
        return index

    def note(self, text: Text) -> None:
        """Something that a reader of the result should know; once."""
        self.notes[text] = None

    def group(self, ranks: tuple[int, ...]) -> int:
        """The number of the process group of these ranks."""
        for number, each in enumerate(self.groups):
            if each.ranks == ranks:
                return number
        label = "world" if len(ranks) == self.world else ""
        name = ",".join(map(str, ranks))
        self.groups.append(ProcessGroup(name, label, ranks))
        return len(self.groups) - 1

    # -- walking -----------------------------------------------------------------------------------

    def computation(self, name: str) -> Computation:
        """The computation of that name."""
        return self.module.computations[name]

    def run(self, computation: Computation) -> tuple[Value, ...]:
        """Walk a computation whose parameters have their values; its result."""
        for given in computation.instructions:
            self._place(given)
            self._one(given)
        return self.values[computation.root.name]

    def _one(self, given: Instruction) -> None:
        opcode = given.opcode
        if opcode in FREE:
            self._name(given)
        elif opcode == "while":
            self._loop(given)
        elif opcode in ("call", "conditional"):
            self._call(given)
        else:
            key = given.attributes.get("custom_call_target", "") or opcode
            emitter = INSTRUCTIONS.find(key) or INSTRUCTIONS.find(_family(key))
            (emitter or unknown)(self, given)

    def _place(self, given: Instruction) -> None:
        """Where in the user's step the instruction belongs; without a word of it, as the last."""
        scope = given.scope
        if not scope or given.opcode in FREE:
            return
        self.scope = scope
        self.line = self.module.lines.get(given.frame, "")
        self.recomputed = "rematted_computation" in scope
        if "transpose(" in scope or self.recomputed:
            self.phase = "backward"
        elif "jvp(" in scope or self.phase == "forward":
            self.phase = "forward"
        else:
            self.phase = "optimizer"

    def _name(self, given: Instruction) -> None:
        if given.opcode == "get-tuple-element":
            values = self.values.get(given.operands[0], ())
            index = int(given.attributes.get("index", "0"))
            self.values[given.name] = values[index : index + 1]
        elif given.opcode == "constant":
            self.values[given.name] = tuple(Value(array, -1) for array in given.arrays)
        elif given.opcode in ("bitcast", "copy-done"):
            values = self.operands(given)
            self.values[given.name] = tuple(
                Value(array, value.storage)
                for array, value in zip(given.arrays, values, strict=False)
            )
        elif given.opcode != "parameter":
            self.values[given.name] = self.operands(given)

    def _loop(self, given: Instruction) -> None:
        """All rounds of a `while`; its state stays where it is."""
        state = self.operands(given)
        body = self.computation(given.called("body"))
        count = given.config.get("known_trip_count", {}).get("n")
        rounds = int(count) if count is not None else 1
        if count is None:
            self.note(Text("A loop without a known number of rounds is taken to run once."))
        repeat = 1
        if rounds > _MOST_ROUNDS:
            rounds, repeat = 1, rounds
        (parameter,) = body.parameters
        for _ in range(rounds):
            self.values[parameter.name] = state
            self.place_results(body, [value.storage for value in state])
            first = len(self.ops)
            self.begin_round()
            self.run(body)
            if repeat > 1:
                self.ops[first:] = [replace(op, repeat=repeat) for op in self.ops[first:]]
        self.begin_round()
        self.values[given.name] = state

    def begin_round(self) -> None:
        """A round's operators are no part of the command buffer before it."""
        self.runs += 1
        self.graph = self.runs

    def _call(self, given: Instruction) -> None:
        """A computation in line; of a conditional its longest branch."""
        named = given.attributes.get("branch_computations", "")
        names = re.findall(r"%([^\s,}]+)", named)
        names = names or [
            given.called(each)
            for each in ("to_apply", "true_computation", "false_computation")
            if given.called(each)
        ]
        longest = max(names, key=lambda name: len(self.computation(name).instructions))
        place = names.index(longest)
        values = [self.values.get(name, ()) for name in given.operands]
        if given.opcode == "conditional":
            self.note(Text("A conditional is taken to run its longest branch."))
            values = values[1 + place : 2 + place]
        body = self.computation(longest)
        for parameter, value in zip(body.parameters, values, strict=False):
            self.values[parameter.name] = value
        self.values[given.name] = self.run(body)

    def place_results(self, computation: Computation, storages: Sequence[int | None]) -> None:
        """Let what makes a computation's results write them into these pieces of memory."""
        by_name = computation.by_name

        def define(name: str, number: int, storage: int) -> None:
            given = by_name.get(name)
            if given is None or given.opcode in ("parameter", "constant"):
                return
            if given.opcode == "tuple":
                inner = self._flat(computation, given)
                if number < len(inner):
                    define(*inner[number], storage)
            elif given.opcode == "get-tuple-element":
                define(given.operands[0], int(given.attributes.get("index", "0")), storage)
            elif given.opcode in FREE or given.opcode.endswith("-done") or given.opcode == "while":
                define(given.operands[0], number, storage)
            else:
                self.wanted[name, number] = storage

        for number, storage in enumerate(storages):
            if storage is not None and storage >= 0:
                define(computation.root.name, number, storage)

    def _flat(self, computation: Computation, given: Instruction) -> list[tuple[str, int]]:
        by_name = computation.by_name
        return [
            (name, number)
            for name in given.operands
            for number in range(max(1, len(by_name[name].arrays) if name in by_name else 1))
        ]

    def storages(self) -> tuple[Storage, ...]:
        """All memory, with its life."""
        handed = self._handed_on()
        found = []
        for number, each in enumerate(self.buffers):
            died = None if each.kept else each.last + (0 if number in handed else 1)
            found.append(
                Storage(
                    number, each.nbytes, each.category, each.born, died, each.module, each.label
                )
            )
        return tuple(found)

    def _handed_on(self) -> set[int]:
        """Memory that a kernel reads last and writes its result into.

        openxla/xla `xla/service/gpu/alias_info.cc`: an elementwise fusion may share an operand's
        buffer of its result's size.
        """
        handed: set[int] = set()
        for op in self.ops:
            if op.args.get("reduction") != "":
                continue
            sizes = [
                self.buffers[spec.storage].nbytes
                for spec in op.outputs
                if spec.storage >= 0 and self.buffers[spec.storage].born == op.index
            ]
            for spec in op.inputs:
                each = self.buffers[spec.storage] if spec.storage >= 0 else None
                if each is None or each.kept or each.last != op.index or spec.storage in handed:
                    continue
                if 0 <= each.born < op.index and each.nbytes in sizes:
                    sizes.remove(each.nbytes)
                    handed.add(spec.storage)
        return handed


def unknown(walk: Walk, given: Instruction) -> None:
    """Reads its operands and writes its result; its name is told as one without a model."""
    target = given.attributes.get("custom_call_target", "") or given.opcode
    inputs = [value.spec for value in walk.operands(given)]
    outputs = [value.spec for value in walk.result(given)]
    if inputs or outputs:
        walk.emit(f"xla::{target}", inputs, outputs)


def _family(key: str) -> str:
    """Custom calls and asynchronous instructions by what they begin with."""
    if key.endswith(("-start", "-done")):
        return "async"
    return key.partition("$")[0] + "$" if "$" in key else key


_WRAPPED = re.compile(r"^(?:jvp|transpose|vmap|remat|checkpoint|shard_map)\((.*)\)$")

_PLUMBING = frozenset(
    (
        "while body cond closed_call checkpoint rematted_computation pjit custom_vjp_call "
        "custom_jvp_call shard_map remat branch_0_fun main"
    ).split()
)


def _module(scope: str) -> str:
    """The named scopes that an operator lies in, without JAX's own: Flax writes its modules."""
    parts = []
    for part in scope.split("/")[:-1]:
        while found := _WRAPPED.match(part):
            part = found[1]
        if part and part not in _PLUMBING and not part.startswith("jit("):
            parts.append(part)
    return ".".join(parts)
