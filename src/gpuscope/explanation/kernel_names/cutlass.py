"""CUTLASS kernels by their procedural names: `cutlass_80_tensorop_bf16_s16816gemm_...`.

The naming is that of CUTLASS's own generator (NVIDIA/cutlass, python/cutlass_library,
`gemm_operation.py` and `conv2d_operation.py`); cuBLAS and cuDNN ship kernels made by it.
"""

from __future__ import annotations

import re
from dataclasses import replace

from gpuscope.document.text import Text, verbatim
from gpuscope.explanation.kernel_names import words
from gpuscope.explanation.kernel_names.registry import reader
from gpuscope.explanation.kernel_names.tables import table
from gpuscope.explanation.kernel_names.tokens import Rule, read_tokens
from gpuscope.explanation.kernel_names.types import KernelName, Piece

_NAME = re.compile(r"Kernel2?<(?P<name>cutlass\w*)>?")
_TYPE = r"bf16|f16|tf32|f32|f64|s8|u8|s4|s32|e4m3|e5m2"

_TABLE = table("cutlass")


@reader(
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>"
    "(cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8::Params)",
    "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nt_align1>",
)
def read_cutlass(symbol: str) -> KernelName | None:
    """Read CUTLASS kernels that bear their procedural name."""
    found = _NAME.search(symbol)
    if found is None:
        return None
    name = found["name"]
    # "cutlass__5x_cudnn" is the library's own copy, not the kernel's name.
    if not re.search(r"gemm|fprop|dgrad|wgrad", name):
        return None
    return read_procedural(symbol, name, verbatim("CUTLASS"))


def read_procedural(symbol: str, name: str, library: Text) -> KernelName:
    """Read `name`, which follows CUTLASS's scheme.

    A dtype before the operation is the result's, one after it the inputs'; without them both are
    the type that is added up in (fp32 inputs on tensor cores: rounded to tf32).
    """
    before, core, after = re.split(
        r"((?<=_)[a-z]?\d*[a-z0-9]*?(?:gemm|fprop|dgrad|wgrad))", name, maxsplit=1
    )
    tile = re.search(r"_(\d+)x(\d+)_(\d+)x(\d+)", after)
    loose = re.search(r"_(\d+)x(\d+)(?=_)", after)
    pieces: list[Piece] = []
    unread: list[str] = []
    adds = words.NAMES["accumulator"].get(core[0], "")
    tensor = "tensorop" in before
    for part, field in ((before, "output"), (core, ""), (after, "inputs")):
        rest = re.sub(r"_\d+x\d+(?=_|$)", "", part)
        typed = Rule(rf"({_TYPE})", field, lambda m: verbatim(words.dtype(m[1])))
        read, missed = read_tokens(rest, (typed, *_TABLE.rules) if field else _TABLE.rules)
        pieces += read
        unread += missed
    if tile:
        pieces.append(Piece(f"{tile[1]}x{tile[2]}", "tile", words.tile(f"{tile[1]}x{tile[2]}")))
        pieces.append(Piece(f"{tile[3]}x{tile[4]}", "depth", words.depth(tile[3], tile[4])))
    elif loose:
        pieces.append(Piece(f"{loose[1]}x{loose[2]}", "tile", words.tile(f"{loose[1]}x{loose[2]}")))
    given = {piece.field for piece in pieces}
    if "output" not in given:
        pieces.append(Piece(core[0], "output", verbatim(adds)))
    if "inputs" not in given:
        rounded = tensor and adds == "fp32"
        inputs = Text("fp32, rounded to tf32") if rounded else verbatim(adds)
        pieces.append(Piece(core, "inputs", inputs))
    return _named(symbol, name, library, core, pieces, unread, tile or loose)


def _named(
    symbol: str,
    name: str,
    library: Text,
    core: str,
    pieces: list[Piece],
    unread: list[str],
    tile: re.Match[str] | None,
) -> KernelName:
    named = re.search(r"gemm|fprop|dgrad|wgrad", core)
    operation = _TABLE.words["operation"][named[0] if named else "gemm"]
    inputs = next(piece.value for piece in pieces if piece.field == "inputs")
    source = "CUTLASS, python/cutlass_library: gemm_operation.py, conv2d_operation.py."
    kernel = KernelName(
        symbol,
        library,
        Text("A CUTLASS kernel: {operation}, inputs {inputs}.", operation=operation, inputs=inputs),
        tuple(pieces),
        tuple(unread),
        source=source,
        input_bits=words.bits(inputs),
    )
    if tile is None:
        return kernel
    numbers = tuple(map(int, tile.groups()))
    if len(numbers) == 4:
        return replace(kernel, tile=numbers[:3], stages=numbers[3])
    return replace(kernel, tile=numbers)
