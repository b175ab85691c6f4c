"""Kernels that are C++ functions: the library by namespace, the meaning from `functions`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuscope.analysis.symbols import kernel_family, short_symbol, symbol_dtype
from gpuscope.explain.kernel_names import words
from gpuscope.explain.kernel_names.functions import Argument, Function
from gpuscope.explain.kernel_names.functions_nvidia import CUB, CUBLAS, CUDNN
from gpuscope.explain.kernel_names.functions_serving import SERVING
from gpuscope.explain.kernel_names.functions_torch import ATEN, FBGEMM
from gpuscope.explain.kernel_names.registry import reader
from gpuscope.explain.kernel_names.symbol import Symbol, mangled_names, mangled_numbers, parse
from gpuscope.explain.kernel_names.types import KernelName, Piece, same
from gpuscope.explain.types import Words

_LIBRARIES: tuple[tuple[str, str], ...] = (
    (r"(^|::)at::|^at_cuda|PyTorch|^c10::|^torch::", "PyTorch"),
    (r"cudnn|cask", "cuDNN (NVIDIA)"),
    (r"cublas|^internal::gemv|^internal::region", "cuBLAS (NVIDIA)"),
    (r"(^|::)cub::", "CUB (NVIDIA)"),
    (r"thrust", "Thrust (NVIDIA)"),
    (r"cutlass", "CUTLASS (NVIDIA)"),
    (r"fbgemm|split_embedding|embedding_codegen", "FBGEMM"),
    (r"vllm", "vLLM"),
    (r"sgl|sglang", "SGLang"),
    (r"flashinfer", "FlashInfer"),
    (r"deep_ep", "DeepEP"),
    (r"transformer_engine", "Transformer Engine (NVIDIA)"),
    (r"rocprim|hipcub", "rocPRIM (AMD)"),
    (r"ck_tile|^ck::|_ZN2ck", "Composable Kernel (AMD)"),
    (r"aiter", "AITER (AMD)"),
    (r"miopen|MIOpen", "MIOpen (AMD)"),
    (r"apex", "Apex (NVIDIA)"),
    (r"magma", "MAGMA"),
    (r"bitsandbytes|kQuantize|kDequantize", "bitsandbytes"),
    (r"dnnl|gen_conv|gemm_kernel_ocl", "oneDNN (Intel)"),
)
_TABLES = (
    ("cudnn", CUDNN),
    ("cublas", CUBLAS),
    ("cub", CUB),
    ("aten", ATEN),
    ("fbgemm", FBGEMM),
    ("serving", SERVING),
)
_UNTOLD = Words("not told by the name", "名称中未说明")
_MOST_NAMES = 12
_OWNERS = {
    "aten": "PyTorch",
    "cub": "CUB (NVIDIA)",
    "cudnn": "cuDNN (NVIDIA)",
    "cublas": "cuBLAS (NVIDIA)",
    "fbgemm": "FBGEMM",
    "serving": "",
}
_SOURCES = {
    "fbgemm": "pytorch/FBGEMM, fbgemm_gpu.",
    "serving": "The kernels' own sources: vLLM, SGLang, FlashInfer, DeepGEMM, DeepEP.",
    "aten": "pytorch/pytorch, aten/src/ATen/native/cuda.",
    "cub": "NVIDIA/cccl, cub/device.",
    "cudnn": "Not documented by NVIDIA; the function's name tells.",
    "cublas": "Not documented by NVIDIA; the function's name tells.",
}


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
    for table, function in _candidates(symbol, parts):
        if re.fullmatch(function.pattern, parts.name) or _tail(function.pattern, parts.path):
            return _known(symbol, parts, table, function)
    return None


def _candidates(symbol: str, parts: Symbol) -> Iterator[tuple[str, Function]]:
    """The library's own table first; the others after it, for functions without a namespace."""
    home = _home(parts.path)
    tables = sorted(_TABLES, key=lambda table: table[0] != home)
    return ((name, function) for name, functions in tables for function in functions)


def _tail(pattern: str, path: str) -> bool:
    """Whether a pattern with a namespace fits the end of a path."""
    return "::" in pattern and re.search(rf"(^|::)(?:{pattern})$", path) is not None


def _home(path: str) -> str:
    if re.search(r"(^|::)cub::", path):
        return "cub"
    if re.search(r"cudnn|cask|xmma", path):
        return "cudnn"
    return "cublas" if re.search(r"cublas|^internal::", path) else "aten"


def _known(symbol: str, parts: Symbol, table: str, function: Function) -> KernelName:
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
            pieces.append(Piece(found, "dtype", same(found)))
    return KernelName(
        symbol,
        _library(symbol, parts, _OWNERS[table]),
        function.what,
        tuple(pieces),
        threads=threads,
        note=_cut_note() if parts.cut else None,
        source=_SOURCES[table],
    )


def _cut_note() -> Words:
    return Words(
        "The symbol ends in the middle: the recording kept only its beginning.",
        "符号在中途被截断：记录只保留了开头。",
    )


def _operation(symbol: str, function: Function) -> Words:
    short = short_symbol(symbol)
    return same(short) if short else function.what


def _argument(symbol: str, text: str, argument: Argument | None) -> Piece | None:
    if argument is None:
        return None
    field, en, zh = argument
    if field == "operation":
        operation = short_symbol(symbol)
        shown = text if len(text) <= 48 else text[:47] + "…"
        return Piece(shown, field, same(operation))
    if field in ("inputs", "output", "accumulator", "dtype", "index"):
        name = words.dtype(text)
        return Piece(text, field, same(name)) if name else None
    value = text.rstrip("ul") if text.rstrip("ul").isdigit() else text
    if value == "" or len(value) > 24:
        return None
    yes = {"true": ("yes", "是"), "false": ("no", "否")}.get(value, (value, value))
    return Piece(text, field, Words(en.format(yes[0]), zh.format(yes[1])))


def _library(symbol: str, parts: Symbol, otherwise: str = "") -> Words:
    for pattern, name in _LIBRARIES:
        if re.search(pattern, parts.path) or re.search(pattern, symbol[:60]):
            return same(name)
    return same(otherwise) if otherwise else _UNTOLD


@reader("_ZN7cutlass13device_kernelIN2at4cuda6detail25enable_3x_kernel_for_sm9xE", rank=60)
def read_mangled(symbol: str) -> KernelName | None:
    """Read what a mangled symbol of a known library tells: its names, and CUTLASS's tile."""
    names = mangled_names(symbol)
    if not names:
        return None
    joined = "::".join(names)
    library = next((same(name) for pattern, name in _LIBRARIES if re.search(pattern, joined)), None)
    if library is None:
        return None
    family = kernel_family(symbol)
    telling = [name for name in names if re.fullmatch(r"[A-Za-z]\w{3,}", name)]
    pieces = [
        Piece(name, "other", Words("a name inside the symbol", "符号中的名称"))
        for name in telling[:_MOST_NAMES]
    ]
    tile = mangled_numbers(symbol, "GemmShape")
    if tile:
        text = "x".join(map(str, tile))
        pieces.insert(0, Piece(f"GemmShape<{text}>", "tile", words.times(text)))
    what = _FAMILY_WORDS.get(family, Words(f"{family}", f"{family}"))
    return KernelName(
        symbol,
        library,
        Words(f"A kernel of {library.en}: {what.en}.", f"{library.zh} 的内核：{what.zh}。"),
        tuple(pieces),
        ("its other template arguments",),
        tile[:3],
        source="Itanium C++ ABI: names inside a mangled symbol.",
    )


_FAMILY_WORDS = {
    "matmul": Words("matrix product", "矩阵乘"),
    "convolution": Words("convolution", "卷积"),
    "attention": Words("attention", "注意力"),
    "normalization": Words("normalization", "归一化"),
    "other": Words("what it does is not told", "用途未说明"),
    "pointwise": Words("each value by itself", "逐元素"),
    "gather": Words("gather", "收集/散布"),
    "sort": Words("sort or scan", "排序或前缀和"),
    "reduction": Words("reduction", "归约"),
    "collective": Words("communication", "通信"),
    "optimizer": Words("optimizer", "优化器"),
    "copy": Words("copy", "拷贝"),
    "random": Words("random numbers", "随机数"),
    "recurrent": Words("recurrent network", "循环网络"),
    "transfer": Words("copy", "拷贝"),
    "memset": Words("fill", "填充"),
    "fused": Words("fused operators", "融合算子"),
}


@reader(rank=90)
def read_by_name(symbol: str) -> KernelName | None:
    """Read at least the library or the family that a symbol's names tell."""
    parts = parse(symbol)
    family = kernel_family(symbol)
    library = _library(symbol, parts)
    named = library != _UNTOLD
    if not parts.name or (family == "other" and not named):
        return None
    what = _FAMILY_WORDS[family]
    pieces = [Piece(parts.name[:80], "operation", what, certain=False)]
    dtype = symbol_dtype(symbol)
    if dtype:
        pieces.append(Piece(dtype, "dtype", same(dtype)))
    return KernelName(
        symbol,
        library,
        Words(
            f"By its words, of the family {family}: {what.en}.", f"从名称用词看，属于：{what.zh}。"
        ),
        tuple(pieces),
        tuple(a for a in parts.arguments[:8] if not words.dtype(a)) or (parts.name,),
        note=_cut_note() if parts.cut else None,
    )
