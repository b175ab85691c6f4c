"""Device symbols in words: which family of kernels a symbol is of, and a short readable name.

Recordings name kernels by their C++ symbol, often a template of a thousand characters. What tells
is little: the library's own naming of its kernels (cuBLAS's `nvjet`, cuDNN's `xmma`, rocBLAS's
`Cijk`, ATen's functors, Inductor's list of fused operators). The family serves breakdowns where no
operator is known, the short name serves reading.
"""

from __future__ import annotations

import re
from functools import lru_cache

from gpuscope.cost.types import Kind
from gpuscope.timeline.communication import is_communication

_FAMILIES: tuple[tuple[Kind, str], ...] = (
    ("fused", r"^triton_(poi|per|red|tem|for|mm|unk|spl)\w*_fused|^triton_(poi|per|red|tem)_"),
    ("memset", r"^memset\b|fillBufferAligned|FillFunctor.*hipMemset"),
    ("transfer", r"^memcpy\b|copyBuffer\b|CopyDeviceTo|hipMemcpy"),
    (
        "attention",
        r"flash_?(fwd|bwd|attn|fprop|bprop|infer)|fmha|attn_fwd|attn_bwd|_sdpa_|flash::"
        r"|paged_attention|attention_(fwd|bwd|kernel)|mha_|mla_|BatchPrefill|BatchDecode"
        r"|fused_attention|unified_attention|compute_dot_do_o|convert_dq",
    ),
    (
        "optimizer",
        r"multi_tensor_apply.*(Adam|Sgd|Lamb|Adagrad|RMS)|FusedAdam|FusedSgd|FusedOptimizer"
        r"|adamw?_kernel|lamb_(stage|kernel)|fused_lamb",
    ),
    (
        "recurrent",
        r"RNN_block|elemWiseRNN|LSTM_elementWise|GRU_elementWise|persist(ent)?_?(RNN|lstm)"
        r"|lstm_|gru_",
    ),
    (
        "normalization",
        r"batch_?norm|layer_?norm|group_?norm|rms_?norm|bn_(fw|bw)|GammaBeta|instance_?norm"
        r"|RowwiseMoments|ComputeInternalGradients|MIOpenBatchNorm|add_rmsnorm|norm_(fwd"
        r"|bwd)|Compute(Backward)?FusedParams",
    ),
    (
        "sort",
        r"searchsorted|radix_?sort|DeviceScan|DeviceReduceByKey|bitonic|segmented_?sort|sort_?by|topk"
        r"|gatherTopK|DeviceSelect|UniqueByKey|merge_?sort|thrust.*(sort|scan|unique)",
    ),
    (
        "convolution",
        r"scudnn|implicit_gemm|implicit_convolve|explicit_convolve|wgrad|dgrad|fprop"
        r"|winograd|igemm_(fwd|bwd|wrw)|conv_?(depthwise|2d|3d|1d|fwd|bwd)|convolution"
        r"|conv2d|grouped_conv|ConvBwd|MIOpenConv|miopenSp3|nchwToNhwc|nhwcToNchw"
        r"|AddPadding|tensorTransform|batched_transpose|Conv_|im2col|col2im|compute[AB]?Offsets|fft2d_",
    ),
    (
        "matmul",
        r"nvjet|gemm|gemv|cutlass.*(Kernel|kernel)|Cijk_|splitK?_?[Rr]educe|_matmul|matmul_"
        r"|xmma|hipblas|rocblas|ck::.*Gemm|wvSplitK|ampere_|volta_|turing_|hopper_|maxwell_"
        r"|cublasLt|epilogue::impl|dot_kernel|marlin|s884|s1688|s16816|h884|i8816",
    ),
    ("gather", r"split_embedding|embedding_backward|indexing_backward|store_kv"),
    ("random", r"distribution_|philox|random|dropout|bernoulli|curand|(uniform|normal)_kernel"),
    (
        "gather",
        r"index(_elementwise|Select|FuncLarge|FuncSmall|_put|Add|_copy)|gather|scatter"
        r"|embedding|EmbeddingBag|index_kernel|bounds_check|linearize_index|permute_(pooled"
        r"|indices)|write_indices|take_|masked_(select|scatter)|nonzero|reshape_and_cache"
        r"|compute_grad_weight|sum_and_scatter|krn_partial",
    ),
    (
        "copy",
        r"roll_cuda|chunk_cat|CatArrayBatchedCopy|direct_copy|copy_kernel|transpose"
        r"|LoadWithCast|recat_copy|contiguous_|permute|triu_tril|batched_memcpy|float8_copy"
        r"|bfloat16_copy|copy_device",
    ),
    (
        "reduction",
        r"reduce_kernel|softmax|SoftMax|nll_loss|NLL(Loss|Crit)|cross_entropy|norm_kernel"
        r"|pool|multi_tensor_l2norm|LpNorm|ReduceOp|reduce_1Block|cub::.*Reduce|logsumexp"
        r"|mean_kernel|kernel_scan_|argmax|segment_reduce|welford|col_?sum|row_?sum|prod_kernel",
    ),
    (
        "pointwise",
        r"elementwise|multi_tensor_apply|pointwise|_kernel_impl|BinaryFunctor|UnaryFunctor"
        r"|silu|gelu|relu|act_and_mul|rotary|rope|SubTensorOp|scalePackedTensor|upsample"
        r"|CUDAFunctor|fill|quantize|dequant|cast|add_kernel|mul_kernel|arange|clamp|sigmoid"
        r"|where_kernel|OpTensor|scale_kernel|per_token_group",
    ),
)
"""Family and what its symbols hold, the first that matches counts."""

LONGEST = 60
"""Characters of a short name."""


@lru_cache(maxsize=16384)
def kernel_family(symbol: str) -> Kind:
    """Return the family of a device symbol; "other" where nothing in it tells."""
    if is_communication(symbol):
        return "collective"
    for kind, pattern in _FAMILIES:
        if re.search(pattern, symbol, re.IGNORECASE):
            return kind
    return "other"


_NVJET = re.compile(
    r"nvjet_sm(?P<sm>\d+)_(?P<types>[a-z]+)_(?P<tile>\d+x\d+)_(?P<stage>\d+x\d+)_(?P<cga>\d+x\d+)"
    r"(?:_\w*?(?P<split>splitK))?"
)
_NVJET_TYPES = {"t": "bf16", "h": "fp16", "s": "fp32", "q": "fp8", "b": "int8"}
_FUNCTORS = (
    r"CUDAFunctor(?:OnSelf|OnOther)?_(\w+)",
    r"(\w+?)CUDAKernelImpl\b",
    r"(\w+?)KernelImpl\b",
    r"(\w+?)_kernel_cuda\b",
    r"(\w+?)_kernel_impl\b",
    r"(\w+?)Functor\b",
    r"launch_(\w+?)_kernel\b",
    r"(\w+?)_kernel\b",
    r"(\w+)\(at::TensorIterator",
)
"""How ATen names the operation that an elementwise template is made for, the most telling first."""
_ATEN = re.compile(
    r"at::native::(?:\(anonymous namespace\)::)?(?:vectorized|unrolled|legacy)?_?elementwise_kernel"
)
_REDUCE = re.compile(
    r"reduce_kernel<.*?(?:native::)(?P<op>\w+?)(?:Ops|_functor|Functor|NanFunctor)\b"
)
_MULTI = re.compile(r"(?P<op>\w+?)(?:Math)?Functor\b")
_HELPERS = frozenset(
    {
        "elementwise",
        "vectorized_elementwise",
        "unrolled_elementwise",
        "gpu",
        "gpu_reduce",
        "opmath",
        "direct_copy",
        "BUnary",
        "AUnary",
        "Binary",
        "Unary",
        "func_wrapper",
        "legacy_elementwise",
        "opmath_gpu",
        "opmath_symmetric_gpu",
        "gpu_with_scalars",
        "elementwise_kernel_helper",
        "gpu_kernel",
        "opmath_symmetric_gpu_kernel_with_scalars",
        "",
    }
)


@lru_cache(maxsize=16384)
def short_symbol(symbol: str) -> str:
    """Return a device symbol in at most `LONGEST` readable characters."""
    short = _short(symbol)
    return short if len(short) <= LONGEST else short[: LONGEST - 1] + "…"


def _short(symbol: str) -> str:
    nvjet = _NVJET.match(symbol)
    if nvjet:
        dtype = _NVJET_TYPES.get(nvjet["types"][:1], "")
        split = " split-K" if "splitK" in symbol else ""
        return f"nvjet {dtype} {nvjet['tile']} cluster {nvjet['cga']}{split}".replace("  ", " ")
    if _ATEN.search(symbol):
        return f"elementwise {_functor(symbol)}".rstrip()
    reduced = _REDUCE.search(symbol)
    if reduced:
        return f"reduce {_words(reduced['op'])}"
    if "multi_tensor_apply_kernel" in symbol:
        return _multi_tensor(symbol)
    if symbol.startswith("triton_"):
        return "triton " + re.sub(r"^triton_\w{3}_fused_", "", symbol).strip("_")
    if symbol.startswith("Cijk_"):
        tile = re.search(r"MT(\d+x\d+x\d+)", symbol)
        return f"Tensile gemm {tile[1]}" if tile else "Tensile gemm"
    if symbol.startswith("cudnn_generated_fort_native_sdpa"):
        way = "backward" if "bprop" in symbol else "forward"
        tile = re.search(r"knob_\d+_(\d+x\d+x\d+)", symbol)
        return f"cuDNN attention {way} {tile[1] if tile else ''}".rstrip()
    for pattern, words in _LIBRARIES:
        if re.search(pattern, symbol):
            dtype = "tf32" if "tf32" in symbol else _TYPE_WORDS.get(symbol_dtype(symbol), "")
            parts = (words, dtype, _tile_words(symbol))
            return " ".join(part for part in parts if part)
    for pattern, words in _PLAIN:
        if re.search(pattern, symbol):
            return words
    return _without_templates(symbol)


_LIBRARIES = (
    (r"cutlass\w*::Kernel2?<.*simt", "cutlass vector gemm"),
    (r"cutlass\w*::Kernel2?<.*fprop", "cutlass conv forward"),
    (r"cutlass\w*::Kernel2?<.*dgrad", "cutlass conv data gradient"),
    (r"cutlass\w*::Kernel2?<.*wgrad", "cutlass conv weight gradient"),
    (r"cutlass\w*::Kernel2?<", "cutlass gemm"),
    (r"7cutlass13device_kernel.*GroupProblemShape", "cutlass grouped gemm"),
    (r"7cutlass13device_kernel|cutlass::device_kernel", "cutlass device kernel"),
    (r"xmma_fprop", "xmma conv forward"),
    (r"xmma_dgrad", "xmma conv data gradient"),
    (r"xmma_wgrad", "xmma conv weight gradient"),
    (r"xmma_gemm", "xmma gemm"),
    (r"^igemm_fwd", "MIOpen conv forward"),
    (r"^igemm_bwd", "MIOpen conv data gradient"),
    (r"^igemm_wrw", "MIOpen conv weight gradient"),
)
"""Kernels of libraries, told apart by dtype and tile."""

_PLAIN = (
    (r"CatArrayBatchedCopy", "concatenate"),
    (r"splitKreduce", "split-K sum"),
    (r"flash_fwd_splitkv_combine", "flash attention combine"),
    (r"flash_fwd_splitkv", "flash attention forward (split)"),
    (r"flash_fwd", "flash attention forward"),
    (r"flash_bwd_dot_do_o", "flash attention backward (row sums)"),
    (r"flash_bwd_convert_dq", "flash attention backward (convert dQ)"),
    (r"flash_bwd", "flash attention backward"),
    (r"fmha_cutlassF", "efficient attention forward"),
    (r"fmha_cutlassB", "efficient attention backward"),
    (r"cunn_SoftMaxForward|softmax_warp_forward", "softmax forward"),
    (r"cunn_SoftMaxBackward|softmax_warp_backward", "softmax backward"),
    (r"vectorized_layer_norm_kernel", "layer norm (vectorized)"),
    (r"RadixSort\w*Onesweep", "radix sort"),
    (r"fused_dropout_kernel", "dropout (fused)"),
    (r"vectorized_gather_kernel", "gather rows (vectorized)"),
    (r"index_elementwise_kernel", "index"),
    (r"add_rmsnorm", "add and RMS norm"),
    (r"nchwToNhwc", "layout NCHW to NHWC"),
    (r"nhwcToNchw", "layout NHWC to NCHW"),
    (r"_ZN2ck.*grouped_conv_fwd", "CK conv forward"),
    (r"Rmsnorm2dFwd", "CK RMS norm"),
)
"""Well-known kernels in words."""

_TYPE_WORDS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}
_STD = {"plus": "add", "minus": "sub", "multiplies": "mul", "divides": "div"}


def _tile_words(symbol: str) -> str:
    return "x".join(map(str, symbol_tile(symbol)))


def _multi_tensor(symbol: str) -> str:
    """One launch over a list of tensors: what is done to each element."""
    fused = re.search(r"Fused(Adam|Sgd|Adagrad)|(Adam|SGD|LAMB\w*?)Functor", symbol)
    if fused:
        return f"multi-tensor {_words(fused[1] or fused[2])}"
    if "::Copy<" in symbol or "CopyFunctor" in symbol:
        return "multi-tensor copy"
    done = re.search(r"std::(plus|minus|multiplies|divides)<", symbol)
    if done:
        word = _STD[done[1]]
        return f"multi-tensor {'addc' + word if 'PointwiseOp' in symbol else word}"
    multi = _MULTI.search(symbol)
    return f"multi-tensor {_words(multi['op'])}" if multi else "multi-tensor"


def _functor(symbol: str) -> str:
    """The operation that an elementwise template is made for."""
    for pattern in _FUNCTORS:
        names = [n for n in re.findall(pattern, symbol) if n not in _HELPERS]
        if names:
            return _words(names[0])
    return "copy" if "copy_kernel" in symbol or "LoadWithCast" in symbol else ""


def _words(name: str) -> str:
    """CamelCase and snake_case as lower-case words."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).replace("_", " ").lower().strip()


def _without_templates(symbol: str) -> str:
    """The innermost function's name: no return type, namespaces, template or call arguments."""
    flat, depth = [], 0
    text = symbol.replace("(anonymous namespace)::", "")
    for letter in text:
        if letter in "<(":
            depth += 1
        elif letter in ">)":
            depth = max(0, depth - 1)
        elif not depth:
            flat.append(letter)
    words = "".join(flat).replace("void ", "").strip()
    name = words.split("::")[-1].strip() or words or symbol
    return re.sub(r"\s+", " ", name)


_TILES = (
    r"nvjet_sm\d+_[a-z]+_(\d+)x(\d+)_(\d+)x",
    r"MT(\d+)x(\d+)x(\d+)",
    r"tilesize(\d+)x(\d+)x(\d+)",
    r"(?:gemm|fprop|dgrad|wgrad)(?:_[a-z0-9]+)*?_(\d+)x(\d+)_(\d+)x",
    r"bt(\d+)x(\d+)x(\d+)",
    r"sgemm_(\d+)x(\d+)",
    r"gemm_(\d+)x(\d+)",
    r"_(\d{2,3})x(\d{2,3})x(\d{2,3})",
)


@lru_cache(maxsize=16384)
def symbol_tile(symbol: str) -> tuple[int, ...]:
    """Return the block tile that a matrix kernel's symbol names, (M, N) or (M, N, K); else ()."""
    for pattern in _TILES:
        found = re.search(pattern, symbol)
        if found is not None:
            return tuple(int(n) for n in found.groups())
    return ()


_DTYPES: tuple[tuple[str, str], ...] = (
    (r"BFloat16|bf16|bfloat16", "bfloat16"),
    (r"c10::Half|__half|_f16|fp16|half", "float16"),
    (r"OpaqueType<2", "bfloat16"),
    (r"OpaqueType<4", "float32"),
    (r"double", "float64"),
    (r"float|_f32", "float32"),
)


@lru_cache(maxsize=16384)
def symbol_dtype(symbol: str) -> str:
    """Return the dtype that a symbol's template arguments name first by width; "" if none."""
    for pattern, dtype in _DTYPES:
        if re.search(pattern, symbol):
            return dtype
    return ""
