"""8-bit weights: harmful eagerly, fewer bytes; refused in training and for many rows."""

import torch
from changed_cases import case_of
from decoding_builds import decoding, prompts
from live_runs import results
from tiny_models import llama, tiny

from gpuscope.advice.registry import find


def test_eager_decoding_gets_slower_and_smaller():
    build = decoding(width=4096, dtype=torch.bfloat16)
    plain, small = case_of(build), case_of(build, "int8-weights")
    assert find("int8-weights").fits(plain).applies
    assert small.run.device_busy_s > plain.run.device_busy_s
    assert small.run.peak_memory_bytes < 0.75 * plain.run.peak_memory_bytes


def test_compiled_it_reads_half():
    build = decoding(width=4096, dtype=torch.bfloat16)
    names = ("static-cache", "compile")
    plain, small = case_of(build, *names), case_of(build, *names, "int8-weights")
    eager = case_of(build, "int8-weights")
    assert small.run.device_busy_s < 0.5 * eager.run.device_busy_s
    assert small.run.device_busy_s < 1.3 * plain.run.device_busy_s


def test_prompts_and_training_are_refused():
    assert "64 rows" in find("int8-weights").fits(case_of(prompts())).why
    assert not find("int8-weights").fits(case_of(tiny(llama()))).applies


def test_the_logits_are_close():
    plain, small = results(decoding("cpu")), results(decoding("cpu"), "int8-weights")
    scale = plain[0].abs().max()
    assert 0 < (plain[0] - small[0]).abs().max() < 0.03 * scale
