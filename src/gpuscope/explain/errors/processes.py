"""Processes that were ended from outside: the kernel's, a data loader's, a launcher's view."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuscope.explain.errors.log import Log
from gpuscope.explain.errors.registry import error_reader
from gpuscope.explain.errors.types import Diagnosis
from gpuscope.explain.types import Fact, Words

_SHARED = Words(
    "Give the container more shared memory (docker run --shm-size=16g, or --ipc=host; Kubernetes: "
    "an emptyDir with medium: Memory at /dev/shm), and see df -h /dev/shm.",
    "增大容器的共享内存（docker run --shm-size=16g 或 --ipc=host；Kubernetes：在 /dev/shm 挂载 "
    "medium: Memory 的 emptyDir），并查看 df -h /dev/shm。",
)
_FEWER = Words(
    "Fewer workers, a smaller prefetch_factor, or smaller samples; or "
    "torch.multiprocessing.set_sharing_strategy('file_system').",
    "减少 worker、减小 prefetch_factor 或样本；或使用 "
    "torch.multiprocessing.set_sharing_strategy('file_system')。",
)
_OOM = Words(
    "sudo dmesg -T | grep -i -E 'out of memory|oom' shows whether the system ended it for lack of "
    "host memory; in a container or under Slurm look at the memory limit.",
    "用 sudo dmesg -T | grep -i -E 'out of memory|oom' 查看是否因主机内存不足被系统终止；容器或 "
    "Slurm 中请检查内存上限。",
)

_SIGNALS: Mapping[int, Words] = {
    1: Words(
        "SIGHUP: the terminal closed; use tmux or nohup with setsid", "SIGHUP：终端关闭；请用 tmux"
    ),
    2: Words("SIGINT: Ctrl-C", "SIGINT：Ctrl-C"),
    4: Words("SIGILL: an instruction that this processor lacks", "SIGILL：处理器不支持的指令"),
    6: Words(
        "SIGABRT: the program stopped itself, after an error that it printed",
        "SIGABRT：程序报错后自行终止",
    ),
    7: Words(
        "SIGBUS: shared memory (/dev/shm) or a mapped file ran out",
        "SIGBUS：共享内存（/dev/shm）或映射文件不足",
    ),
    8: Words("SIGFPE: an integer division by zero", "SIGFPE：整数除零"),
    9: Words(
        "SIGKILL: mostly the system, for lack of host memory, or the scheduler",
        "SIGKILL：多半是系统因主机内存不足，或调度器终止",
    ),
    11: Words(
        "SIGSEGV: an illegal address in the host's code, often an extension",
        "SIGSEGV：主机代码访问非法地址，多为扩展",
    ),
    15: Words(
        "SIGTERM: asked to end, mostly because another rank failed",
        "SIGTERM：被要求退出，多半因为其他 rank 失败",
    ),
}


@error_reader
def read_shared_memory(log: Log) -> Diagnosis | None:
    """Read a data loader whose shared memory ran out."""
    found = log.search(
        r"killed by signal: Bus error|Unexpected bus error encountered in worker"
        r"|unable to (?:write to file|open shared memory object|mmap \d+ bytes from file) </?torch_"
        r"|No space left on device.{0,80}/dev/shm"
    )
    if found is None:
        return None
    worker = re.search(r"DataLoader worker \(pid\(?s?\)? (\d+)\)", log.text)
    facts = (Fact(Words("worker", "worker 进程"), worker[1]),) if worker else ()
    return Diagnosis(
        "shared_memory",
        Words("A data loader's shared memory ran out", "数据加载的共享内存不足"),
        Words(
            "Workers pass tensors through /dev/shm; it is full. Containers begin with 64 MiB of "
            "it.",
            "worker 通过 /dev/shm 传递张量，而它已写满。容器默认只有 64 MiB。",
        ),
        "likely",
        (_SHARED, _FEWER),
        log.line_of(found),
        12,
        facts,
        commands=("df -h /dev/shm",),
        sources=("PyTorch, torch.utils.data and multiprocessing notes.",),
    )


@error_reader
def read_host_memory(log: Log) -> Diagnosis | None:
    """Read the host's own memory that ran out."""
    found = log.search(
        r"DefaultCPUAllocator: (?:can't|not enough)|Out of memory: Killed process"
        r"|Cannot allocate memory|oom-kill|oom_kill|std::bad_alloc"
    ) or re.search(r"^(?:[\w.]+\.)?_?(?:Array)?MemoryError\b", log.text, re.MULTILINE)
    if found is None:
        return None
    asked = re.search(r"tried to allocate (\d+) bytes", log.text)
    facts = (Fact(Words("asked for", "申请"), float(asked[1]), "bytes"),) if asked else ()
    return Diagnosis(
        "host_memory",
        Words("The host's memory ran out", "主机内存耗尽"),
        Words(
            "It is the memory of the processor that ran out, not the device's.",
            "耗尽的是主机内存，而不是设备显存。",
        ),
        "certain",
        (
            _OOM,
            Words(
                'Load checkpoints with map_location="cpu", mmap=True, one process at a time; fewer '
                "workers; do not keep whole data sets in each of them.",
                '加载权重时使用 map_location="cpu"、mmap=True 并逐进程进行；'
                "减少 worker；不要在每个 worker 中保存整个数据集。",
            ),
        ),
        log.line_of(found),
        12,
        facts,
        commands=("free -h",),
    )


@error_reader
def read_signal(log: Log) -> Diagnosis | None:
    """Read a process that a signal ended, as a launcher or a data loader tells it."""
    names = {"Killed": 9, "Segmentation fault": 11, "Aborted": 6, "Terminated": 15, "Bus error": 7}
    found = re.search(
        r"worker \(pid\(?s?\)? \d+\) is killed by signal: ([A-Z]\w+(?: \w+)?)", log.text
    )
    number = names.get(found[1]) if found else None
    if number is None:
        found = re.search(
            r"exit ?code\s*:?\s*-(\d{1,2})\b|Signal (\d{1,2}) \(SIG\w+\) received", log.text
        )
        number = int(found[1] or found[2]) if found else None
    if number is None:
        found = re.search(r"Segmentation fault|Received (\d+) death signal", log.text)
        number = (int(found[1]) if found[1] else 11) if found else None
    if found is None or number is None:
        return None
    meaning = _SIGNALS.get(number, Words(f"signal {number}", f"信号 {number}"))
    tries = {7: (_SHARED, _FEWER), 9: (_OOM, _FEWER)}.get(number, _SEGFAULT if number == 11 else ())
    return Diagnosis(
        "signal",
        Words(f"A process was ended by signal {number}", f"进程被信号 {number} 终止"),
        Words(f"{meaning.en}.", f"{meaning.zh}。"),
        "likely" if number in (7, 9) else "possible",
        (*tries, _FIRST_ERROR),
        log.line_of(found),
        70,
        _process(log),
        sources=("signal(7), Linux manual pages.",),
    )


_SEGFAULT = (
    Words(
        "python -X faulthandler train.py prints where it was in Python; try without extensions.",
        "用 python -X faulthandler train.py 打印当时的 Python 位置；尝试去掉扩展。",
    ),
)
_FIRST_ERROR = Words(
    "The launcher only reports the end: read that rank's own output for the first error.",
    "启动器只报告结果：请查看该 rank 自己的输出，找到首个错误。",
)


def _process(log: Log) -> tuple[Fact, ...]:
    found = re.search(r"local_rank: (\d+) \(pid: (\d+)\)", log.text)
    if found is None:
        return ()
    return (
        Fact(Words("local rank", "本地 rank"), int(found[1])),
        Fact(Words("process", "进程"), found[2]),
    )
