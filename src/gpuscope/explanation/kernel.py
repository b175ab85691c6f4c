"""`kernel`: what the name of a device kernel says, piece by piece."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from gpuscope.analysis.symbols import kernel_family, short_symbol
from gpuscope.document.blocks import (
    Block,
    Column,
    Explanation,
    Fact,
    Facts,
    Paragraph,
    Section,
    Table,
)
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text, joined, verbatim
from gpuscope.errors import InvalidValueError
from gpuscope.explanation.kernel_names import FIELDS, KernelName, known_examples, read_kernel_name
from gpuscope.explanation.kernel_names.symbol import mangled_names, parse
from gpuscope.explanation.kernel_tiles import tile_section
from gpuscope.explanation.kernel_trace import found_in, trace_section
from gpuscope.explanation.registry import topic
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
            Text("There is no kernel name.")
            if not name
            else Text("This is too long for a kernel's name."),
            Text("At most {longest} letters are read.", longest=Number(_LONGEST, ","))
            if name
            else "",
            Text("Type: gpuscope explain kernel ampere_sgemm_128x64_nn"),
        )
    ran = found_in(trace, name) if trace is not None else None
    symbol = ran.symbol if ran is not None else name
    read = read_kernel_name(symbol)
    known = _known(read, on) if read is not None else _unknown(symbol)
    sections = list(known.sections)
    if ran is not None:
        sections.insert(0, trace_section(ran))
    return Explanation(
        "kernel",
        known.title,
        known.summary,
        tuple(sections),
        _commands(symbol, on, ran is not None),
        known.sources,
        known.assumptions,
    )


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
    assumptions: tuple[Text, ...] = ()
    if guessed:
        assumptions = (
            Text(
                "Meanings marked “inferred” are not documented; they fit the launches that were "
                "recorded."
            ),
        )
    return Explanation(
        "kernel",
        verbatim(short_symbol(read.symbol)),
        tuple(summary),
        tuple(sections),
        sources=(read.source,) if read.source else (),
        assumptions=assumptions,
    )


def _library_sentence(read: KernelName) -> Text:
    given = len(read.pieces)
    return Text(
        "It is from {library}; {told} pieces of its name are understood.",
        library=read.library,
        told=given,
    )


def _unread_sentence(unread: Sequence[str]) -> Text:
    shown = joined([text if len(text) <= 40 else text[:39] + "…" for text in unread[:6]])
    more = len(unread) - 6
    if more > 0:
        shown = Text("{shown} and {more} more", shown=shown, more=more)
    return Text("What these pieces mean is not known: {shown}.", shown=shown)


def _pieces_section(read: KernelName) -> Section:
    """Facts by what they are about, and the name from left to right."""
    by_field: dict[str, list[Text]] = {}
    texts: dict[str, list[str]] = {}
    for piece in read.pieces:
        by_field.setdefault(piece.field, []).append(piece.value)
        texts.setdefault(piece.field, []).append(piece.text)
    facts = [Fact(Text("library"), read.library)]
    for field in (f for f in FIELDS if f in by_field and f != "library"):
        note = ", ".join(dict.fromkeys(texts[field]))
        words = verbatim(note) if len(note) < 60 else None
        facts.append(Fact(FIELDS[field], joined(dict.fromkeys(by_field[field]), "; "), note=words))
    rows = tuple(
        (
            piece.text,
            FIELDS[piece.field],
            piece.value,
            Text("stated") if piece.certain else Text("inferred"),
        )
        for piece in read.pieces
    )
    unread = tuple((text, "", Text("not known"), "") for text in read.unread[:12])
    shown = _shown(read.symbol)
    blocks: tuple[Block, ...] = (
        Facts(tuple(facts)),
        Table(
            Text("The name, piece by piece"),
            (
                Column(Text("piece")),
                Column(Text("about")),
                Column(Text("meaning")),
                Column(Text("how sure")),
            ),
            (*rows, *unread),
        ),
        Paragraph(Text("The whole symbol: {shown}", shown=shown)),
    )
    return Section(Text("What the name says"), blocks)


def _shown(symbol: str) -> str:
    return symbol if len(symbol) <= 600 else symbol[:599] + "…"


def _unknown(symbol: str) -> Explanation:
    """What can be said of a name that no reader knows: its C++ parts, and names that are near."""
    parts = parse(symbol)
    facts = [Fact(Text("function"), parts.name[:120] or symbol[:120])]
    if parts.path != parts.name and parts.path:
        facts.append(Fact(Text("namespaces"), parts.path.rpartition("::")[0][:200]))
    facts += [
        Fact(Text("template argument {i}", i=i), argument[:120])
        for i, argument in enumerate(parts.arguments[:8], 1)
    ]
    inside = mangled_names(symbol)
    if inside:
        facts.append(Fact(Text("names inside"), ", ".join(inside[:12])))
    blocks: list[Block] = [Facts(tuple(facts))]
    near = _near(symbol)
    if near:
        blocks.append(
            Table(
                Text("Names that are near and known"),
                (Column(Text("symbol")), Column(Text("what it is"))),
                near,
            )
        )
    return Explanation(
        "kernel",
        verbatim(short_symbol(symbol)),
        (
            Text("This kernel is of no library that gpuscope knows by its names."),
            Text(
                "It may be one of your own, of Triton (where the name is the Python function's) or "
                "of an extension; search your source for the function's name."
            ),
        ),
        (Section(Text("What can be said"), tuple(blocks)),),
    )


def _near(symbol: str) -> tuple[tuple[str, Text], ...]:
    examples = {example[:80]: example for example in known_examples()}
    found = difflib.get_close_matches(symbol[:80], examples, n=_NEAR, cutoff=0.45)
    rows = []
    for short in found:
        read = read_kernel_name(examples[short])
        if read is not None:
            rows.append((short if len(short) < 80 else short + "…", read.what))
    return tuple(rows)
