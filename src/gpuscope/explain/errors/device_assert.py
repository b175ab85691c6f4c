"""A check on the device that failed: an index, a label or a probability out of its range."""

from __future__ import annotations

import re

from gpuscope.explain.errors.log import Log
from gpuscope.explain.errors.registry import error_reader
from gpuscope.explain.errors.types import Certainty, Diagnosis
from gpuscope.explain.types import Fact, Words

_ASSERTION = re.compile(
    r"(?<![^\s:])(?P<file>[^\s:]+\.(?:cu|cuh|hip|h))[:](?P<line>\d+):\s*(?P<function>.{0,300}?):?\s*"
    r"block: \[(?P<block>[\d,]+)\], thread: \[(?P<thread>[\d,]+)\]\s*"
    r"Assertion `(?P<text>[^`']+)[`'] failed"
)

_MEANINGS: tuple[tuple[str, Words, Words], ...] = (
    (
        r"srcIndex < srcSelectDimSize|ind(ex)? >=? ?0 && ind(ex)? <|idx_dim >= 0|dstIndex <",
        Words(
            "An index is outside of the table that it selects from: with an embedding, a token id "
            "is negative, or not less than the number of rows.",
            "索引超出被选取的表：对嵌入而言，某个 token id 为负，或大于等于行数。",
        ),
        Words(
            "Before the call, check ids.min() >= 0 and ids.max() < embedding.num_embeddings on "
            "the CPU. After adding tokens to a tokenizer call "
            "model.resize_token_embeddings(len(tokenizer)); position ids must stay below the "
            "longest length.",
            "调用前在 CPU 上检查 ids.min() >= 0 且 ids.max() < embedding.num_embeddings。"
            "给分词器加词后要调用 model.resize_token_embeddings(len(tokenizer))；"
            "位置编号不能超过最大长度。",
        ),
    ),
    (
        r"t >= 0 && t < n_classes|cur_target >= 0 && cur_target < n_classes|target_val",
        Words(
            "A label of the loss is negative, or not less than the number of classes.",
            "损失函数的某个标签为负，或大于等于类别数。",
        ),
        Words(
            "Check labels.min() and labels.max() against logits.shape[-1]; labels to be left out "
            "must equal ignore_index (-100).",
            "检查 labels.min()、labels.max() 与 logits.shape[-1]；要忽略的标签须等于 "
            "ignore_index（-100）。",
        ),
    ),
    (
        r"input_val >= zero && input_val <= one|>= 0\.? && .*<= 1",
        Words(
            "The binary cross-entropy got a value outside of 0 to 1 (or NaN).",
            "二元交叉熵得到了 0 到 1 之外的值（或 NaN）。",
        ),
        Words(
            "Use binary_cross_entropy_with_logits, and look for NaN in what comes before.",
            "改用 binary_cross_entropy_with_logits，并检查上游是否出现 NaN。",
        ),
    ),
    (
        r"index >= -sizes\[i\] && index < sizes\[i\]|index out of bounds|index < size",
        Words(
            "Indexing with a tensor (x[index], gather, scatter) reaches outside of the tensor.",
            "用张量做索引（x[index]、gather、scatter）时越界。",
        ),
        Words(
            "Check index.min() and index.max() against the size of that dimension.",
            "检查 index.min()、index.max() 与该维的大小。",
        ),
    ),
    (
        r"probability tensor contains|cumdist\[size - 1\] > |sum > accZero|distribution",
        Words(
            "Sampling got probabilities that are NaN, infinite, negative, or sum to nothing.",
            "采样得到的概率为 NaN、无穷、负数，或总和为零。",
        ),
        Words(
            "Look for NaN in the logits: fp16 overflows above 65504; try bf16 or fp32.",
            "检查 logits 中的 NaN：fp16 超过 65504 会溢出；可改用 bf16 或 fp32。",
        ),
    ),
)
_UNKNOWN = (
    Words(
        "A check inside a kernel failed; most often an index or a label is out of its range.",
        "内核中的检查失败；最常见的是索引或标签越界。",
    ),
    Words(
        "Run the step once on the CPU: there the same mistake raises an error with its place.",
        "把这一步放到 CPU 上跑一次：同样的错误会在那里报出准确位置。",
    ),
)
_LATER = Words(
    "The traceback may point to a later line, since kernels run asynchronously: run again with "
    "CUDA_LAUNCH_BLOCKING=1, or once on the CPU.",
    "内核是异步执行的，回溯可能指向更靠后的一行：用 CUDA_LAUNCH_BLOCKING=1 重跑，或在 CPU "
    "上跑一次。",
)
_RESTART = Words(
    "Start the process again: after an assertion its CUDA context cannot be used any more.",
    "重启进程：断言失败后，该 CUDA 上下文无法继续使用。",
)


@error_reader
def read_device_assert(log: Log) -> Diagnosis | None:
    """Read an assertion of a kernel, or only the error that follows from one."""
    assertion = _ASSERTION.search(log.text)
    # Only the line that states the assertion as an error is one without its text.
    found = assertion or log.search(r"device-side assert(ion)? triggered|Assertion `[^`]+` failed")
    if found is None:
        return None
    text = assertion["text"] if assertion else found[0]
    meaning, remedy = _UNKNOWN
    certainty: Certainty = "possible"
    for pattern, cause, fix in _MEANINGS:
        if re.search(pattern, text):
            meaning, remedy, certainty = cause, fix, "certain"
            break
    return Diagnosis(
        "device_assert",
        Words("A check on the device failed", "设备端断言失败"),
        meaning,
        certainty,
        (remedy, _LATER, _RESTART),
        log.line_of(found),
        20,
        _facts(log, assertion),
        sources=("pytorch/pytorch, aten/src/ATen/native/cuda (the assertion's file and line).",),
    )


def _facts(log: Log, found: re.Match[str] | None) -> tuple[Fact, ...]:
    if found is None:
        return ()
    times = sum(1 for _ in _ASSERTION.finditer(log.text))
    return (
        Fact(Words("the check", "断言"), found["text"]),
        Fact(
            Words("in the file", "所在文件"), f"{found['file'].rpartition('/')[2]}:{found['line']}"
        ),
        Fact(
            Words("first block and thread", "首个线程块与线程"),
            f"[{found['block']}], [{found['thread']}]",
        ),
        Fact(Words("threads that failed it, in this text", "文本中失败的线程数"), times, "count"),
    )
