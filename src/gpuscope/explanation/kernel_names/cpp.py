"""Kernels that are C++ functions: the library by namespace, the meaning from `functions`."""

from __future__ import annotations

import re

from gpuscope.analysis.symbols import kernel_family, short_symbol, symbol_dtype
from gpuscope.document.text import Text, extracted, verbatim
from gpuscope.explanation.kernel_names import words
from gpuscope.explanation.kernel_names.functions import Argument, Function, candidates
from gpuscope.explanation.kernel_names.registry import reader
from gpuscope.explanation.kernel_names.symbol import Symbol, mangled_names, mangled_numbers, parse
from gpuscope.explanation.kernel_names.tables import table
from gpuscope.explanation.kernel_names.types import KernelName, Piece

_TABLE = table("cpp")
_LIBRARIES = tuple((re.compile(each["match"]), each["name"]) for each in _TABLE.raw["libraries"])
_FAMILIES = _TABLE.words["family"]
_UNTOLD = Text("not told by the name")
_MOST_NAMES = 12


@reader(
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, "
    "float> > >(at::native::ReduceOp<float, at::native::MeanOps<float, float> >)",
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>",
    "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>",
    rank=50,
)
def read_function(symbol: str) -> KernelName | None:
    """Read a demangled C++ function that `functions` knows."""
    if symbol.startswith("_Z"):
        return None
    parts = parse(symbol)
    found = next((each for each in candidates(parts.path) if each.fits(parts)), None)
    return _known(symbol, parts, found) if found is not None else None


def _known(symbol: str, parts: Symbol, function: Function) -> KernelName:
    pieces = [Piece(parts.name, "operation", _operation(symbol, function))]
    threads = None
    given = [a for a in parts.arguments if a]
    if parts.cut:
        given = given[:-1]  # half an argument could be misread
    for text, argument in zip(given, function.arguments, strict=False):
        piece = _argument(symbol, text, argument)
        if piece is not None:
            pieces.append(piece)
            if piece.field == "threads" and text.rstrip("u").isdigit():
                threads = int(text.rstrip("u"))
    if not any(piece.field in ("dtype", "inputs") for piece in pieces):
        found = symbol_dtype(symbol)
        if found:
            pieces.append(Piece(found, "dtype", verbatim(found)))
    return KernelName(
        symbol,
        _library(symbol, parts, function.library),
        function.what,
        tuple(pieces),
        threads=threads,
        note=_cut_note() if parts.cut else None,
        source=function.source,
    )


def _cut_note() -> Text:
    return Text("The symbol ends in the middle: the recording kept only its beginning.")


def _operation(symbol: str, function: Function) -> Text:
    short = short_symbol(symbol)
    return verbatim(short) if short else function.what


def _argument(symbol: str, text: str, argument: Argument | None) -> Piece | None:
    if argument is None:
        return None
    field = argument.field
    if field == "operation":
        operation = short_symbol(symbol)
        shown = text if len(text) <= 48 else text[:47] + "…"
        return Piece(shown, field, verbatim(operation))
    if field in ("inputs", "output", "accumulator", "dtype", "index"):
        name = words.dtype(text)
        return Piece(text, field, verbatim(name)) if name else None
    value = text.rstrip("ul") if text.rstrip("ul").isdigit() else text
    if value == "" or len(value) > 24:
        return None
    value = {"true": Text("yes"), "false": Text("no")}.get(value, value)
    shown = extracted(argument.text, value=value) if argument.text else verbatim(value)
    return Piece(text, field, shown)


def _library(symbol: str, parts: Symbol, otherwise: str = "") -> Text:
    for pattern, name in _LIBRARIES:
        if pattern.search(parts.path) or pattern.search(symbol[:60]):
            return verbatim(name)
    return verbatim(otherwise) if otherwise else _UNTOLD


@reader("_ZN7cutlass13device_kernelIN2at4cuda6detail25enable_3x_kernel_for_sm9xE", rank=60)
def read_mangled(symbol: str) -> KernelName | None:
    """Read what a mangled symbol of a known library tells: its names, and CUTLASS's tile."""
    names = mangled_names(symbol)
    if not names:
        return None
    joined = "::".join(names)
    library = next((verbatim(name) for pattern, name in _LIBRARIES if pattern.search(joined)), None)
    if library is None:
        return None
    family = kernel_family(symbol)
    telling = [name for name in names if re.fullmatch(r"[A-Za-z]\w{3,}", name)]
    pieces = [
        Piece(name, "other", Text("a name inside the symbol")) for name in telling[:_MOST_NAMES]
    ]
    tile = mangled_numbers(symbol, "GemmShape")
    if tile:
        text = "x".join(map(str, tile))
        pieces.insert(0, Piece(f"GemmShape<{text}>", "tile", words.times(text)))
    what = _FAMILIES[family]
    return KernelName(
        symbol,
        library,
        Text("A kernel of {library}: {what}.", library=library, what=what),
        tuple(pieces),
        (Text("its other template arguments"),),
        tile[:3],
        source=Text("Itanium C++ ABI: names inside a mangled symbol."),
    )


@reader(rank=90)
def read_by_name(symbol: str) -> KernelName | None:
    """Read at least the library or the family that a symbol's names tell."""
    parts = parse(symbol)
    family = kernel_family(symbol)
    library = _library(symbol, parts)
    named = library != _UNTOLD
    if not parts.name or (family == "other" and not named):
        return None
    what = _FAMILIES[family]
    pieces = [Piece(parts.name[:80], "operation", what, certain=False)]
    dtype = symbol_dtype(symbol)
    if dtype:
        pieces.append(Piece(dtype, "dtype", verbatim(dtype)))
    return KernelName(
        symbol,
        library,
        Text("By its words, of the family {family}: {what}.", family=family, what=what),
        tuple(pieces),
        tuple(a for a in parts.arguments[:8] if not words.dtype(a)) or (parts.name,),
        note=_cut_note() if parts.cut else None,
    )
