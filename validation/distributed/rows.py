"""The distributed workloads that predictions are held against; fixed, as the zoo is.

Each is a function of a file below `workloads`, ordinary PyTorch that torchrun could start, with the
numbers of ranks that it was measured on.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One workload: its name, `file.py:function`, the numbers of ranks, ranks that differ."""

    name: str
    target: str
    ranks: tuple[int, ...] = (2, 4)


ROWS: tuple[Row, ...] = (
    Row("ddp-gpt2", "ddp.py:gpt2"),
    Row("ddp-gpt2-accumulate", "ddp.py:gpt2_accumulate"),
    Row("ddp-resnet50", "ddp.py:resnet50"),
    Row("zero1-gpt2-medium", "ddp.py:zero1"),
    Row("fsdp-llama-1b", "fsdp.py:llama_1b"),
    Row("fsdp-llama-1b-kept", "fsdp.py:llama_1b_kept"),
    Row("fsdp-llama-1b-short", "fsdp.py:llama_1b_short"),
    Row("fsdp-llama-8b", "fsdp.py:llama_8b"),
    Row("hsdp-llama-1b", "fsdp.py:hybrid", (4,)),
    Row("tp-4096", "fsdp.py:tensor_parallel"),
    Row("tp-small", "fsdp.py:tensor_parallel_small"),
    Row("tp-inference", "fsdp.py:tensor_parallel_inference"),
    Row("fsdp-tp-3b", "fsdp.py:two_dimensions", (4,)),
    Row("pp-gpipe", "pipeline.py:gpipe"),
    Row("pp-1f1b", "pipeline.py:one_forward_one_backward"),
    Row("pp-interleaved", "pipeline.py:interleaved"),
    Row("moe-all-to-all", "experts.py:train"),
    Row("raw-overlap", "raw.py:overlapped"),
    Row("cp-ring", "raw.py:context"),
)
