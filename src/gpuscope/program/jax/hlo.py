"""XLA's optimised HLO, read from its text: computations of instructions in the order they run.

The text is what `HloModule::ToString` prints (openxla/xla `xla/hlo/ir/hlo_instruction.cc`): one
instruction a line, `%name = shape opcode(operands), attribute=value, ...`, and a shape's layout
lists its dimensions from the minor-most on (`xla/layout.h`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import CaptureError
from gpuscope.program.types import DTYPE_BYTES, TensorSpec

__all__ = ["Array", "Computation", "Instruction", "Module", "parse"]

_DTYPES = {
    "pred": "bool",
    "s4": "int4",
    "u4": "int4",
    "s8": "int8",
    "u8": "uint8",
    "s16": "int16",
    "u16": "uint16",
    "s32": "int32",
    "u32": "uint32",
    "s64": "int64",
    "u64": "uint64",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "c64": "complex64",
    "c128": "complex128",
    "f8e4m3fn": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
    "f8e4m3fnuz": "float8_e4m3fnuz",
    "f8e5m2fnuz": "float8_e5m2fnuz",
    "f8e8m0fnu": "float8_e8m0fnu",
}
"""Names of `xla/primitive_util.cc`, and torch's."""


@dataclass(frozen=True, slots=True)
class Array:
    """One array of an instruction's result.

    Attributes:
        dtype: torch's name.
        shape: sizes.
        layout: dimensions from the minor-most on.
        host: lies in host memory.
    """

    dtype: str
    shape: tuple[int, ...]
    layout: tuple[int, ...]
    host: bool = False

    @property
    def numel(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return int(self.numel * DTYPE_BYTES.get(self.dtype, 4))

    @property
    def stride(self) -> tuple[int, ...]:
        """Elements to step by, per dimension."""
        steps, step = [0] * len(self.shape), 1
        for dimension in self.layout:
            steps[dimension] = step
            step *= self.shape[dimension]
        return tuple(steps)

    def spec(self, storage: int = -1) -> TensorSpec:
        """The array as an operator sees it."""
        device = "host" if self.host else "device"
        return TensorSpec(self.shape, self.stride, self.dtype, device, storage)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.

    Attributes:
        name: unique in its module.
        opcode: "fusion", "dot", "all-reduce-start", ...
        arrays: the arrays of its result, tuples flattened.
        operands: names of the instructions whose results it takes.
        attributes: as text, by name ("calls", "dimensions", "custom_call_target", ...).
        parameter: number of a parameter; -1 for anything else.
        root: its result is its computation's.
    """

    name: str
    opcode: str
    arrays: tuple[Array, ...]
    operands: tuple[str, ...]
    attributes: Mapping[str, str] = field(default_factory=dict)
    parameter: int = -1
    root: bool = False

    @property
    def array(self) -> Array:
        """The first array of its result."""
        return self.arrays[0] if self.arrays else Array("bool", (0,), (0,))

    def called(self, attribute: str = "calls") -> str:
        """Name of the computation that an attribute names; "" if it has none."""
        return self.attributes.get(attribute, "").lstrip("%")

    def integers(self, attribute: str) -> tuple[int, ...]:
        """Whole numbers of an attribute such as `dimensions={0,1}`."""
        return tuple(int(n) for n in re.findall(r"-?\d+", self.attributes.get(attribute, "")))

    @property
    def config(self) -> Mapping[str, Any]:
        """`backend_config`, {} where it has none or is no JSON."""
        try:
            found = json.loads(self.attributes.get("backend_config", "{}"))
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def scope(self) -> str:
        """`op_name` of its metadata: where in the user's code it comes from."""
        found = re.search(r'op_name="((?:[^"\\]|\\.)*)"', self.attributes.get("metadata", ""))
        return found[1] if found else ""

    @property
    def frame(self) -> int:
        """Number of its stack frame; 0 where it has none."""
        found = re.search(r"stack_frame_id=(\d+)", self.attributes.get("metadata", ""))
        return int(found[1]) if found else 0


@dataclass(frozen=True, slots=True)
class Computation:
    """Instructions in the order they run."""

    name: str
    instructions: tuple[Instruction, ...]

    @property
    def root(self) -> Instruction:
        """The one whose result is the computation's."""
        return next((i for i in self.instructions if i.root), self.instructions[-1])

    @property
    def by_name(self) -> dict[str, Instruction]:
        """Its instructions by name."""
        return {each.name: each for each in self.instructions}

    @property
    def parameters(self) -> tuple[Instruction, ...]:
        """Its parameters in their order."""
        found = (each for each in self.instructions if each.parameter >= 0)
        return tuple(sorted(found, key=lambda each: each.parameter))


@dataclass(frozen=True, slots=True)
class Module:
    """A compiled module.

    Attributes:
        name: of the jitted function ("jit_step").
        computations: by name.
        entry: name of the one that runs.
        aliases: (output's place, parameter's number) of what is donated.
        lines: "file.py:12" by stack frame.
    """

    name: str
    computations: Mapping[str, Computation]
    entry: str
    aliases: tuple[tuple[int, int], ...]
    lines: Mapping[int, str]


def parse(text: str) -> Module:
    """Read a module.

    Raises:
        CaptureError: the text is no module.
    """
    lines = text.splitlines()
    header = lines[0] if lines else ""
    named = re.match(r"HloModule ([^\s,]+)", header)
    computations: dict[str, Computation] = {}
    entry, name, body = "", "", list[Instruction]()
    for line in lines[1:]:
        head = re.match(r"(ENTRY )?%?([^\s(]+) .*->.*\{$", line) if line[:1] not in " }" else None
        if head:
            name, body = head[2], []
            entry = name if head[1] else entry
        elif line.startswith("}") and name:
            computations[name] = Computation(name, tuple(body))
            name = ""
        elif name and " = " in line:
            body.append(_instruction(line))
    if named is None or entry not in computations:
        raise CaptureError(
            Text("XLA's module cannot be read."),
            Text("It has no entry computation."),
            Text("Install another version of jax."),
        )
    return Module(named[1], computations, entry, _aliases(header), _lines(lines))


def _aliases(header: str) -> tuple[tuple[int, int], ...]:
    found = re.search(r"input_output_alias=\{(.*?\)) \}", header)
    if found is None:
        return ()
    pairs = re.findall(r"\{(\d*)\}: \((\d+), \{\}", found[1])
    return tuple((int(out or 0), int(given)) for out, given in pairs)


_OPEN, _CLOSE = "([{", ")]}"


def _end(text: str, start: int) -> int:
    """Place after the bracket that closes the one at `start`; strings are stepped over."""
    depth, at, length = 0, start, len(text)
    while at < length:
        letter = text[at]
        if letter == '"':
            at = _string_end(text, at)
            continue
        if letter in _OPEN:
            depth += 1
        elif letter in _CLOSE:
            depth -= 1
            if not depth:
                return at + 1
        at += 1
    return length


def _string_end(text: str, start: int) -> int:
    at = start + 1
    while at < len(text) and text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at + 1


def _instruction(line: str) -> Instruction:
    text = line.strip()
    root = text.startswith("ROOT ")
    name, _, rest = text.removeprefix("ROOT ").partition(" = ")
    end = _end(rest, 0) if rest.startswith("(") else rest.index(" ")
    shape, rest = rest[:end], rest[end:].lstrip()
    opens = rest.index("(")
    closes = _end(rest, opens)
    opcode, inside = rest[:opens], rest[opens + 1 : closes - 1]
    named = opcode not in ("parameter", "constant")
    return Instruction(
        name.lstrip("%"),
        opcode,
        _arrays(shape),
        tuple(re.findall(r"%([^\s,)]+)", inside)) if named else (),
        _attributes(rest[closes:]),
        int(inside) if opcode == "parameter" else -1,
        root,
    )


def _arrays(shape: str) -> tuple[Array, ...]:
    found = re.findall(r"([a-z][a-z0-9]*)\[([0-9,<= ]*)\](?:\{([^}]*)\})?", shape)
    made = []
    for dtype, sizes, layout in found:
        if dtype not in _DTYPES:
            continue  # tokens and the like hold nothing
        numbers = tuple(int(n.lstrip("<= ")) for n in sizes.split(",") if n.strip())
        order, _, more = layout.partition(":")
        minor = tuple(int(n) for n in order.split(",") if n.strip())
        if len(minor) != len(numbers):
            minor = tuple(reversed(range(len(numbers))))
        made.append(Array(_DTYPES[dtype], numbers, minor, "S(5)" in more))
    return tuple(made)


def _attributes(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    at = 0
    while True:
        begin = re.compile(r",\s*([\w-]+)=").search(text, at)
        if begin is None:
            return found
        start = at = begin.end()
        while at < len(text) and text[at] != ",":
            if text[at] == '"':
                at = _string_end(text, at)
            else:
                at = _end(text, at) if text[at] in _OPEN else at + 1
        found[begin[1]] = text[start:at].strip().strip('"')


def _lines(lines: list[str]) -> dict[int, str]:
    """ "file.py:12" of each stack frame, from the tables before the computations."""
    files: dict[int, str] = {}
    places: dict[int, str] = {}
    frames: dict[int, str] = {}
    table = ""
    for line in lines:
        if line in ("FileNames", "FunctionNames", "FileLocations", "StackFrames"):
            table = line
            continue
        if line.startswith(("%", "ENTRY")):
            break
        number, _, rest = line.partition(" ")
        if not number.isdecimal():
            continue
        if table == "FileNames":
            files[int(number)] = rest.strip('"').rpartition("/")[2]
        elif table == "FileLocations":
            file, at = re.search(r"file_name_id=(\d+)", rest), re.search(r" line=(\d+)", rest)
            if file and at:
                places[int(number)] = f"{files.get(int(file[1]), '')}:{at[1]}"
        elif table == "StackFrames":
            place = re.search(r"file_location_id=(\d+)", rest)
            if place:
                frames[int(number)] = places.get(int(place[1]), "")
    return frames
