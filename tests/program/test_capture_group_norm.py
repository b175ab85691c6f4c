"""Group norm works on channels first: what is in channels last is copied before."""

from __future__ import annotations

import pytest
from captured import of, one, work

torch = pytest.importorskip("torch")


def normalised(last: bool, inference: bool = False):
    def build():
        norm = torch.nn.GroupNorm(8, 64).cuda()
        x = torch.randn(4, 64, 8, 8, device="cuda")
        if last:
            x = x.to(memory_format=torch.channels_last)

        def step():
            with torch.inference_mode(inference):
                return norm(x)

        return step

    return of(build)


@pytest.mark.parametrize("inference", [False, True])
def test_channels_last_is_copied_first(inference: bool) -> None:
    program = normalised(last=True, inference=inference)
    assert work(program) == ["clone", "native_group_norm"]
    assert one(program, "native_group_norm").outputs[0].stride == (4096, 64, 8, 1)


def test_channels_first_is_not() -> None:
    assert work(normalised(last=False)) == ["native_group_norm"]
