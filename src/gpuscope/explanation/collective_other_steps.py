"""Steps of switches that add, of tori, and of trees at doubling distances."""

from __future__ import annotations

from math import ceil, inf

from gpuscope.document.blocks import Diagram, Link, Node
from gpuscope.document.quantities import Bytes
from gpuscope.document.text import Text, verbatim
from gpuscope.explanation.collective_case import CollectiveCase

_MOST = 16


def switch_diagram(case: CollectiveCase) -> Diagram:
    """Every rank to and from a switch that adds; of several domains one, with its way out."""
    group, taken = case.group, case.taken
    count = min(group.local, _MOST - 1)
    outside = group.domains > 1
    middle = Node("switch", Text("switch adds"), "switch", 0.5, 0.45, 0.6, 0.14)
    nodes = [*_row(count, 0.85), middle]
    whole, down = case.size_bytes, 2 if outside else 1
    links = [_link(case, f"r{r}", "switch", whole, 0, False) for r in range(count)]
    links += [_link(case, "switch", f"r{r}", whole, down, False) for r in range(count)]
    steps = [Text("the switch reads every rank's data and adds")]
    if outside:
        more = group.domains - 1
        said = Text("{more} more", more=more)
        other = Text("other domains")
        nodes.append(Node("out", other, "switch", 0.5, 0.1, 0.4, 0.14, said))
        part = whole / group.local
        links += [
            _link(case, a, b, part, 1, True) for a, b in (("switch", "out"), ("out", "switch"))
        ]
        steps.append(Text("sums go between the domains, a part by each rank's port"))
    elif count < group.ranks:
        rest = group.ranks - count
        said = Text("{rest} more ranks", rest=rest)
        nodes.append(Node("out", Text("other ranks"), "switch", 0.5, 0.1, 0.4, 0.14, said))
        links.append(_link(case, "out", "switch", whole * rest, 0, False))
        links.append(_link(case, "switch", "out", whole * rest, down, False))
    steps.append(Text("it writes the sums to all ranks"))
    note = Text(
        "Each rank sends its data once ({sent} with what it writes back); a ring would send nearly "
        "twice the message.",
        sent=Bytes(taken.sent_bytes),
    )
    title = _title(case, Text("Switches that add"))
    return Diagram(title, tuple(nodes), tuple(links), tuple(steps), note)


def _row(count: int, y: float) -> list[Node]:
    """Ranks beside each other."""
    return [
        Node(f"r{r}", verbatim(f"R{r}"), "rank", round((r + 0.5) / count, 4), y, 0.8 / count, 0.12)
        for r in range(count)
    ]


def torus_diagram(case: CollectiveCase) -> Diagram:
    """A plane of the torus: every rank with its neighbours along two axes."""
    axes = case.group.axes
    wide = min(axes[0].length, 4) if axes else 1
    deep = min(axes[1].length, 4) if len(axes) > 1 else 1
    nodes, links = [], []
    for y in range(deep):
        for x in range(wide):
            name = f"r{y * wide + x}"
            nodes.append(
                Node(
                    name,
                    verbatim(name.upper()),
                    "rank",
                    round((x + 0.5) / wide, 4),
                    round((y + 0.5) / deep, 4),
                    0.12,
                    0.1,
                )
            )
            for dx, dy in ((1, 0), (0, 1)):
                if x + dx < wide and y + dy < deep:
                    links.append(
                        _link(
                            case,
                            name,
                            f"r{(y + dy) * wide + x + dx}",
                            case.taken.sent_bytes / max(len(axes), 1),
                            None,
                            False,
                        )
                    )
    shape = " x ".join(str(axis.length) for axis in axes) or "1"
    closed = sum(axis.wraps for axis in axes)
    note = Text(
        "The ranks of a domain lie on {shape}; {closed} of {axes} axes close to a ring. Data goes "
        "both ways along all axes at once; one plane is drawn{of_domain}.",
        shape=shape,
        closed=closed,
        axes=len(axes),
        of_domain=Text(", of one domain") if case.group.domains > 1 else "",
    )
    title = Text("Neighbours on a torus") if closed else Text("Neighbours on a mesh")
    return Diagram(_title(case, title), tuple(nodes), tuple(links), (), note)


def doubling_diagram(case: CollectiveCase) -> Diagram:
    """Rank 0 reaches others at doubling distances."""
    count = min(case.ranks, _MOST)
    nodes = _row(count, 0.5)
    links: list[Link] = []
    steps: list[Text] = []
    distance = 1
    while distance < count:
        links += [
            _link(case, f"r{r}", f"r{r + distance}", case.size_bytes / case.ranks, len(steps), True)
            for r in range(min(distance, count - distance))
        ]
        steps.append(Text("whoever has the part sends it {distance} further on", distance=distance))
        distance *= 2
    note = Text(
        "{steps} steps instead of a ring's {ranks}; the tree of one part is drawn, each rank is "
        "the root of another.",
        steps=case.taken.steps,
        ranks=case.ranks - 1,
    )
    title = Text("Trees at doubling distances (PAT)")
    return Diagram(_title(case, title), tuple(nodes), tuple(links), tuple(steps), note)


def _link(
    case: CollectiveCase, a: str, b: str, amount: float, step: int | None, fabric: bool
) -> Link:
    group, taken = case.group, case.taken
    limit = group.fabric_bytes_per_s if fabric else group.link_bytes_per_s
    return Link(
        a,
        b,
        verbatim(Bytes(ceil(amount))),
        amount / taken.time_s,
        None if limit == inf else limit,
        narrowest=group.domains > 1 and fabric,
        step=step,
    )


def _title(case: CollectiveCase, what: Text) -> Text:
    n = case.ranks
    return Text(
        "{what}, {n} ranks: what each way carries, on average over the whole time", what=what, n=n
    )
