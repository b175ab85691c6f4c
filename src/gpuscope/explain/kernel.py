"""`kernel`: what the name of a device kernel says, piece by piece."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from gpuscope.analysis.symbols import kernel_family, short_symbol
from gpuscope.errors import InvalidValueError
from gpuscope.explain.kernel_names import FIELDS, KernelName, known_examples, read_kernel_name
from gpuscope.explain.kernel_names.symbol import mangled_names, parse
from gpuscope.explain.kernel_names.types import same
from gpuscope.explain.kernel_tiles import tile_section
from gpuscope.explain.kernel_trace import found_in, trace_section
from gpuscope.explain.registry import topic
from gpuscope.explain.types import (
    Block,
    Column,
    Explanation,
    Fact,
    Facts,
    Paragraph,
    Section,
    Table,
    Words,
)
from gpuscope.run import Run

_LONGEST = 20_000
_NEAR = 4


@topic("kernel")
def kernel(name: str, *, on: str = "h200", trace: Run | None = None) -> Explanation:
    """Explain a kernel's name.

    Args:
        name: a device symbol as a trace has it; with a trace also a part of one.
        on: device for which a matrix kernel's tiles are counted into waves.
        trace: a recording (`gs.load(...)`): how often the kernel ran there, and how long.

    Raises:
        InvalidValueError: no name, or none in the trace that holds it.
        UnknownNameError: unknown device.
    """
    name = name.strip()
    if not name or len(name) > _LONGEST:
        raise InvalidValueError(
            "There is no kernel name." if not name else "This is too long for a kernel's name.",
            f"At most {_LONGEST:,} letters are read." if name else "",
            "Type: gpuscope explain kernel ampere_sgemm_128x64_nn",
        )
    ran = found_in(trace, name) if trace is not None else None
    symbol = ran.symbol if ran is not None else name
    read = read_kernel_name(symbol)
    known = _known(read, on) if read is not None else _unknown(symbol)
    sections = list(known.sections)
    if ran is not None:
        sections.insert(0, trace_section(ran))
    return Explanation(
        "kernel", known.title, known.summary, tuple(sections),
        _commands(symbol, on, ran is not None), known.sources, known.assumptions,
    )  # fmt: skip


def _commands(symbol: str, on: str, traced: bool) -> tuple[str, ...]:
    family = kernel_family(symbol)
    asks = {
        "matmul": f"gpuscope explain matmul 4096 4096 4096 --on {on}",
        "attention": "gpuscope explain attention --help",
        "collective": f"gpuscope explain collective all_reduce 64MB --on 8x{on}",
        "transfer": "gpuscope explain transfer 1GB",
    }
    found = (asks[family],) if family in asks else ()
    return found if traced else (*found, "gpuscope explain kernel NAME --trace trace.json.gz")


def _known(read: KernelName, on: str) -> Explanation:
    guessed = [piece for piece in read.pieces if not piece.certain]
    summary = [read.what, _library_sentence(read)]
    if read.note is not None:
        summary.append(read.note)
    if read.unread:
        summary.append(_unread_sentence(read.unread))
    sections = [_pieces_section(read)]
    tiles = tile_section(read, on)
    if tiles is not None:
        sections.append(tiles)
    assumptions: tuple[Words, ...] = ()
    if guessed:
        assumptions = (Words(
            "Meanings marked “inferred” are not documented; they fit the launches that were "
            "recorded.",
            "标有“推断”的含义没有官方文档，但与已记录的启动相符。",
        ),)  # fmt: skip
    return Explanation(
        "kernel", same(short_symbol(read.symbol)), tuple(summary), tuple(sections),
        sources=(read.source,) if read.source else (), assumptions=assumptions,
    )  # fmt: skip


def _library_sentence(read: KernelName) -> Words:
    told = len(read.pieces)
    return Words(
        f"It is from {read.library.en}; {told} pieces of its name are understood.",
        f"来自 {read.library.zh}；名称中有 {told} 个部分可以解读。",
    )


def _unread_sentence(unread: Sequence[str]) -> Words:
    shown = ", ".join(text if len(text) <= 40 else text[:39] + "…" for text in unread[:6])
    more = len(unread) - 6
    also = f" and {more} more" if more > 0 else ""
    also_zh = f" 等 {len(unread)} 项" if more > 0 else ""
    return Words(
        f"What these pieces mean is not known: {shown}{also}.",
        f"以下部分的含义未知：{shown}{also_zh}。",
    )


def _pieces_section(read: KernelName) -> Section:
    """Facts by what they are about, and the name from left to right."""
    by_field: dict[str, list[Words]] = {}
    texts: dict[str, list[str]] = {}
    for piece in read.pieces:
        by_field.setdefault(piece.field, []).append(piece.value)
        texts.setdefault(piece.field, []).append(piece.text)
    facts = [Fact(Words("library", "库"), read.library)]
    for field in (f for f in FIELDS if f in by_field and f != "library"):
        note = ", ".join(dict.fromkeys(texts[field]))
        told = same(note) if len(note) < 60 else None
        facts.append(Fact(FIELDS[field], _joined(by_field[field]), note=told))
    rows = tuple(
        (
            piece.text, FIELDS[piece.field], piece.value,
            Words("read", "明确") if piece.certain else Words("inferred", "推断"),
        )
        for piece in read.pieces
    )  # fmt: skip
    unread = tuple((text, "", Words("not known", "未知"), "") for text in read.unread[:12])
    shown = _shown(read.symbol)
    blocks: tuple[Block, ...] = (
        Facts(tuple(facts)),
        Table(
            Words("The name, piece by piece", "逐段解读名称"),
            (
                Column(Words("piece", "部分")), Column(Words("about", "说明对象")),
                Column(Words("meaning", "含义")), Column(Words("how sure", "可信度")),
            ),
            (*rows, *unread),
        ),
        Paragraph(Words(f"The whole symbol: {shown}", f"完整符号：{shown}")),
    )  # fmt: skip
    return Section(Words("What the name says", "名称说明了什么"), blocks)


def _joined(values: Sequence[Words]) -> Words:
    different = list(dict.fromkeys(values))
    return Words("; ".join(v.en for v in different), "；".join(v.zh for v in different))


def _shown(symbol: str) -> str:
    return symbol if len(symbol) <= 600 else symbol[:599] + "…"


def _unknown(symbol: str) -> Explanation:
    """What can be said of a name that no reader knows: its C++ parts, and names that are near."""
    parts = parse(symbol)
    facts = [Fact(Words("function", "函数"), parts.name[:120] or symbol[:120])]
    if parts.path != parts.name and parts.path:
        facts.append(Fact(Words("namespaces", "命名空间"), parts.path.rpartition("::")[0][:200]))
    facts += [
        Fact(Words(f"template argument {i}", f"第 {i} 个模板参数"), argument[:120])
        for i, argument in enumerate(parts.arguments[:8], 1)
    ]
    inside = mangled_names(symbol)
    if inside:
        facts.append(Fact(Words("names inside", "符号内的名称"), ", ".join(inside[:12])))
    blocks: list[Block] = [Facts(tuple(facts))]
    near = _near(symbol)
    if near:
        blocks.append(
            Table(
                Words("Names that are near and known", "相近的已知名称"),
                (Column(Words("symbol", "符号")), Column(Words("what it is", "说明"))),
                near,
            )
        )
    return Explanation(
        "kernel", same(short_symbol(symbol)),
        (
            Words(
                "This kernel is of no library that gpuscope knows by its names.",
                "gpuscope 无法从名称判断该内核属于哪个库。",
            ),
            Words(
                "It may be one of your own, of Triton (where the name is the Python function's) or "
                "of an extension; search your source for the function's name.",
                "它可能是你自己的内核、Triton 内核（名称即 Python 函数名）或某个扩展的内核；"
                "可在源码中搜索该函数名。",
            ),
        ),
        (Section(Words("What can be said", "能确定的信息"), tuple(blocks)),),
    )  # fmt: skip


def _near(symbol: str) -> tuple[tuple[str, Words], ...]:
    examples = {example[:80]: example for example in known_examples()}
    found = difflib.get_close_matches(symbol[:80], examples, n=_NEAR, cutoff=0.45)
    rows = []
    for short in found:
        read = read_kernel_name(examples[short])
        if read is not None:
            rows.append((short if len(short) < 80 else short + "…", read.what))
    return tuple(rows)
