"""Mistakes in how a program uses devices: forks, ports, unused parameters, old devices, caches."""

from __future__ import annotations

import re
from typing import NamedTuple

from gpuscope.explain.errors.log import Log
from gpuscope.explain.errors.registry import error_reader
from gpuscope.explain.errors.types import Certainty, Diagnosis
from gpuscope.explain.types import Fact, Words


class _Kind(NamedTuple):
    kind: str
    pattern: str
    title: Words
    cause: Words
    certainty: Certainty
    tries: tuple[Words, ...]
    source: str


_KINDS = (
    _Kind(
        "fork_after_cuda",
        r"Cannot re-initialize CUDA in forked subprocess",
        Words("CUDA was used before a process was forked", "在 fork 之前已使用过 CUDA"),
        Words(
            "A child process made by fork cannot use CUDA once its parent has: most often a data "
            "set or a collate function that makes tensors on the device inside a worker.",
            "父进程使用过 CUDA 后，fork 出的子进程无法再用 CUDA：最常见的是数据集或 collate "
            "函数在 worker 中创建了设备上的张量。",
        ),
        "certain",
        (
            Words(
                "Keep data on the CPU in workers and move batches in the training loop "
                "(pin_memory=True, non_blocking=True).",
                "worker 中只使用 CPU 张量，在训练循环里再搬到设备（pin_memory=True、"
                "non_blocking=True）。",
            ),
            Words(
                "If workers must use the device: DataLoader(multiprocessing_context='spawn'), or "
                "torch.multiprocessing.set_start_method('spawn') under if __name__ == '__main__'.",
                "若 worker 必须使用设备：DataLoader(multiprocessing_context='spawn')，或在 if "
                "__name__ == '__main__' 下调用 torch.multiprocessing.set_start_method('spawn')。",
            ),
        ),
        "PyTorch, multiprocessing notes.",
    ),
    _Kind(
        "port_in_use",
        r"EADDRINUSE|Address already in use",
        Words("The port of the ranks' meeting is taken", "会合端口已被占用"),
        Words(
            "Another process listens on that port: a second run on this host, one that still "
            "ends, or every rank trying to be the server.",
            "另一个进程正在监听该端口：同一主机上的第二个任务、尚未退出的进程，或每个 rank "
            "都想当服务器。",
        ),
        "certain",
        (
            Words(
                "Choose another one: torchrun --master-port 29501, or --rdzv-endpoint=localhost:0 "
                "for a free one.",
                "换一个端口：torchrun --master-port 29501，或用 --rdzv-endpoint=localhost:0 "
                "自动选择。",
            ),
            Words(
                "See who has it: ss -ltnp | grep PORT. Start the script by torchrun alone, not by "
                "torchrun inside torchrun.",
                "查看占用者：ss -ltnp | grep 端口。只用 torchrun 启动一次，不要嵌套。",
            ),
        ),
        "PyTorch, torchrun.",
    ),
    _Kind(
        "unused_parameters",
        r"Expected to have finished reduction in the prior iteration",
        Words(
            "DistributedDataParallel waits for a gradient", "DistributedDataParallel 等待某个梯度"
        ),
        Words(
            "Some parameters got no gradient in a step, so their bucket was never complete: a "
            "layer that forward leaves out, or an output that the loss leaves out.",
            "某一步中有参数没有得到梯度，其桶无法凑齐：forward 跳过了某层，"
            "或损失没有用到某个输出。",
        ),
        "certain",
        (
            Words(
                "TORCH_DISTRIBUTED_DEBUG=DETAIL names the parameters; freeze them "
                "(requires_grad_(False)) or use their output.",
                "TORCH_DISTRIBUTED_DEBUG=DETAIL 会列出这些参数；"
                "冻结它们（requires_grad_(False)）或使用其输出。",
            ),
            Words(
                "If it changes from step to step: "
                "DistributedDataParallel(find_unused_parameters=True), which costs a walk over "
                "the graph each step.",
                "若每步不同：DistributedDataParallel(find_unused_parameters=True)，"
                "代价是每步遍历一次计算图。",
            ),
        ),
        "PyTorch, DistributedDataParallel.",
    ),
    _Kind(
        "device_too_old",
        r"FlashAttention only supports Ampere|Bfloat16 is only supported on GPUs with compute"
        r"|is not supported on the .{0,20}GPU.{0,40}compute capability"
        r"|expected is_sm\d+|requires (?:CUDA )?compute capability",
        Words("The device is too old for this", "设备过旧，不支持该功能"),
        Words(
            "What was asked for needs a newer architecture than this device has.",
            "所请求的功能需要比该设备更新的架构。",
        ),
        "certain",
        (
            Words(
                'Attention: choose attn_implementation="sdpa" (or "eager"); it takes a '
                "kernel that the device has. bf16: use float16 with a gradient scaler.",
                '注意力：使用 attn_implementation="sdpa"（或 "eager"），会选择设备支持的内核。'
                "bf16：改用 float16 并配合梯度缩放。",
            ),
        ),
        "Dao-AILab/flash-attention, README.",
    ),
)


@error_reader
def read_program_use(log: Log) -> Diagnosis | None:
    """Read these mistakes; of several the first in the text."""
    found = [(match, kind) for kind in _KINDS if (match := log.search(kind.pattern)) is not None]
    if not found:
        return None
    match, kind = min(found, key=lambda item: item[0].start())
    port = re.search(r"(?:port: |\]:|0\.0\.0\.0:)(\d{2,5})\b", log.text)
    facts: tuple[Fact, ...] = ()
    if kind.kind == "port_in_use" and port:
        facts = (Fact(Words("port", "端口"), port[1]),)
    return Diagnosis(
        kind.kind,
        kind.title,
        kind.cause,
        kind.certainty,
        kind.tries,
        log.line_of(match),
        24,
        facts,
        sources=(kind.source,),
    )


@error_reader
def read_cache_memory(log: Log) -> Diagnosis | None:
    """Read a server whose key-value cache has no room for one sequence."""
    found = log.search(
        r"max seq len \((?P<wanted>\d+)\) is larger than the maximum number of tokens that can be "
        r"stored in KV cache \(\s*(?P<room>\d+)\)|No available memory for the cache blocks"
    )
    if found is None:
        return None
    facts: tuple[Fact, ...] = ()
    if found["wanted"]:
        facts = (
            Fact(
                Words("longest sequence, tokens", "最长序列（token）"),
                int(found["wanted"]),
                "count",
            ),
            Fact(
                Words("room in the cache, tokens", "缓存容量（token）"), int(found["room"]), "count"
            ),
        )
    return Diagnosis(
        "cache_memory",
        Words("No room for the key-value cache", "KV 缓存放不下"),
        Words(
            "After weights and working memory too little is left for the keys and values of even "
            "one sequence of the longest length.",
            "扣除权重和工作内存后，剩余显存连一条最长序列的键值都放不下。",
        ),
        "certain",
        (
            Words(
                "Lower max_model_len to what you need (it must fit the room stated), or raise "
                "gpu_memory_utilization if nothing else uses the device.",
                "把 max_model_len 降到实际需要（不超过上述容量），或在设备无他用时提高 "
                "gpu_memory_utilization。",
            ),
            Words(
                "More room: fewer bits (fp8 weights, kv_cache_dtype=fp8), enforce_eager=True (no "
                "CUDA graphs), or more devices (tensor_parallel_size).",
                "腾出空间：更少的位数（fp8 权重、kv_cache_dtype=fp8）、enforce_eager=True（不用 "
                "CUDA 图），或更多设备（tensor_parallel_size）。",
            ),
        ),
        log.line_of(found),
        11,
        facts,
        sources=("vllm-project/vllm, engine arguments.",),
    )
