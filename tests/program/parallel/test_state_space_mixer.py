"""The mixer of a state-space block: the recurrence it stands for, and how it is captured."""

from __future__ import annotations

import pytest
from captured import named, of

torch = pytest.importorskip("torch")

from gpuscope.program.models.networks import state_space  # noqa: E402
from gpuscope.program.models.parallel.options import Software  # noqa: E402
from gpuscope.program.models.parallel.size import StateSpace, TransformerSize  # noqa: E402

PARTS = StateSpace(heads=4, head=8, state=16, groups=2, chunk=4)
SIZE = TransformerSize(
    layers=1, hidden=32, heads=4, kv_heads=4, head=8, ffn=32, vocabulary=64, pattern="M",
    states=PARTS,
)  # fmt: skip


def test_chunks_are_the_recurrence_step_by_step() -> None:
    """s <- exp(dt A) s + dt x B, y = s C (arXiv:2405.21060, equation 1), in any chunk."""
    torch.manual_seed(0)
    x, steps = torch.randn(2, 10, 3, 5), torch.rand(2, 10, 3)
    read, write = torch.randn(2, 2, 10, 3, 7)
    decay = -torch.rand(3)
    state, expected = torch.zeros(2, 3, 5, 7), []
    for n in range(10):
        left = (steps[:, n] * decay).exp()[..., None, None]
        came = (steps[:, n, :, None] * x[:, n])[..., None] * write[:, n, :, None]
        state = left * state + came
        expected.append((state * read[:, n, :, None]).sum(-1))
    for chunk in (1, 4, 10, 16):
        found = state_space._scan(x, steps, read, write, decay, chunk)
        torch.testing.assert_close(found, torch.stack(expected, 1), rtol=1e-4, atol=1e-5)


def test_a_token_sees_none_that_comes_after() -> None:
    torch.manual_seed(0)
    mixer = state_space.StateSpaceMixer(SIZE, Software(), PARTS)
    x = torch.randn(1, 12, 32)
    later = x.clone()
    later[:, 8:] += 1.0
    before, after = mixer(x), mixer(later)
    torch.testing.assert_close(before[:, :8], after[:, :8])
    assert not torch.allclose(before[:, 8:], after[:, 8:])


def test_gradients_are_those_of_small_steps() -> None:
    torch.manual_seed(0)
    mixer = state_space.StateSpaceMixer(SIZE, Software(), PARTS)
    x = torch.randn(1, 8, 32, requires_grad=True)
    mixer(x).square().sum().backward()
    for parameter in (x, mixer.a_log, mixer.conv_weight, mixer.dt_bias, mixer.norm_weight):
        assert parameter.grad is not None
        step = 1e-2 * torch.nn.functional.normalize(torch.randn_like(parameter), dim=None)
        with torch.no_grad():
            ends = []
            for sign in (1, -1):
                parameter += sign * step
                ends.append(mixer(x).square().sum())
                parameter -= sign * step
            slope = (ends[0] - ends[1]) / 2
        assert float(slope) == pytest.approx(
            float((parameter.grad * step).sum()), rel=0.05, abs=1e-3
        )


def test_the_ranks_of_a_job_have_whole_groups() -> None:
    """What a rank computes with its groups' rows is its part of the whole result."""
    torch.manual_seed(0)
    mixer = state_space.StateSpaceMixer(SIZE, Software(), PARTS)
    projected = torch.randn(1, 8, PARTS.projected)
    own = (mixer.conv_weight, mixer.conv_bias, mixer.dt_bias, mixer.a_log, mixer.d,
           mixer.norm_weight)  # fmt: skip
    whole, _ = state_space.state_space(projected, *own, *mixer.sizes)
    halves = [
        state_space.state_space(
            projected.chunk(2, -1)[rank], *(t.chunk(2)[rank] for t in own), *mixer.sizes
        )[0]
        for rank in range(2)
    ]
    torch.testing.assert_close(torch.cat(halves, -1), whole)


@pytest.mark.parametrize(("first", "copies"), [(False, 0), (True, 4)])
def test_it_is_captured_as_one_operator_each_way(first: bool, copies: int) -> None:
    def build():
        with torch.device("cuda"):
            mixer = state_space.StateSpaceMixer(SIZE, Software(tokens_first=first), PARTS)
        x = torch.randn(2, 8, 32, device="cuda", requires_grad=True)

        def step():
            mixer.zero_grad()
            mixer(x).sum().backward()

        return step

    program = of(build)
    forward, backward = (
        [op for op in program.ops if op.name == f"gpuscope_networks::state_space{end}"]
        for end in ("", "_backward")
    )
    assert [op.phase for op in (*forward, *backward)] == ["forward", "backward"]
    assert forward[0].args == {"head": 8, "state": 16, "chunk": 4}
    assert forward[0].inputs[0].shape == (2, 8, PARTS.projected)
    assert len(named(program, "clone")) == copies
