"""What is wrong with an access, why, and what to change: from its figures and its worst request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpuscope.explain.numbers import percent, three
from gpuscope.explain.types import Words
from gpuscope.lens.machine import Machine
from gpuscope.lens.summary import stride_bytes
from gpuscope.lens.types import Access, ArrayUse, Launch, LineActivity, Race

_TRITON_CHANGE = Words(
    "Let the innermost tl.arange run over neighbouring elements (stride 1) of an aligned tensor, "
    "and keep sizes and strides divisible by 16, so that a lane moves up to 16 bytes at once.",
    "让最内层的 tl.arange 沿相邻元素（步长 1）展开，张量起点对齐，大小与步长取 16 的倍数，"
    "使每个线程一次最多搬运 16 字节。",
)

Fault = Literal[
    "strided", "scattered", "short_runs", "gaps", "misaligned", "bank_conflict", "constant_spread",
    "serial_atomics", "divergence", "barrier", "race", "reread",
]  # fmt: skip

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
    what: Words
    change: Words


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


def verb(access: Access) -> Words:
    """What the access does: reads, writes, updates."""
    return {
        "load": Words("reads", "读取"),
        "store": Words("writes", "写入"),
        "atomic": Words("updates", "原子更新"),
    }[access.kind]


def _coalescing(access: Access, launch: Launch, machine: Machine) -> Remark:
    fault, why, change = _coalescing_cause(access, machine)
    if launch.framework == "triton":
        change = _TRITON_CHANGE
    does, each = verb(access), access.sectors_per_request
    best = access.ideal_sectors / access.requests
    extra = (access.sectors - access.ideal_sectors) * machine.sector_bytes / machine.line_bytes
    return Remark(
        fault, access.file, access.line, extra,
        Words(
            f"Line {access.line} {does.en} {access.array} in {three(each)} sectors a request where "
            f"{three(best)} would hold the data: {why.en}",
            f"第 {access.line} 行{does.zh} {access.array}，每次请求 {three(each)} 个扇区，"
            f"而数据只需 {three(best)} 个：{why.zh}",
        ),
        change,
    )  # fmt: skip


Cause = tuple[Fault, Words, Words]
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
        Words(
            f"neighbouring lanes are {'' if only else 'mostly '}{step} bytes apart.",
            f"相邻线程的地址{'' if only else '大多'}相距 {step} 字节。",
        ),
        Words(
            "Give neighbouring lanes neighbouring elements: swap the indices so that the "
            "fastest one (threadIdx.x) runs along the last dimension, store fields as separate "
            "arrays, or turn the tile in shared memory.",
            "让相邻线程访问相邻元素：交换下标，使变化最快的 threadIdx.x 沿最后一维；"
            "结构体数组改为数组结构体；或借助共享内存转置。",
        ),
    )


def _short_runs(machine: Machine) -> Cause:
    return (
        "short_runs",
        Words(
            "only short runs of neighbouring lanes are neighbours in memory.",
            "只有一小段一小段的相邻线程访问相邻地址。",
        ),
        Words(
            f"Let {machine.warp_size} lanes in a row run along the last dimension (a block "
            f"whose x extent is a multiple of {machine.warp_size}), and begin rows at aligned "
            "addresses.",
            f"让连续 {machine.warp_size} 个线程沿最后一维排开（线程块 x 方向取 "
            f"{machine.warp_size} 的倍数），各行从对齐的地址开始。",
        ),
    )


def _misaligned(machine: Machine) -> Cause:
    return (
        "misaligned",
        Words(
            f"neighbouring lanes are neighbours in memory, but the request does not begin at a "
            f"multiple of {machine.sector_bytes} bytes.",
            f"相邻线程访问相邻地址，但请求的起点没有对齐到 {machine.sector_bytes} 字节。",
        ),
        Words(
            "Begin rows and slices at aligned addresses (pad the row length), or let each warp "
            "start at an aligned element and skip the few before it.",
            "让每行、每个切片从对齐的地址开始（补齐行长），或让线程束从对齐元素起步、跳过前面几个。",
        ),
    )


_GAPS: Cause = (
    "gaps",
    Words(
        "neighbouring lanes are neighbours in memory, but lanes in between take no part.",
        "相邻线程访问相邻地址，但中间有线程不参与。",
    ),
    Words(
        "Let neighbouring lanes do the same: branch or mask by the warp rather than by the "
        "lane, or give the active lanes elements without gaps.",
        "让相邻线程做同样的事：按线程束而不是按线程分支或掩码，或让活跃线程的元素连成一片。",
    ),
)

_SCATTERED: Cause = (
    "scattered",
    Words("the lanes' addresses follow no even step.", "各线程的地址没有固定步长。"),
    Words(
        "Sort or group the indices so that neighbouring lanes meet in the same sectors, or "
        "copy the piece that a block needs into shared memory first.",
        "对下标排序或分组，使相邻线程落在相同扇区；或先把线程块所需的数据搬进共享内存。",
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
    apart = Words("", "")
    if step and step % row == 0:
        apart = Words(
            f" Neighbouring lanes are {abs(step)} bytes apart, a multiple of the {row} bytes of a "
            "row of banks, so all meet in one bank.",
            f"相邻线程相距 {abs(step)} 字节，是一行存储体 {row} 字节的整数倍，全部落在同一存储体。",
        )
    elif step:
        apart = Words(
            f" Neighbouring lanes are {abs(step)} bytes apart.", f"相邻线程相距 {abs(step)} 字节。"
        )
    return Remark(
        "bank_conflict", access.file, access.line, float(access.passes - access.ideal_passes),
        Words(
            f"Line {access.line} {does.en} {access.array} in shared memory in {three(each)} passes "
            f"a request instead of {three(best)}: up to {access.worst_ways} words of one bank."
            + apart.en,
            f"第 {access.line} 行{does.zh}共享内存 {access.array}，每次请求 {three(each)} 遍而非 "
            f"{three(best)} 遍：同一存储体最多 {access.worst_ways} 个字。" + apart.zh,
        ),
        Words(
            "Pad the last dimension of the shared array by one element, so that rows begin in "
            "different banks (tile[32][33] instead of tile[32][32]), or swizzle its columns.",
            "共享数组最后一维多留一个元素，让各行从不同存储体开始"
            "（tile[32][33] 而非 tile[32][32]），或对列做 swizzle。",
        ),
    )  # fmt: skip


def _constant(access: Access) -> Remark:
    return Remark(
        "constant_spread", access.file, access.line, float(access.passes - access.ideal_passes),
        Words(
            f"Line {access.line} reads {access.array} from constant memory at up to "
            f"{access.worst_ways} addresses a request; they are served one after another.",
            f"第 {access.line} 行从常量内存读取 {access.array}，一次请求最多 {access.worst_ways} "
            "个不同地址，只能逐个服务。",
        ),
        Words(
            "Constant memory is fast only where all lanes read the same address: pass an ordinary "
            "array, or use shared memory.",
            "常量内存只有全部线程读同一地址时才快：改用普通数组或共享内存。",
        ),
    )  # fmt: skip


def _atomic(access: Access) -> Remark:
    mean = access.address_rounds / access.requests
    return Remark(
        "serial_atomics", access.file, access.line, float(access.address_rounds - access.requests),
        Words(
            f"Line {access.line} updates {access.array} atomically with {three(mean)} lanes of a "
            f"warp at one address on average (at most {access.worst_rounds}): they take turns.",
            f"第 {access.line} 行对 {access.array} 做原子更新，平均 {three(mean)} 个线程（最多 "
            f"{access.worst_rounds} 个）撞在同一地址：只能轮流执行。",
        ),
        Words(
            "Add up within the warp or block first, then let one lane update; or spread the "
            "updates over several copies.",
            "先在线程束或线程块内归约，再由一个线程更新；或分散到多份副本。",
        ),
    )  # fmt: skip


_REREAD = 4
"""So many times the same sectors from within a block are worth keeping on chip."""


def _reread(array: ArrayUse, launch: Launch, machine: Machine) -> Remark | None:
    if not array.block_sectors or array.sectors < _REREAD * array.block_sectors:
        return None
    loads = [
        a for a in launch.accesses
        if a.array == array.name and a.space == "global" and a.kind == "load"
        and a.sectors >= _REREAD * a.block_sectors and not a.wasteful
    ]  # fmt: skip
    if not loads:
        return None
    line = max(loads, key=lambda a: a.sectors)
    times = line.sectors / line.block_sectors
    extra = (line.sectors - line.block_sectors) * machine.sector_bytes / machine.line_bytes
    return Remark(
        "reread", line.file, line.line, extra,
        Words(
            f"Line {line.line} reads {array.name} again and again: each block asks {three(times)} "
            "times for the same sectors.",
            f"第 {line.line} 行反复读取 {array.name}：每个线程块对同样的扇区请求 "
            f"{three(times)} 次。",
        ),
        Words(
            "Let the block copy its piece into shared memory once and read it from there, or keep "
            "it in registers; L1 may catch part of it.",
            "让线程块把所需的一块搬进共享内存一次、再从那里读，或留在寄存器中；L1 只能接住一部分。",
        ),
    )  # fmt: skip


def _divergence(line: LineActivity) -> Remark | None:
    # Only the last warps of a grid that its guard cuts off are no reason to change anything.
    if line.partial * 10 <= line.visits or line.lanes * _SLIGHT >= line.present:
        return None
    share = line.lanes / line.present
    return Remark(
        "divergence", line.file, line.line, (line.present - line.lanes) / 32,
        Words(
            f"Line {line.line} runs with {percent(share)} of the lanes: in {line.partial:,} of "
            f"{line.visits:,} visits of a warp the others wait.",
            f"第 {line.line} 行只有 {percent(share)} 的线程在执行：{line.visits:,} 次线程束执行中"
            f"有 {line.partial:,} 次其余线程在等待。",
        ),
        Words(
            "Let whole warps take the same way: branch on the warp or the block rather than on the "
            "lane, sort the work, or compute both sides and select.",
            "让整个线程束走同一条路：按线程束或线程块而不是按线程分支，先给任务排序，或两边都算再选择。",
        ),
    )  # fmt: skip


def _race(race: Race) -> Remark:
    both = f"Line {race.line} writes" if race.line == race.other_line else (
        f"Lines {race.line} and {race.other_line} meet at"
    )  # fmt: skip
    same = race.line == race.other_line
    return Remark(
        "race", race.file, race.line, float("inf"),
        Words(
            f"{both} {race.words:,} words of {race.array} from different warps with no barrier in "
            "between: which comes first is left to chance.",
            f"第 {race.line} 行" + ("" if same else f"与第 {race.other_line} 行")
            + f"由不同线程束访问 {race.array} 的同一批字（{race.words:,} 个）且其间没有同步："
            "谁先谁后全凭运气。",
        ),
        Words(
            "Put cuda.syncthreads() between them, outside of any branch; or let each thread write "
            "a word of its own.",
            "在两者之间、分支之外加 cuda.syncthreads()；或让每个线程写各自的字。",
        ),
    )  # fmt: skip


def _barrier(file: str, line: int, waiting: int, elsewhere: int) -> Remark:
    return Remark(
        "barrier", file, line, float("inf"),
        Words(
            f"Line {line}: {waiting} threads of a block wait at this barrier while {elsewhere} "
            "others wait elsewhere or have ended. On a device this may hang or give wrong results.",
            f"第 {line} 行：线程块中 {waiting} 个线程在此同步，"
            f"另外 {elsewhere} 个在别处等待或已结束。在真实设备上可能死锁或结果出错。",
        ),
        Words(
            "Move the barrier out of the branch, so that every thread of the block meets it.",
            "把同步移出分支，让线程块内每个线程都到达。",
        ),
    )  # fmt: skip
