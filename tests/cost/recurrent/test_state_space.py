"""Mamba-2 mixers: FLOPs and bytes by hand, and what they grow with."""

from __future__ import annotations

import pytest
from matmul_work import dense, run

from gpuscope.cost.types import Kernel
from gpuscope.hardware import device

HEADS, HEAD, STATE, GROUPS, CHUNK = 64, 64, 128, 8, 128


def mixer(
    *, batch=1, tokens=8192, heads=HEADS, groups=GROUPS, chunk=CHUNK, on="h200", backward=False
) -> tuple[Kernel, ...]:
    inner = heads * HEAD
    channels = inner + 2 * groups * STATE
    projected = dense(batch, tokens, inner + channels + heads)
    values = dense(batch, tokens, inner)
    own = (
        dense(channels, 4), dense(channels), dense(heads), dense(heads), dense(heads), dense(inner)
    )  # fmt: skip
    sizes = {"head": HEAD, "state": STATE, "chunk": chunk}
    if not backward:
        given = (projected, *own)
        return run("gpuscope_networks::state_space", given, (values, values), on=on, **sizes)
    given = (values, projected, values, *own)
    name = "gpuscope_networks::state_space_backward"
    return run(name, given, (projected, *own), on=on, **sizes)


def seconds(kernels: tuple[Kernel, ...]) -> float:
    return sum(k.duration_s for k in kernels)


def named(kernels: tuple[Kernel, ...], name: str) -> Kernel:
    return next(k for k in kernels if k.name == name)


def test_flops_by_hand() -> None:
    """Of every token: its value by its state twice (written, read), half of a chunk's pairs."""
    made = mixer()
    values = 8192 * HEADS * HEAD
    assert named(made, "chunk_state_fwd").flops == 2 * values * STATE
    assert named(made, "chunk_scan_fwd").flops == 2 * values * STATE + values * (CHUNK + 1)
    assert named(made, "bmm_chunk_fwd").flops == 2 * 8192 * GROUPS * STATE * CHUNK


def test_bytes_by_hand() -> None:
    made = mixer()
    mixed = 8192 * (HEADS * HEAD + 2 * GROUPS * STATE) * 2
    assert named(made, "causal_conv1d_fwd").read_bytes == mixed
    assert named(made, "causal_conv1d_fwd").written_bytes == mixed
    states = 8192 / CHUNK * HEADS * HEAD * STATE
    assert named(made, "chunk_state_fwd").written_bytes == 4 * states
    assert named(made, "state_passing_fwd").read_bytes == 4 * states
    assert named(made, "state_passing_fwd").written_bytes == 2 * states


def test_the_backward_pass_computes_the_states_again() -> None:
    there, back = mixer(), mixer(backward=True)
    again = {"causal_conv1d_fwd", "chunk_cumsum_fwd", "chunk_state_fwd", "bmm_chunk_fwd"}
    assert again <= {k.name for k in there} & {k.name for k in back}
    assert 2 * seconds(there) < seconds(back) < 5 * seconds(there)


@pytest.mark.parametrize("backward", [False, True])
def test_it_grows_evenly_with_tokens(backward) -> None:
    """A state has one size however long the sequence: attention would take four times as long."""
    once, twice = (mixer(tokens=n, backward=backward) for n in (16384, 32768))
    assert seconds(twice) / seconds(once) == pytest.approx(2, rel=0.1)
    batched = mixer(batch=2, tokens=16384, backward=backward)
    assert seconds(batched) == pytest.approx(seconds(twice), rel=1e-6)


@pytest.mark.parametrize("backward", [False, True])
def test_a_rank_with_half_the_heads_takes_less(backward) -> None:
    whole, half = (mixer(heads=n, tokens=32768, backward=backward) for n in (128, 64))
    assert seconds(half) < 0.75 * seconds(whole)


def test_longer_chunks_hold_fewer_states_and_multiply_more() -> None:
    short, long = mixer(chunk=64), mixer(chunk=256)
    for name in ("chunk_state_fwd", "state_passing_fwd"):
        assert named(long, name).written_bytes < named(short, name).written_bytes
    assert named(long, "chunk_scan_fwd").flops > named(short, "chunk_scan_fwd").flops


@pytest.mark.parametrize("on", ["a100-80gb", "h200", "b200", "mi300x"])
def test_no_kernel_beats_the_machine(on) -> None:
    target = device(on)
    for backward in (False, True):
        for made in mixer(on=on, tokens=65536, backward=backward):
            moved = made.read_bytes + made.written_bytes
            assert made.duration_s > moved / target.memory_bandwidth_bytes_per_s
            assert made.duration_s > made.flops / target.peak_flops_per_s("bfloat16")
            assert made.low_s < made.duration_s < made.high_s
            assert made.origin == ("calibrated" if on == "h200" else "estimated")


@pytest.mark.parametrize(("tokens", "milliseconds"), [(1024, 0.169), (8192, 1.278), (32768, 5.076)])
def test_the_scan_takes_longer_than_a_tuned_one(tokens, milliseconds) -> None:
    """tilelang's, measured on an H800 SXM: 8 sequences, 80 heads, one group, chunks of 256
    (benchmark/mamba2/README.md there). It reads C B^T in 16 bits, mamba_ssm in 32, whose own took
    0.506 ms on an H200 for 8 of 2,048 tokens, 1.5 times what tilelang's would."""
    made = mixer(batch=8, tokens=tokens, heads=80, groups=1, chunk=256, on="h100")
    scan = named(made, "chunk_scan_fwd")
    assert 1.3 * milliseconds < 1e3 * scan.duration_s < 2 * milliseconds


@pytest.mark.parametrize(
    ("sizes", "microseconds"),
    [({"batch": 4}, (1466, 4986)), ({"heads": 80, "groups": 1, "chunk": 256}, (472, 1401))],
)
def test_all_of_its_own_kernels_take_what_was_recorded(sizes, microseconds) -> None:
    """On an H200, validation/recordings/h200/state_space.csv.gz; without the convolution, and
    without the sums and small steps that PyTorch makes between them."""
    others = ("causal_conv1d", "sum", "flip", "cumsum", "add")
    for backward, measured in zip((False, True), microseconds, strict=True):
        made = mixer(backward=backward, **sizes)
        own = [k for k in made if not k.name.startswith(others)]
        assert 1e6 * seconds(tuple(own)) == pytest.approx(measured, rel=0.15)
