"""The steps of a collective on its links, as a diagram: ring, chain, tree or pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil, cos, inf, log2, pi, sin

from gpuscope.document.blocks import Diagram, Link, Node
from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text, plural, sentences, verbatim
from gpuscope.explanation.collective_case import CollectiveCase
from gpuscope.explanation.collective_other_steps import (
    doubling_diagram,
    switch_diagram,
    torus_diagram,
)

MOST_RANKS = 16
"""Ranks that are drawn one by one; of more, one domain and its ways out."""

_MOST_PAIRS = 8


def steps_diagram(case: CollectiveCase) -> Diagram:
    """The diagram of the algorithm that is taken."""
    draw = {
        "ring": _ring,
        "chain": _chain,
        "tree": _tree,
        "pairs": _pairs,
        "pat": doubling_diagram,
        "nvls": switch_diagram,
        "nvls_tree": switch_diagram,
        "collnet": switch_diagram,
        "torus": torus_diagram,
        "mesh": torus_diagram,
        "hierarchical": torus_diagram,
    }
    return draw[case.taken.algorithm](case)


def _drawn(case: CollectiveCase) -> int:
    """Ranks that are drawn: all of them, or those of one domain."""
    group = case.group
    if group.domains == 1 and group.ranks <= MOST_RANKS:
        return group.ranks
    return min(group.local, MOST_RANKS)


def _nodes(case: CollectiveCase, count: int, outside: bool) -> tuple[Node, ...]:
    small = count > 8
    nodes = []
    for rank in range(count):
        angle = 2 * pi * rank / count - pi / 2
        middle = 0.4 if outside else 0.5
        nodes.append(
            Node(
                f"r{rank}",
                verbatim(f"R{rank}"),
                "rank",
                round(middle + (0.3 if outside else 0.4) * cos(angle), 4),
                round(0.5 + 0.4 * sin(angle), 4),
                0.09 if small else 0.12,
                0.07 if small else 0.1,
            )
        )
    if outside:
        others = case.ranks - count
        nodes.append(
            Node(
                "out",
                Text("other ranks"),
                "switch",
                0.9,
                0.5,
                0.18,
                0.2,
                Text("{others} more ranks", others=others),
            )
        )
    return tuple(nodes)


def _link(
    case: CollectiveCase, a: str, b: str, amount: float, step: int | None, fabric: bool
) -> Link:
    """A way with what it carries on average over the whole collective."""
    group, taken = case.group, case.taken
    rate = taken.sent_bytes / taken.time_s
    if taken.algorithm == "pairs":
        rate = amount / taken.time_s
    elif fabric:
        rate /= group.local  # the rings of a domain leave it by all its ports
    limit = group.fabric_bytes_per_s if fabric else group.link_bytes_per_s
    return Link(
        a,
        b,
        verbatim(Bytes(amount)),
        rate,
        None if limit == inf else limit,
        narrowest=group.domains > 1 and fabric == _fabric_is_narrow(case),
        step=step,
    )


def _fabric_is_narrow(case: CollectiveCase) -> bool:
    """Whether the ways between domains set the pace."""
    group = case.group
    if group.domains == 1:
        return False
    if case.taken.algorithm == "pairs":
        inside = (group.local - 1) / group.link_bytes_per_s if group.local > 1 else 0.0
        return (group.ranks - group.local) / group.fabric_bytes_per_s > inside
    return group.local * group.fabric_bytes_per_s < group.link_bytes_per_s


def _round(case: CollectiveCase, count: int, step: int, shift: int) -> Iterator[Link]:
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
            label=Text("part {part}", part=part),
        )
    if not whole:
        fabric = case.group.domains > 1
        leaving = amount / case.group.local if fabric else amount
        yield _link(case, f"r{count - 1}", "out", leaving, step, fabric)
        yield _link(case, "out", "r0", leaving, step, fabric)


def _ring(case: CollectiveCase) -> Diagram:
    count, n = _drawn(case), case.ranks
    part = case.size_bytes / n
    half = case.taken.steps // 2 if case.operation == "all_reduce" else case.taken.steps
    adds = Text(
        "every rank sends one part ({part}) to its right neighbour, which adds it to its own",
        part=Bytes(part),
    )
    passes = Text(
        "every rank passes a finished part ({part}) on to its right neighbour", part=Bytes(part)
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
        _title(case, Text("A ring")), _nodes(case, count, count < n), links, tuple(words), note
    )


def _shifts(case: CollectiveCase, half: int) -> list[int]:
    """By step, how far left of a rank the part is that it sends.

    Adding begins with a rank's own part and ends with its right neighbour's complete, which is
    passed on first; a reduce-scatter begins one further left, to end with its own.
    """
    if case.operation == "all_reduce":
        return [*range(half), *range(-1, half - 1)]
    return list(range(1, half + 1)) if case.operation == "reduce_scatter" else list(range(half))


def _ring_note(case: CollectiveCase, count: int) -> Text:
    n, taken = case.ranks, case.taken
    note = plural(
        "{count} step in all; each rank sends {sent} altogether.",
        "{count} steps in all; each rank sends {sent} altogether.",
        taken.steps,
        sent=Bytes(taken.sent_bytes),
    )
    drawn = None
    if count < n and case.group.domains == 1:
        drawn = Text(
            "{drawn} of {ranks} ranks are drawn, and one step of each sort.", drawn=count, ranks=n
        )
    elif count < n:
        drawn = Text(
            "Of {ranks} ranks one domain of {local} is drawn, and one step of each sort; "
            "{fabric_steps} steps cross the fabric. Each of the domain's rings leaves by another "
            "port: what one carries is shown.",
            ranks=n,
            local=case.group.local,
            fabric_steps=taken.fabric_steps,
        )
    return sentences(note, drawn)


def _chain(case: CollectiveCase) -> Diagram:
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
    note = Text(
        "The message goes along the chain in small pieces, so all {steps} hops work at once: it "
        "takes hardly longer than one hop, and the last rank begins when the first piece has come "
        "through.",
        steps=case.taken.steps,
    )
    title = _title(case, Text("A pipelined chain"))
    return Diagram(title, _nodes(case, count, outside), tuple(links), (), note)


def _tree(case: CollectiveCase) -> Diagram:
    count, group = _drawn(case), case.group
    levels = ceil(log2(group.domains))
    down = [(f"r{r}", f"r{r + 1}") for r in range(count - 1)]
    up = [(b, a) for a, b in reversed(down)]
    steps = (
        (
            [(a, b, False) for a, b in up],
            Text("inside each domain: sums go along the chain to its first rank"),
        ),
        (
            [("r0", "out", True)],
            Text("between domains: up the tree, {levels} levels, adding on the way", levels=levels),
        ),
        (
            [("out", "r0", True)],
            Text("the result comes down the tree, {levels} levels", levels=levels),
        ),
        ([(a, b, False) for a, b in down], Text("and along the chain of each domain")),
    )
    links = []
    for at, (pairs, _) in enumerate(steps):
        for a, b, fabric in pairs:
            amount = case.size_bytes / group.local if fabric else case.size_bytes
            links.append(_link(case, a, b, amount, at, fabric))
    note = Text(
        "A tree has {steps} hops one after the other where a ring has {ring}, so small messages "
        "are sooner through; NCCL uses two trees that share the work. One domain is drawn.",
        steps=case.taken.steps,
        ring=2 * (case.ranks - 1),
    )
    title = _title(case, Text("A tree over the domains"))
    nodes = _nodes(case, count, True)
    return Diagram(title, nodes, tuple(links), tuple(words for _, words in steps), note)


def _pairs(case: CollectiveCase) -> Diagram:
    count, n, group = _drawn(case), case.ranks, case.group
    part = case.size_bytes / n
    whole = count == n and n <= _MOST_PAIRS
    senders = range(count) if whole else range(1)
    links = [
        _link(case, f"r{a}", f"r{b}", part, 0, False)
        for a in senders
        for b in range(count)
        if a != b
    ]
    if count < n:
        rest = n - group.local if group.domains > 1 else n - count
        links.append(_link(case, "r0", "out", part * rest, 0, group.domains > 1))
    note = sentences(
        Text(
            "Every rank sends another {part} to each of the {others} others, all at once.",
            part=Bytes(part),
            others=n - 1,
        ),
        None if whole else Text("What rank 0 sends is drawn."),
    )
    title = _title(case, Text("Direct sends"))
    step = Text("every rank to every other")
    return Diagram(title, _nodes(case, count, count < n), tuple(links), (step,), note)


def _title(case: CollectiveCase, what: Text) -> Text:
    n = case.ranks
    return Text(
        "{what} of {n} ranks: what each way carries, on average over the whole time", what=what, n=n
    )
