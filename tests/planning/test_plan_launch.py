"""Lines that start a serving plan: what they ask for, and the real parsers, where installed."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

import pytest

from gpuscope.errors import UnsupportedError
from gpuscope.hardware import parse_target
from gpuscope.planning.serving.launch import launch_line
from gpuscope.planning.serving.types import ServingChoice
from gpuscope.serving.quantization import KINDS


def _choice(dtype: str = "fp8", kv_dtype: str = "fp8") -> ServingChoice:
    return ServingChoice(parse_target("4xb200"), 2, 2, dtype, kv_dtype, 8192, 256)


def _words(line: str) -> list[str]:
    return shlex.split(line.replace("\\\n", " "), comments=True)


def test_what_the_lines_ask_for() -> None:
    line = launch_line("llama-3.1-8b", _choice(), "vllm")
    assert line.startswith("# gpuscope plan; its options are those of vLLM 0.27.1")
    for part in ("--tensor-parallel-size 2", "--data-parallel-size 2", "--kv-cache-dtype fp8"):
        assert part in line
    assert "--tp 2" in launch_line("llama-3.1-8b", _choice(), "sglang")
    with pytest.raises(UnsupportedError, match="torchtitan"):
        launch_line("llama-3.1-8b", _choice(), "torchtitan")


def test_weights_are_called_as_the_server_calls_them() -> None:
    for server in ("vllm", "sglang"):
        assert "--quantization" not in launch_line("x", _choice("bf16"), server)
        assert "--dtype float16" in launch_line("x", _choice("fp16"), server)
        assert "--quantization modelopt_fp4" in launch_line("x", _choice("nvfp4"), server)
        assert "--quantization awq" in launch_line("x", _choice("int4"), server)


@pytest.mark.parametrize("dtype", KINDS)
def test_vllm_reads_its_line(dtype: str) -> None:
    arguments = pytest.importorskip("vllm.engine.arg_utils")
    parsing = pytest.importorskip("vllm.utils.argparse_utils")
    parser = arguments.EngineArgs.add_cli_args(parsing.FlexibleArgumentParser())
    words = _words(launch_line("llama-3.1-8b", _choice(dtype), "vllm"))
    assert words[:3] == ["vllm", "serve", "llama-3.1-8b"]
    read: Any = arguments.EngineArgs.from_cli_args(parser.parse_args(words[3:]))
    assert (read.tensor_parallel_size, read.data_parallel_size) == (2, 2)
    assert (read.max_num_batched_tokens, read.max_num_seqs) == (8192, 256)
    methods = pytest.importorskip("vllm.model_executor.layers.quantization").QUANTIZATION_METHODS
    assert read.quantization is None or read.quantization in methods


@pytest.mark.parametrize("dtype", KINDS)
def test_sglang_reads_its_line(dtype: str) -> None:
    arguments = pytest.importorskip("sglang.srt.server_args")
    parser = argparse.ArgumentParser()
    arguments.ServerArgs.add_cli_args(parser)
    words = _words(launch_line("llama-3.1-8b", _choice(dtype), "sglang"))
    assert words[:3] == ["python", "-m", "sglang.launch_server"]
    read = parser.parse_args(words[3:])
    assert (read.tp_size, read.dp_size, read.model_path) == (2, 2, "llama-3.1-8b")
    assert (read.chunked_prefill_size, read.max_running_requests) == (8192, 256)
