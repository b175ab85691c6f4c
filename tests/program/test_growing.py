"""Caches that grow, and whether attention meets lengths that it met in no step before."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812

from gpuscope.capturing import capture
from gpuscope.program.growing import ANEW, grown_lengths
from gpuscope.program.types import Program

HEADS, WIDTH, CONTEXT = 4, 64, 32


def decoding(kept: bool = True, cache: str = "growing") -> Program:
    """A step that attends over a cache of keys.

    Args:
        kept: the next step goes on from this one's cache; else from the same length.
        cache: "growing", or "fixed", in memory for all tokens.
    """

    def build() -> Any:
        before = torch.randn(1, HEADS, CONTEXT, WIDTH, device="cuda", dtype=torch.bfloat16)
        state = {"keys": before}

        def step() -> Any:
            token = torch.randn(1, HEADS, 1, WIDTH, device="cuda", dtype=torch.bfloat16)
            with torch.no_grad():
                if cache == "fixed":
                    state["keys"][:, :, -1:].copy_(token)
                    keys = state["keys"]
                else:
                    keys = torch.cat([state["keys"], token], dim=-2)
                if kept:
                    state["keys"] = keys
                return F.scaled_dot_product_attention(token, keys, keys)

        return step

    return capture(build)


def test_a_cache_that_grows_on_has_a_new_length_each_step() -> None:
    program = decoding()
    assert program.settings[ANEW]
    assert grown_lengths(program) == {CONTEXT + 2}  # the second step is the recorded one


def test_the_same_length_again_is_not_new() -> None:
    program = decoding(kept=False)
    assert ANEW not in program.settings
    assert grown_lengths(program) == {CONTEXT + 1}


def test_fixed_memory_does_not_grow() -> None:
    program = decoding(cache="fixed")
    assert ANEW not in program.settings
    assert not grown_lengths(program)
