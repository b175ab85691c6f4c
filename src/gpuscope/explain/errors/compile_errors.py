"""Errors of torch.compile, Inductor and Triton."""

from __future__ import annotations

import re

from gpuscope.explain.errors.log import Log
from gpuscope.explain.errors.registry import error_reader
from gpuscope.explain.errors.types import Diagnosis
from gpuscope.explain.types import Fact, Words

_EAGER = Words(
    "To go on without it: torch._dynamo.config.suppress_errors = True, or leave torch.compile out "
    "around the module that the traceback names (@torch.compiler.disable).",
    "若要先继续：设 torch._dynamo.config.suppress_errors = True，"
    "或对回溯中的模块关闭编译（@torch.compiler.disable）。",
)
_LOGS = Words(
    'TORCH_LOGS="+dynamo,graph_breaks" and TORCHDYNAMO_VERBOSE=1 tell more.',
    'TORCH_LOGS="+dynamo,graph_breaks" 与 TORCHDYNAMO_VERBOSE=1 可输出更多信息。',
)
_SOURCES = ("PyTorch, torch.compile troubleshooting (docs.pytorch.org).",)


@error_reader
def read_out_of_resources(log: Log) -> Diagnosis | None:
    """Read a Triton kernel whose block needs more than the device has."""
    found = log.search(
        r"out of resources?: (?P<what>[\w ]+?), Required: (?P<need>\d+),[ ,]*Hardware "
        r"limit\w*: (?P<have>\d+)"
    )
    if found is None:
        return None
    need, have = int(found["need"]), int(found["have"])
    shared = "shared" in found["what"]
    unit = "bytes" if shared or "memory" in found["what"] else "count"
    return Diagnosis(
        "triton_out_of_resources",
        Words(
            f"A Triton kernel needs too much {found['what']}",
            f"Triton 内核所需的资源过多：{found['what']}",
        ),
        Words(
            f"Its block needs {need / have:.2f} times what this device gives one block. Block "
            "sizes and num_stages were chosen for a larger device.",
            f"其线程块所需为该设备单个线程块上限的 {need / have:.2f} 倍。块大小和 num_stages "
            "是为更大的设备选择的。",
        ),
        "certain",
        (
            Words(
                "Lower num_stages first (shared memory grows in step with it), then BLOCK_M, "
                "BLOCK_N or BLOCK_K; with autotune add smaller configurations.",
                "先减小 num_stages（共享内存与其成正比），再减小 BLOCK_M、BLOCK_N 或 BLOCK_K；"
                "使用 autotune 时加入更小的配置。",
            ),
            Words(
                "In a library: update it, or choose another attention or quantization backend.",
                "若在第三方库中：更新它，或更换注意力、量化后端。",
            ),
        ),
        log.line_of(found),
        30,
        (
            Fact(Words("needed", "需要"), float(need), unit),
            Fact(Words("the device has", "设备上限"), float(have), unit),
        ),
        commands=(
            (f"gpuscope explain occupancy --threads 256 --shared {need} --on h200",)
            if shared
            else ()
        ),
        sources=("triton-lang/triton, runtime/errors.py.",),
    )


@error_reader
def read_compile(log: Log) -> Diagnosis | None:
    """Read torch.compile's failures: no Triton, no compiler, a backend that raised."""
    return _no_triton(log) or _no_compiler(log) or _limit(log) or _backend(log)


def _no_triton(log: Log) -> Diagnosis | None:
    found = log.search(r"Cannot find a working triton installation|TritonMissing")
    if found is None:
        return None
    return Diagnosis(
        "no_triton",
        Words("torch.compile found no Triton", "torch.compile 找不到 Triton"),
        Words(
            "Inductor writes its GPU kernels in Triton, which is not installed here, or too old.",
            "Inductor 用 Triton 生成 GPU 内核，而这里未安装或版本过旧。",
        ),
        "certain",
        (
            Words(
                "Install the triton that belongs to your PyTorch (pip show torch names it); on "
                "Windows the package triton-windows.",
                "安装与 PyTorch 对应的 triton（pip show torch 可查）；Windows 上为 "
                "triton-windows。",
            ),
            _EAGER,
        ),
        log.line_of(found),
        30,
        sources=_SOURCES,
    )


def _no_compiler(log: Log) -> Diagnosis | None:
    found = log.search(
        r"InvalidCxxCompiler|No working C\+\+ compiler found|CppCompileError|C\+\+ compile error"
        r"|Failed to find C compiler"
    )
    if found is None:
        return None
    return Diagnosis(
        "no_compiler",
        Words("torch.compile found no C++ compiler", "torch.compile 找不到 C++ 编译器"),
        Words(
            "Inductor and Triton need a C or C++ compiler on the host; there is none, or it "
            "failed.",
            "Inductor 与 Triton 需要主机上的 C/C++ 编译器；这里没有，或其编译失败。",
        ),
        "likely",
        (
            Words(
                "Install one (apt install g++; conda install gxx_linux-64), or set CC and CXX.",
                "安装编译器（apt install g++；conda install gxx_linux-64），或设置 CC 和 CXX。",
            ),
            _EAGER,
        ),
        log.line_of(found),
        30,
        sources=_SOURCES,
    )


def _limit(log: Log) -> Diagnosis | None:
    found = log.search(
        r"recompile_limit reached|cache_size_limit \(\d+\)|hit "
        r"config\.(?:recompile|cache_size)_limit"
        r"|FailOnRecompileLimitHit"
    )
    if found is None:
        return None
    return Diagnosis(
        "recompile_limit",
        Words("torch.compile gave up recompiling", "torch.compile 达到重编译上限"),
        Words(
            "A function was compiled again and again, since a shape or a Python value changes at "
            "each call; then it runs uncompiled.",
            "某个函数因形状或 Python 值每次变化而反复编译；之后改为不编译运行。",
        ),
        "likely",
        (
            Words(
                "TORCH_LOGS=recompiles names the value that changed; mark it: "
                "torch._dynamo.mark_dynamic(x, 0), torch.compile(dynamic=True), or pad lengths.",
                "TORCH_LOGS=recompiles 会指出变化的值；可用 torch._dynamo.mark_dynamic(x, 0)、"
                "torch.compile(dynamic=True) 或补齐长度。",
            ),
        ),
        log.line_of(found),
        60,
        sources=_SOURCES,
    )


def _backend(log: Log) -> Diagnosis | None:
    found = log.search(
        r"BackendCompilerFailed|InductorError|torch\._dynamo\.exc\.\w+|triton\.compiler\.errors\.\w+"
        r"|triton\.CompilationError"
    )
    if found is None:
        return None
    inner = re.search(
        r"raised:\s*\n\s*(?P<inner>\w[\w.]*(?:Error|Exception)[^\n]{0,200})", log.text
    )
    facts = (Fact(Words("underneath", "内层错误"), inner["inner"].strip()),) if inner else ()
    return Diagnosis(
        "compile_failed",
        Words("torch.compile failed", "torch.compile 失败"),
        Words(
            "The compiler met something in this model that it could not translate; the error "
            "underneath names it.",
            "编译器遇到无法转换的内容；内层错误说明了是什么。",
        ),
        "possible",
        (
            _EAGER,
            _LOGS,
            Words(
                "A newer PyTorch often compiles what an older one did not.",
                "更新 PyTorch 往往能解决。",
            ),
        ),
        log.line_of(found),
        45,
        facts,
        sources=_SOURCES,
    )
