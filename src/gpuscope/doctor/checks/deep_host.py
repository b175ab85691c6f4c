"""The host itself: exact products, memory patterns, memory bandwidth. The only active test that a
machine without an accelerator has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpuscope.doctor.checks.deep_products import is_rounding
from gpuscope.doctor.deep import Answer, ask, bits
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.explain.numbers import count, rate, size
from gpuscope.explain.types import Words

NAME = "deep_host"
TIMEOUT_S = 120.0
_WHY = Words("Nothing that this machine computes can be trusted.", "这台机器的任何结果都不可信。")
_FIX = Words(
    "Undo overclocking of processor and memory, run a memory test (memtest86+), look for machine "
    "check messages in the kernel log.",
    "取消处理器与内存超频，运行内存测试（memtest86+），在内核日志中查找 machine check 信息。",
)
_COMMANDS = ("sudo dmesg -T | grep -i -E 'mce|machine check|edac'",)


@check(NAME, "deep", "The host: exact products, memory patterns, memory bandwidth")
def deep_host(machine: Machine) -> Iterable[Finding]:
    """Judge the host."""
    answer, found = ask(machine, NAME, "deep_host", TIMEOUT_S, least_devices=0)
    yield from found
    if answer is None:
        return
    bad = [*_products(answer), *_memory(answer)]
    yield from bad
    if not bad:
        yield _right(answer)


def _products(answer: Answer) -> Iterator[Finding]:
    rows: Mapping[str, Mapping[str, Any]] = answer.data.get("products") or {}
    wrong = {name: row for name, row in rows.items() if row["wrong"] and not is_rounding({0: row})}
    trusted = answer.data.get("trusted", True)
    if trusted and not wrong:
        return
    counts = {n: (count(r["wrong"]), count(r["elements"])) for n, r in wrong.items()}
    told = ", ".join(f"{name}: {some} of {every}" for name, (some, every) in counts.items())
    zh = "，".join(f"{name}：{every} 中的 {some}" for name, (some, every) in counts.items())
    yield Finding(
        NAME, "error", Words("The processor computes wrong results", "处理器的计算结果错误"),
        Words(
            f"Wrong elements of products of whole numbers: {told}." if wrong
            else "A product of whole numbers fails an independent check.",
            f"整数矩阵乘的错误元素：{zh}。" if wrong else "整数矩阵乘未通过独立校验。",
        ),
        _WHY, _FIX, _COMMANDS, answer.known_by,
        values={f"{n}_wrong_elements": int(r["wrong"]) for n, r in wrong.items()},
    )  # fmt: skip


def _memory(answer: Answer) -> Iterator[Finding]:
    memory: Mapping[str, Any] = answer.data.get("memory") or {}
    wrong = int(memory.get("wrong_words") or 0)
    if not wrong:
        return
    first = memory.get("first") or {}
    differ = bits(first.get("flipped_bits"))
    yield Finding(
        NAME, "error", Words("The host's memory loses bits", "主机内存出现比特错误"),
        Words(
            f"{count(wrong)} words of 8 bytes were read differently than written; pattern "
            f"'{first.get('pattern')}', {differ.en}.",
            f"有 {count(wrong)} 个 8 字节的字读出与写入不同；模式“{first.get('pattern')}”，"
            f"{differ.zh}。",
        ),
        _WHY, _FIX, _COMMANDS, answer.known_by, values={"wrong_words": wrong},
    )  # fmt: skip


def _right(answer: Answer) -> Finding:
    memory: Mapping[str, Any] = answer.data["memory"]
    bandwidth: Mapping[str, Any] = answer.data["bandwidth"]
    names = ", ".join(answer.data["products"])
    copied, threads = rate(float(bandwidth["bytes_per_s"]), "B/s"), int(bandwidth["threads"])
    tested = size(float(memory["bytes_tested"]))
    return Finding(
        NAME, "ok", Words("The host's arithmetic and memory are right", "主机的计算与内存正确"),
        Words(
            f"Products in {names}; {tested} of memory, its bandwidth {copied} read and written, "
            f"{threads} threads.",
            f"{names} 矩阵乘；{tested} 内存，读写带宽 {copied}，{threads} 个线程。",
        ),
        known_by=answer.known_by,
        values={"host_memory_bytes_per_s": float(bandwidth["bytes_per_s"]), "threads": threads},
    )  # fmt: skip
