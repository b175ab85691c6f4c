"""Steps of switches that add, of tori, and of trees at doubling distances."""

from __future__ import annotations

from math import ceil, inf

from gpuscope.explain.collective_case import Case
from gpuscope.explain.numbers import size
from gpuscope.explain.types import Diagram, Link, Node, Words

_MOST = 16


def switch_diagram(case: Case) -> Diagram:
    """Every rank to and from a switch that adds; of several domains one, with its way out."""
    group, taken = case.group, case.taken
    count = min(group.local, _MOST - 1)
    outside = group.domains > 1
    middle = Node("switch", Words("switch adds", "交换机求和"), "switch", 0.5, 0.45, 0.6, 0.14)
    nodes = [*_row(count, 0.85), middle]
    whole, down = case.size_bytes, 2 if outside else 1
    links = [_link(case, f"r{r}", "switch", whole, 0, False) for r in range(count)]
    links += [_link(case, "switch", f"r{r}", whole, down, False) for r in range(count)]
    steps = [Words("the switch reads every rank's data and adds",
                   "交换机读取每个 rank 的数据并求和")]  # fmt: skip
    if outside:
        more = group.domains - 1
        said = Words(f"{more} more", f"另外 {more} 个")
        other = Words("other domains", "其他域")
        nodes.append(Node("out", other, "switch", 0.5, 0.1, 0.4, 0.14, said))
        part = whole / group.local
        links += [
            _link(case, a, b, part, 1, True) for a, b in (("switch", "out"), ("out", "switch"))
        ]
        steps.append(Words("sums go between the domains, a part by each rank's port",
                           "各域之间交换部分和，每个 rank 的端口承担一份"))  # fmt: skip
    elif count < group.ranks:
        rest = group.ranks - count
        said = Words(f"{rest} more ranks", f"另外 {rest} 个 rank")
        nodes.append(
            Node("out", Words("other ranks", "其余 rank"), "switch", 0.5, 0.1, 0.4, 0.14, said)
        )
        links.append(_link(case, "out", "switch", whole * rest, 0, False))
        links.append(_link(case, "switch", "out", whole * rest, down, False))
    steps.append(Words("it writes the sums to all ranks", "把结果写给所有 rank"))
    note = Words(
        f"Each rank sends its data once ({size(taken.sent_bytes)} with what it writes back); a "
        "ring would send nearly twice the message.",
        f"每个 rank 只发送一遍数据（连同写回共 {size(taken.sent_bytes)}）；环算法要发送近两倍。",
    )
    title = _title(case, Words("Switches that add", "交换机求和"))
    return Diagram(title, tuple(nodes), tuple(links), tuple(steps), note)


def _row(count: int, y: float) -> list[Node]:
    """Ranks beside each other."""
    return [
        Node(f"r{r}", Words(f"R{r}", f"R{r}"), "rank", round((r + 0.5) / count, 4), y,
             0.8 / count, 0.12)
        for r in range(count)
    ]  # fmt: skip


def torus_diagram(case: Case) -> Diagram:
    """A plane of the torus: every rank with its neighbours along two axes."""
    axes = case.group.axes
    wide = min(axes[0].length, 4) if axes else 1
    deep = min(axes[1].length, 4) if len(axes) > 1 else 1
    nodes, links = [], []
    for y in range(deep):
        for x in range(wide):
            name = f"r{y * wide + x}"
            nodes.append(
                Node(name, Words(name.upper(), name.upper()), "rank", round((x + 0.5) / wide, 4),
                     round((y + 0.5) / deep, 4), 0.12, 0.1)
            )  # fmt: skip
            for dx, dy in ((1, 0), (0, 1)):
                if x + dx < wide and y + dy < deep:
                    links.append(
                        _link(case, name, f"r{(y + dy) * wide + x + dx}",
                              case.taken.sent_bytes / max(len(axes), 1), None, False)
                    )  # fmt: skip
    shape = " x ".join(str(axis.length) for axis in axes) or "1"
    closed = sum(axis.wraps for axis in axes)
    note = Words(
        f"The ranks of a domain lie on {shape}; {closed} of {len(axes)} axes close to a ring. Data "
        "goes both ways along all axes at once; one plane is drawn"
        + (", of one domain." if case.group.domains > 1 else "."),
        f"一个域的 rank 排成 {shape}；{len(axes)} 个轴中有 {closed} 个首尾相接成环。"
        "数据同时沿所有轴双向传递；图中只画一个平面"
        + ("（一个域）。" if case.group.domains > 1 else "。"),
    )
    title = Words("Neighbours on a torus", "环面上的相邻传递")
    return Diagram(_title(case, title), tuple(nodes), tuple(links), (), note)


def doubling_diagram(case: Case) -> Diagram:
    """Rank 0 reaches others at doubling distances."""
    count = min(case.ranks, _MOST)
    nodes = _row(count, 0.5)
    links: list[Link] = []
    steps: list[Words] = []
    distance = 1
    while distance < count:
        links += [
            _link(case, f"r{r}", f"r{r + distance}", case.size_bytes / case.ranks, len(steps), True)
            for r in range(min(distance, count - distance))
        ]
        steps.append(
            Words(f"whoever has the part sends it {distance} further on",
                  f"已有这块数据的 rank 都发给相距 {distance} 的 rank")
        )  # fmt: skip
        distance *= 2
    note = Words(
        f"{case.taken.steps} steps instead of a ring's {case.ranks - 1}; the tree of one part is "
        "drawn, each rank is the root of another.",
        f"只需 {case.taken.steps} 步，而环要 {case.ranks - 1} 步；"
        "图中是一块数据的树，每个 rank 各为一棵树的根。",
    )
    title = Words("Trees at doubling distances (PAT)", "距离倍增的树（PAT）")
    return Diagram(_title(case, title), tuple(nodes), tuple(links), tuple(steps), note)


def _link(case: Case, a: str, b: str, amount: float, step: int | None, fabric: bool) -> Link:
    group, taken = case.group, case.taken
    limit = group.fabric_bytes_per_s if fabric else group.link_bytes_per_s
    return Link(
        a, b, Words(size(ceil(amount)), size(ceil(amount))), amount / taken.time_s,
        None if limit == inf else limit,
        narrowest=group.domains > 1 and fabric, step=step,
    )  # fmt: skip


def _title(case: Case, what: Words) -> Words:
    n = case.ranks
    return Words(
        f"{what.en}, {n} ranks: what each way carries, on average over the whole time",
        f"{n} 个 rank，{what.zh}：各通路在全程中的平均流量",
    )
