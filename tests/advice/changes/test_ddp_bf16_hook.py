"""Gradients in bfloat16: half the bytes."""

from distributed_cases import ddp, job_case, moved

from gpuscope.advice.registry import find


def test_half_the_bytes_are_sent():
    plain, half = job_case(ddp()), job_case(ddp(), "ddp-bf16-gradients")
    assert moved(half, "allreduce", "bfloat16") * 2 == moved(plain, "allreduce", "float32") > 0
    assert moved(half, "allreduce", "float32") == 0
    assert find("ddp-bf16-gradients").fits(plain).applies
    assert not find("ddp-bf16-gradients").fits(half).applies
