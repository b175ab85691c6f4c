"""The steps of a collective on its links, as a diagram: ring, chain, tree or pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil, cos, inf, log2, pi, sin

from gpuscope.explain.collective_case import Case
from gpuscope.explain.collective_other_steps import (
    doubling_diagram,
    switch_diagram,
    torus_diagram,
)
from gpuscope.explain.numbers import size
from gpuscope.explain.types import Diagram, Link, Node, Words

MOST_RANKS = 16
"""Ranks that are drawn one by one; of more, one domain and its ways out."""

_MOST_PAIRS = 8


def steps_diagram(case: Case) -> Diagram:
    """The diagram of the algorithm that is taken."""
    draw = {
        "ring": _ring, "chain": _chain, "tree": _tree, "pairs": _pairs, "pat": doubling_diagram,
        "nvls": switch_diagram, "nvls_tree": switch_diagram, "collnet": switch_diagram,
        "torus": torus_diagram, "hierarchical": torus_diagram,
    }  # fmt: skip
    return draw[case.taken.algorithm](case)


def _drawn(case: Case) -> int:
    """Ranks that are drawn: all of them, or those of one domain."""
    group = case.group
    if group.domains == 1 and group.ranks <= MOST_RANKS:
        return group.ranks
    return min(group.local, MOST_RANKS)


def _nodes(case: Case, count: int, outside: bool) -> tuple[Node, ...]:
    small = count > 8
    nodes = []
    for rank in range(count):
        angle = 2 * pi * rank / count - pi / 2
        middle = 0.4 if outside else 0.5
        nodes.append(
            Node(
                f"r{rank}", Words(f"R{rank}", f"R{rank}"), "rank",
                round(middle + (0.3 if outside else 0.4) * cos(angle), 4),
                round(0.5 + 0.4 * sin(angle), 4), 0.09 if small else 0.12,
                0.07 if small else 0.1,
            )
        )  # fmt: skip
    if outside:
        others = case.ranks - count
        nodes.append(
            Node(
                "out", Words("other ranks", "其余 rank"), "switch", 0.9, 0.5, 0.18, 0.2,
                Words(f"{others} more ranks", f"另外 {others} 个 rank"),
            )
        )  # fmt: skip
    return tuple(nodes)


def _link(case: Case, a: str, b: str, amount: float, step: int | None, fabric: bool) -> Link:
    """A way with what it carries on average over the whole collective."""
    group, taken = case.group, case.taken
    rate = taken.sent_bytes / taken.time_s
    if taken.algorithm == "pairs":
        rate = amount / taken.time_s
    elif fabric:
        rate /= group.local  # the rings of a domain leave it by all its ports
    limit = group.fabric_bytes_per_s if fabric else group.link_bytes_per_s
    return Link(
        a, b, Words(size(amount), size(amount)), rate, None if limit == inf else limit,
        narrowest=group.domains > 1 and fabric == _fabric_is_narrow(case), step=step,
    )  # fmt: skip


def _fabric_is_narrow(case: Case) -> bool:
    """Whether the ways between domains set the pace."""
    group = case.group
    if group.domains == 1:
        return False
    if case.taken.algorithm == "pairs":
        inside = (group.local - 1) / group.link_bytes_per_s if group.local > 1 else 0.0
        return (group.ranks - group.local) / group.fabric_bytes_per_s > inside
    return group.local * group.fabric_bytes_per_s < group.link_bytes_per_s


def _round(case: Case, count: int, step: int, shift: int) -> Iterator[Link]:
    """Every rank to its right neighbour; of one domain among many, in and out of it too.

    Rank r sends part r - shift: what it got from its left neighbour in the step before.
    """
    n = case.ranks
    amount = case.size_bytes / n
    whole = count == n
    for rank in range(count if whole else count - 1):
        part = (rank - shift) % n
        yield replace(
            _link(case, f"r{rank}", f"r{(rank + 1) % count}", amount, step, False),
            label=Words(f"part {part}", f"第 {part} 块"),
        )
    if not whole:
        fabric = case.group.domains > 1
        leaving = amount / case.group.local if fabric else amount
        yield _link(case, f"r{count - 1}", "out", leaving, step, fabric)
        yield _link(case, "out", "r0", leaving, step, fabric)


def _ring(case: Case) -> Diagram:
    count, n = _drawn(case), case.ranks
    part = case.size_bytes / n
    half = case.taken.steps // 2 if case.operation == "all_reduce" else case.taken.steps
    adds = Words(
        f"every rank sends one part ({size(part)}) to its right neighbour, which adds it to its "
        "own",
        f"每个 rank 把一块（{size(part)}）发给右邻，右邻把它加到自己的那块上",
    )
    passes = Words(
        f"every rank passes a finished part ({size(part)}) on to its right neighbour",
        f"每个 rank 把一块已完成的数据（{size(part)}）传给右邻",
    )
    words = {
        "all_reduce": [adds] * half + [passes] * half,
        "reduce_scatter": [adds] * half,
        "all_gather": [passes] * half,
    }[case.operation]
    if count < n:
        # Of many ranks one step of each sort says all.
        words = list(dict.fromkeys(words))
    shifts = _shifts(case, half)[: len(words)]
    links = tuple(
        link for at, shift in enumerate(shifts) for link in _round(case, count, at, shift)
    )
    note = _ring_note(case, count)
    return Diagram(
        _title(case, Words("A ring", "环")), _nodes(case, count, count < n), links, tuple(words),
        note,
    )  # fmt: skip


def _shifts(case: Case, half: int) -> list[int]:
    """By step, how far left of a rank the part is that it sends.

    Adding begins with a rank's own part and ends with its right neighbour's complete, which is
    passed on first; a reduce-scatter begins one further left, to end with its own.
    """
    if case.operation == "all_reduce":
        return [*range(half), *range(-1, half - 1)]
    return list(range(1, half + 1)) if case.operation == "reduce_scatter" else list(range(half))


def _ring_note(case: Case, count: int) -> Words:
    n, taken = case.ranks, case.taken
    steps = "1 step" if taken.steps == 1 else f"{taken.steps} steps"
    text = f"{steps} in all; each rank sends {size(taken.sent_bytes)} altogether."
    zh = f"共 {taken.steps} 步；每个 rank 总共发送 {size(taken.sent_bytes)}。"
    if count < n and case.group.domains == 1:
        text += f" {count} of {n} ranks are drawn, and one step of each sort."
        zh += f"{n} 个 rank 中只画出 {count} 个，每类步骤各画一步。"
    elif count < n:
        text += (
            f" Of {n} ranks one domain of {case.group.local} is drawn, and one step of each sort; "
            f"{taken.fabric_steps} steps cross the fabric. Each of the domain's rings leaves by "
            "another port: what one carries is shown."
        )
        zh += (
            f"{n} 个 rank 中只画出一个 {case.group.local} 卡域，每类步骤各画一步；"
            f"{taken.fabric_steps} 步经过节点间网络。域内每条环从不同端口离开，"
            "图中为一个端口的流量。"
        )
    return Words(text, zh)


def _chain(case: Case) -> Diagram:
    count, n = _drawn(case), case.ranks
    outside = count < n
    links = [
        _link(case, f"r{rank}", f"r{rank + 1}", case.size_bytes, None, False)
        for rank in range(count - 1)
    ]
    if outside:
        fabric = case.group.domains > 1
        share = case.size_bytes / case.group.local if fabric else float(case.size_bytes)
        links.append(_link(case, f"r{count - 1}", "out", share, None, fabric))
    note = Words(
        f"The message goes along the chain in small pieces, so all {case.taken.steps} hops work at "
        "once: it takes hardly longer than one hop, and the last rank begins when the first piece "
        "has come through.",
        f"消息切成小块沿链传递，{case.taken.steps} 跳同时工作：总时间只比一跳略长，"
        "最后一个 rank 在第一小块到达时开始接收。",
    )
    title = _title(case, Words("A pipelined chain", "流水链"))
    return Diagram(title, _nodes(case, count, outside), tuple(links), (), note)


def _tree(case: Case) -> Diagram:
    count, group = _drawn(case), case.group
    levels = ceil(log2(group.domains))
    down = [(f"r{r}", f"r{r + 1}") for r in range(count - 1)]
    up = [(b, a) for a, b in reversed(down)]
    steps = (
        ([(a, b, False) for a, b in up], Words(
            "inside each domain: sums go along the chain to its first rank",
            "域内：部分和沿链传到第一个 rank")),
        ([("r0", "out", True)], Words(
            f"between domains: up the tree, {levels} levels, adding on the way",
            f"域间：沿树向上 {levels} 层，边传边加")),
        ([("out", "r0", True)], Words(
            f"the result comes down the tree, {levels} levels", f"结果沿树向下 {levels} 层")),
        ([(a, b, False) for a, b in down], Words(
            "and along the chain of each domain", "再沿各域的链传开")),
    )  # fmt: skip
    links = []
    for at, (pairs, _) in enumerate(steps):
        for a, b, fabric in pairs:
            amount = case.size_bytes / group.local if fabric else case.size_bytes
            links.append(_link(case, a, b, amount, at, fabric))
    note = Words(
        f"A tree has {case.taken.steps} hops one after the other where a ring has "
        f"{2 * (case.ranks - 1)}, so small messages are sooner through; NCCL uses two trees that "
        "share the work. One domain is drawn.",
        f"树只有 {case.taken.steps} 跳，而环有 {2 * (case.ranks - 1)} 跳，因此小消息更快；"
        "NCCL 用两棵树分担流量。图中只画一个域。",
    )
    title = _title(case, Words("A tree over the domains", "跨域的树"))
    nodes = _nodes(case, count, True)
    return Diagram(title, nodes, tuple(links), tuple(words for _, words in steps), note)


def _pairs(case: Case) -> Diagram:
    count, n, group = _drawn(case), case.ranks, case.group
    part = case.size_bytes / n
    whole = count == n and n <= _MOST_PAIRS
    senders = range(count) if whole else range(1)
    links = [
        _link(case, f"r{a}", f"r{b}", part, 0, False)
        for a in senders for b in range(count) if a != b
    ]  # fmt: skip
    if count < n:
        rest = n - group.local if group.domains > 1 else n - count
        links.append(_link(case, "r0", "out", part * rest, 0, group.domains > 1))
    text = f"Every rank sends another {size(part)} to each of the {n - 1} others, all at once."
    zh = f"每个 rank 同时向其余 {n - 1} 个 rank 各发送不同的 {size(part)}。"
    if not whole:
        text += " What rank 0 sends is drawn."
        zh += "图中只画 rank 0 发出的部分。"
    title = _title(case, Words("Direct sends", "两两直发"))
    step = Words("every rank to every other", "每个 rank 发给其余所有 rank")
    return Diagram(
        title, _nodes(case, count, count < n), tuple(links), (step,), Words(text, zh)
    )  # fmt: skip


def _title(case: Case, what: Words) -> Words:
    n = case.ranks
    return Words(
        f"{what.en} of {n} ranks: what each way carries, on average over the whole time",
        f"{n} 个 rank 的{what.zh}：各通路在全程中的平均流量",
    )
