"""FSDP2 in bfloat16: half the bytes gathered, gradients reduced in float32; own policies stay."""

import torch
from distributed_cases import fsdp, job_case, moved

from gpuscope.advice.registry import find


def test_half_is_gathered():
    plain, half = job_case(fsdp()), job_case(fsdp(), "fsdp-bf16")
    assert 2 * moved(half, "gather") == moved(plain, "gather") > 0
    assert moved(half, "scatter", "float32") == moved(plain, "scatter", "float32") > 0
    change = find("fsdp-bf16")
    assert change.fits(plain).applies
    assert not change.fits(half).applies


def test_a_policy_of_the_codes_own_stays():
    from torch.distributed.fsdp import MixedPrecisionPolicy

    own = fsdp(mp_policy=MixedPrecisionPolicy(param_dtype=torch.float16))
    assert moved(job_case(own, "fsdp-bf16"), "gather", "float16") > 0
