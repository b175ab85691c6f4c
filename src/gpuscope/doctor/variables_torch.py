"""Variables of PyTorch, Triton and Python that change performance.

Sources: PyTorch, "Environment Variables" and torch.compile's troubleshooting pages; Triton,
"Environment variables"; Python, "Command line and environment".
"""

from __future__ import annotations

from gpuscope.doctor.variables import Setting, is_off, is_on
from gpuscope.explain.types import Words

TORCH: tuple[Setting, ...] = (
    Setting(
        "PYTORCH_NO_CUDA_MEMORY_CACHING", is_on, "warning",
        Words("PyTorch's memory cache is off.", "PyTorch 显存缓存被关闭。"),
        Words(
            "Every tensor is a cudaMalloc and a cudaFree, which wait for the device.",
            "每个张量都要 cudaMalloc/cudaFree，并等待设备。",
        ), True,
    ),
    Setting(
        "TORCHDYNAMO_DISABLE", is_on, "warning",
        Words("torch.compile does nothing.", "torch.compile 不起作用。"),
        Words("All code runs eagerly.", "所有代码按 eager 运行。"), True,
    ),
    Setting(
        "TORCH_COMPILE_DISABLE", is_on, "warning",
        Words("torch.compile does nothing.", "torch.compile 不起作用。"),
        Words("All code runs eagerly.", "所有代码按 eager 运行。"), True,
    ),
    Setting(
        "TORCH_COMPILE_DEBUG", is_on, "note",
        Words("torch.compile writes all it does to disk.", "torch.compile 把过程写入磁盘。"),
        Words("Compiling takes longer.", "编译变慢。"),
    ),
    Setting(
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES", is_on, "note",
        Words("Compiled code is not kept.", "不缓存编译结果。"),
        Words("Each start compiles all again.", "每次启动都要重新编译。"),
    ),
    Setting(
        "TORCH_USE_CUDA_DSA", is_on, "note",
        Words("Device-side assertions are on.", "已开启设备端断言。"),
        Words("Kernels that were built for it check more.", "为此编译的内核会做更多检查。"),
    ),
    Setting(
        "TORCH_SHOW_DISPATCH_TRACE", is_on, "note",
        Words("Each operator is printed.", "每个算子都被打印。"),
        Words("The host spends its time on printing.", "主机时间花在打印上。"), True,
    ),
    Setting(
        "PYTORCH_JIT", is_off, "note", Words("TorchScript is off.", "TorchScript 已关闭。"),
        Words("Scripted functions run as plain Python.", "脚本化函数按普通 Python 运行。"),
    ),
    Setting(
        "TORCH_CUDNN_V8_API_DISABLED", is_on, "note",
        Words("cuDNN's newer interface is off.", "cuDNN 新接口被关闭。"),
        Words("Convolutions choose among fewer kernels.", "卷积可选的内核变少。"),
    ),
    Setting(
        "TRITON_INTERPRET", is_on, "warning",
        Words(
            "Triton kernels run in an interpreter on the host.",
            "Triton 内核在主机解释器中运行。",
        ),
        Words(
            "Thousands of times slower; compiled models fail.",
            "慢成千上万倍；编译的模型会失败。",
        ), True,
    ),
    Setting(
        "TRITON_ALWAYS_COMPILE", is_on, "note",
        Words("Triton compiles at every start.", "Triton 每次都重新编译。"),
        Words("Its cache is passed over.", "绕过其缓存。"),
    ),
    Setting(
        "PYTHONDEVMODE", is_on, "note",
        Words("Python's development mode is on.", "Python 开发模式已开启。"),
        Words("Every call on the host checks more.", "主机端每次调用都有额外检查。"),
    ),
    Setting(
        "PYTHONMALLOC", lambda v: "debug" in v, "note",
        Words("Python's memory checks are on.", "Python 内存检查已开启。"),
        Words("The host is slower.", "主机变慢。"),
    ),
)  # fmt: skip
