"""What is wrong with an access, why, and what to change: from its figures and its worst request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpuscope.document.quantities import Number, Percent
from gpuscope.document.text import Text, Value, sentences
from gpuscope.kernel_lens.machine import Machine
from gpuscope.kernel_lens.summary import stride_bytes
from gpuscope.kernel_lens.types import Access, ArrayUse, Launch, LineActivity, Race

_TRITON_CHANGE = Text(
    "Let the innermost tl.arange run over neighbouring elements (stride 1) of an aligned tensor, "
    "and keep sizes and strides divisible by 16, so that a lane moves up to 16 bytes at once."
)

Fault = Literal[
    "strided",
    "scattered",
    "short_runs",
    "gaps",
    "misaligned",
    "bank_conflict",
    "constant_spread",
    "serial_atomics",
    "divergence",
    "barrier",
    "race",
    "reread",
]

_SLIGHT = 1.05
"""Up to this much more than the least is not worth a remark."""


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing to change.

    Attributes:
        fault: a stable word.
        file, line: where.
        cost: extra turns that the memory pipeline takes (a turn: one row of banks, or one cache
            line); orders the remarks.
        what: what happens.
        change: what to do about it.
    """

    fault: Fault
    file: str
    line: int
    cost: float
    what: Text
    change: Text


def remarks(launch: Launch, machine: Machine) -> tuple[Remark, ...]:
    """Return what to change in a launch, the costliest first."""
    found = [r for access in launch.accesses for r in _of_access(access, launch, machine)]
    found += [r for array in launch.arrays if (r := _reread(array, launch, machine)) is not None]
    found += [r for line in launch.activity if (r := _divergence(line)) is not None]
    found += [_race(race) for race in launch.races]
    found += [_barrier(b.file, b.line, b.waiting, b.elsewhere) for b in launch.barriers]
    return tuple(sorted(found, key=lambda r: -r.cost))


def _of_access(access: Access, launch: Launch, machine: Machine) -> list[Remark]:
    found = []
    if access.sectors > access.plain_sectors * _SLIGHT:
        found.append(_coalescing(access, launch, machine))
    if access.space == "shared" and access.passes > access.ideal_passes * _SLIGHT:
        found.append(_conflict(access, machine))
    if access.space == "constant" and access.passes > access.ideal_passes * _SLIGHT:
        found.append(_constant(access))
    if access.kind == "atomic" and access.address_rounds > access.requests * _SLIGHT:
        found.append(_atomic(access))
    return found


def verb(access: Access) -> Text:
    """What the access does: reads, writes, updates."""
    return {"load": Text("reads"), "store": Text("writes"), "atomic": Text("updates")}[access.kind]


def _coalescing(access: Access, launch: Launch, machine: Machine) -> Remark:
    fault, why, change = _coalescing_cause(access, machine)
    if launch.framework == "triton":
        change = _TRITON_CHANGE
    does, each = verb(access), access.sectors_per_request
    best = access.ideal_sectors / access.requests
    extra = (access.sectors - access.ideal_sectors) * machine.sector_bytes / machine.line_bytes
    return Remark(
        fault,
        access.file,
        access.line,
        extra,
        Text(
            "Line {line} {does} {array} in {each} sectors a request where {best} would hold the "
            "data: {why}",
            line=access.line,
            does=does,
            array=access.array,
            each=Number(each),
            best=Number(best),
            why=why,
        ),
        change,
    )


Cause = tuple[Fault, Text, Text]
"""A fault, why it happens, and what to change."""


def _coalescing_cause(access: Access, machine: Machine) -> Cause:
    usual, size = stride_bytes(access.sample), access.bytes_per_lane
    step, only = usual or (None, False)
    if not step:
        return _SCATTERED
    if abs(step) != size:
        return _strided(abs(step), only)
    if not only:
        return _short_runs(machine)
    return _GAPS if _has_gaps(access) else _misaligned(machine)


def _strided(step: int, only: bool) -> Cause:
    return (
        "strided",
        Text("neighbouring lanes are {step} bytes apart.", step=step)
        if only
        else Text("neighbouring lanes are mostly {step} bytes apart.", step=step),
        Text(
            "Give neighbouring lanes neighbouring elements: swap the indices so that the fastest "
            "one (threadIdx.x) runs along the last dimension, store fields as separate arrays, or "
            "turn the tile in shared memory."
        ),
    )


def _short_runs(machine: Machine) -> Cause:
    return (
        "short_runs",
        Text("only short runs of neighbouring lanes are neighbours in memory."),
        Text(
            "Let {warp_size} lanes in a row run along the last dimension (a block whose x extent "
            "is a multiple of {warp_size}), and begin rows at aligned addresses.",
            warp_size=machine.warp_size,
        ),
    )


def _misaligned(machine: Machine) -> Cause:
    return (
        "misaligned",
        Text(
            "neighbouring lanes are neighbours in memory, but the request does not begin at a "
            "multiple of {sector} bytes.",
            sector=machine.sector_bytes,
        ),
        Text(
            "Begin rows and slices at aligned addresses (pad the row length), or let each warp "
            "start at an aligned element and skip the few before it."
        ),
    )


_GAPS: Cause = (
    "gaps",
    Text("neighbouring lanes are neighbours in memory, but lanes in between take no part."),
    Text(
        "Let neighbouring lanes do the same: branch or mask by the warp rather than by the lane, "
        "or give the active lanes elements without gaps."
    ),
)

_SCATTERED: Cause = (
    "scattered",
    Text("the lanes' addresses follow no even step."),
    Text(
        "Sort or group the indices so that neighbouring lanes meet in the same sectors, or copy "
        "the piece that a block needs into shared memory first."
    ),
)


def _has_gaps(access: Access) -> bool:
    """Whether inactive lanes stand between active ones."""
    active = [lane for lane, address in enumerate(access.sample.addresses) if address is not None]
    return len(active) <= active[-1] - active[0]


def _conflict(access: Access, machine: Machine) -> Remark:
    does, each = verb(access), access.passes_per_request
    best = access.ideal_passes / access.requests
    usual = stride_bytes(access.sample)
    step = usual[0] if usual is not None and usual[1] else None
    row = machine.bank_row_bytes
    apart = None
    if step and step % row == 0:
        apart = Text(
            "Neighbouring lanes are {step} bytes apart, a multiple of the {row} bytes of a row of "
            "banks, so all meet in one bank.",
            step=abs(step),
            row=row,
        )
    elif step:
        apart = Text("Neighbouring lanes are {step} bytes apart.", step=abs(step))
    return Remark(
        "bank_conflict",
        access.file,
        access.line,
        float(access.passes - access.ideal_passes),
        sentences(
            Text(
                "Line {line} {does} {array} in shared memory in {each} passes a request instead of "
                "{best}: up to {worst_ways} words of one bank.",
                line=access.line,
                does=does,
                array=access.array,
                each=Number(each),
                best=Number(best),
                worst_ways=access.worst_ways,
            ),
            apart,
        ),
        Text(
            "Pad the last dimension of the shared array by one element, so that rows begin in "
            "different banks (tile[32][33] instead of tile[32][32]), or swizzle its columns."
        ),
    )


def _constant(access: Access) -> Remark:
    return Remark(
        "constant_spread",
        access.file,
        access.line,
        float(access.passes - access.ideal_passes),
        Text(
            "Line {line} reads {array} from constant memory at up to {worst_ways} addresses a "
            "request; they are served one after another.",
            line=access.line,
            array=access.array,
            worst_ways=access.worst_ways,
        ),
        Text(
            "Constant memory is fast only where all lanes read the same address: pass an ordinary "
            "array, or use shared memory."
        ),
    )


def _atomic(access: Access) -> Remark:
    mean = access.address_rounds / access.requests
    return Remark(
        "serial_atomics",
        access.file,
        access.line,
        float(access.address_rounds - access.requests),
        Text(
            "Line {line} updates {array} atomically with {mean} lanes of a warp at one address on "
            "average (at most {worst_rounds}): they take turns.",
            line=access.line,
            array=access.array,
            mean=Number(mean),
            worst_rounds=access.worst_rounds,
        ),
        Text(
            "Add up within the warp or block first, then let one lane update; or spread the "
            "updates over several copies."
        ),
    )


_REREAD = 4
"""So many times the same sectors from within a block are worth keeping on chip."""


def _reread(array: ArrayUse, launch: Launch, machine: Machine) -> Remark | None:
    if not array.block_sectors or array.sectors < _REREAD * array.block_sectors:
        return None
    loads = [
        a
        for a in launch.accesses
        if a.array == array.name
        and a.space == "global"
        and a.kind == "load"
        and a.sectors >= _REREAD * a.block_sectors
        and not a.wasteful
    ]
    if not loads:
        return None
    line = max(loads, key=lambda a: a.sectors)
    times = line.sectors / line.block_sectors
    extra = (line.sectors - line.block_sectors) * machine.sector_bytes / machine.line_bytes
    return Remark(
        "reread",
        line.file,
        line.line,
        extra,
        Text(
            "Line {line} reads {array} again and again: each block asks {times} times for the "
            "same sectors.",
            line=line.line,
            array=array.name,
            times=Number(times),
        ),
        Text(
            "Let the block copy its piece into shared memory once and read it from there, or keep "
            "it in registers; L1 may catch part of it."
        ),
    )


def _divergence(line: LineActivity) -> Remark | None:
    # Only the last warps of a grid that its guard cuts off are no reason to change anything.
    if line.partial * 10 <= line.visits or line.lanes * _SLIGHT >= line.present:
        return None
    share = line.lanes / line.present
    return Remark(
        "divergence",
        line.file,
        line.line,
        (line.present - line.lanes) / 32,
        Text(
            "Line {line} runs with {share} of the lanes: in {partial} of {visits} visits of a warp "
            "the others wait.",
            line=line.line,
            share=Percent(share),
            partial=Number(line.partial, ","),
            visits=Number(line.visits, ","),
        ),
        Text(
            "Let whole warps take the same way: branch on the warp or the block rather than on the "
            "lane, sort the work, or compute both sides and select."
        ),
    )


def _race(race: Race) -> Remark:
    values: dict[str, Value] = {
        "line": race.line,
        "words": Number(race.words, ","),
        "array": race.array,
    }
    what = Text(
        "Line {line} writes {words} words of {array} from different warps with no barrier in "
        "between: which comes first is left to chance.",
        **values,
    )
    if race.line != race.other_line:
        what = Text(
            "Lines {line} and {other} meet at {words} words of {array} from different warps with "
            "no barrier in between: which comes first is left to chance.",
            other=race.other_line,
            **values,
        )
    return Remark(
        "race",
        race.file,
        race.line,
        float("inf"),
        what,
        Text(
            "Put cuda.syncthreads() between them, outside of any branch; or let each thread write "
            "a word of its own."
        ),
    )


def _barrier(file: str, line: int, waiting: int, elsewhere: int) -> Remark:
    return Remark(
        "barrier",
        file,
        line,
        float("inf"),
        Text(
            "Line {line}: {waiting} threads of a block wait at this barrier while {elsewhere} "
            "others wait elsewhere or have ended. On a device this may hang or give wrong results.",
            line=line,
            waiting=waiting,
            elsewhere=elsewhere,
        ),
        Text("Move the barrier out of the branch, so that every thread of the block meets it."),
    )
