"""From options to a plan: what is left out is chosen, what cannot be is refused."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import tiny_decoders
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuscope.errors import GpuscopeError, InvalidValueError, UnknownNameError
from gpuscope.program.models import find
from gpuscope.program.models.parallel.checks import padded_vocabulary, plan_of
from gpuscope.program.models.parallel.options import Parallelism, ParallelOptions
from gpuscope.program.models.parallel.published import PUBLISHED
from gpuscope.program.models.parallel.size import TransformerSize


def size_of(name: str) -> TransformerSize:
    made = find(name).size
    assert made is not None
    return made()


def plan(name: str = "llama-3.1-70b", tokens: int = 4096, **asked: object) -> Parallelism:
    return plan_of(size_of(name), tokens, ParallelOptions(**asked))  # type: ignore[arg-type]


def test_what_is_left_out_follows_from_the_job() -> None:
    made = plan(world=64, tp=8, pp=2)
    assert (made.dp, made.tp, made.pp, made.world_size) == (4, 8, 2, 64)
    assert (made.fsdp, made.schedule, made.microbatch) == ("zero1", "1f1b", 1)
    assert plan(world=64, tp=8).fsdp == "full"
    assert made.microbatches == 8  # four a stage
    assert made.global_batch == 4 * 8


def test_the_example_of_the_manual() -> None:
    made = plan(
        dp=4,
        tp=8,
        pp=2,
        cp=1,
        ep=1,
        fsdp="full",
        schedule="1f1b",
        microbatch=1,
        global_batch=512,
        recompute="none",
        world=64,
    )
    assert (made.world_size, made.microbatches, made.stages) == (64, 128, 2)


def test_405_billion_on_16384() -> None:
    made = plan("llama-3.1-405b", 8192, world=16384, tp=8, pp=16, global_batch=2048)
    assert (made.dp, made.microbatches, made.global_batch) == (128, 16, 2048)


def test_a_hybrid_group_is_a_node() -> None:
    assert plan(world=64, fsdp="hybrid", tp=2).shard == 4
    assert plan(world=64, fsdp="hybrid", node=4).shard == 4
    assert plan(world=64, fsdp="hybrid", cp=2).shard == 4


def test_usual_other_names() -> None:
    assert plan(world=8, fsdp="zero3").fsdp == "full"
    assert plan(world=8, fsdp="ddp").fsdp == "none"
    assert plan(world=64, fsdp="hsdp", tp=2).fsdp == "hybrid"


@pytest.mark.parametrize(
    ("asked", "said", "next_step"),
    [
        ({"world": 12, "tp": 8}, "12 devices cannot be split into replicas of 8", "8 or 16"),
        ({"world": 4, "tp": 8}, "4 devices cannot be split", "Ask for 8 devices"),
        ({"world": 64, "dp": 5}, "dp 5 has 5 ranks, the job has 64", "it would be 64"),
        ({"world": 8, "dp": 4, "tp": 4}, "larger than the cluster", "it would be 2"),
        ({"world": 8, "dp": 4, "cp": 3}, "dp 4 x cp 3 has 12 ranks", "Ask for 12 devices"),
        ({"tp": 3}, "64 query heads cannot be split over 3", "--tp 1 or 2"),
        ({"tp": 16}, "8 key-value heads cannot be split over 16", "--tp 1 or 2 or 4 or 8"),
        ({"ep": 2}, "needs experts", "Leave out --ep"),
        ({"cp": 3}, "4096 tokens cannot be split over 3", "--seq 4098"),
        ({"pp": 81}, "80 layers cannot fill 81", "--pp 80"),
        ({"pp": 8, "virtual": 11, "schedule": "interleaved"}, "80 layers cannot fill 88", "--pp 7"),
        ({"schedule": "interleaved"}, "need a pipeline", "--pp 2"),
        ({"pp": 2, "virtual": 2}, "has one stage a rank", "--schedule interleaved"),
        ({"pp": 2, "virtual": 1, "schedule": "interleaved"}, "stages a rank", "--virtual 2"),
        (
            {"pp": 4, "schedule": "interleaved", "global_batch": 6},
            "6 microbatches cannot be interleaved over 4",
            "--global-batch 8",
        ),
        (
            {"dp": 8, "microbatch": 2, "global_batch": 24},
            "24 cannot be split over 8 replicas in microbatches of 2",
            "--global-batch",
        ),
        ({"world": 8, "fsdp": "hybrid"}, "Hybrid sharding over 8 replicas", "--fsdp full"),
        ({"dp": 0}, "dp is 0", "positive"),
        ({"microbatch": -1}, "microbatch is -1", "positive"),
    ],
)
def test_what_cannot_be(asked: dict, said: str, next_step: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        plan(**asked)
    assert said in str(caught.value)
    assert next_step in caught.value.next_step


@pytest.mark.parametrize(
    ("asked", "near"),
    [
        ({"fsdp": "ful"}, "full"),
        ({"schedule": "1f1"}, "1f1b"),
        ({"recompute": "selectiv"}, "selective"),
        ({"rotation": "all-gather"}, "allgather"),
        ({"reduce_dtype": "float16"}, "bfloat16"),
    ],
)
def test_a_misspelt_word_has_near_ones(asked: dict, near: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        plan(**asked)
    assert near in str(caught.value)


def test_experts_are_spread_over_ranks_that_hold_other_tokens() -> None:
    assert plan("mixtral-8x7b", dp=4, tp=2, ep=8).ep == 8
    with pytest.raises(InvalidValueError, match="8 experts cannot be split over 3"):
        plan("mixtral-8x7b", dp=3, ep=3)
    with pytest.raises(InvalidValueError, match="4 expert ranks cannot be laid over 6"):
        plan("mixtral-8x7b", dp=6, ep=4)
    with pytest.raises(InvalidValueError, match="needs sequence parallelism"):
        plan("mixtral-8x7b", dp=4, tp=2, ep=8, sequence_parallel=False)


def test_learned_positions_end() -> None:
    with pytest.raises(InvalidValueError, match="longer than the model's 1024 positions"):
        plan("gpt2", 2048)


def test_the_vocabulary_is_padded_only_where_it_must_be() -> None:
    assert padded_vocabulary(size_of("llama-3.1-8b"), 8).vocabulary == 128256
    assert padded_vocabulary(size_of("gpt2"), 1).vocabulary == 50257
    assert padded_vocabulary(size_of("gpt2"), 2).vocabulary == 50432  # 197 x 256
    assert padded_vocabulary(size_of("gpt2"), 8).vocabulary == 51200  # as Megatron-LM has


@given(
    world=st.sampled_from([1, 2, 4, 6, 8, 16, 64, 96, 1024]),
    tp=st.integers(1, 16),
    pp=st.integers(1, 90),
    cp=st.integers(1, 8),
    batch=st.none() | st.integers(1, 4096),
    microbatch=st.integers(1, 8),
    fsdp=st.sampled_from(["full", "hybrid", "zero1", "none"]),
    virtual=st.integers(1, 3),
    schedule=st.sampled_from(["gpipe", "1f1b", "interleaved", "zb"]),
)
@settings(max_examples=200, deadline=None)
def test_any_options_give_a_plan_that_adds_up_or_say_what_to_type(
    world: int, batch: int | None, **asked: object
) -> None:
    try:
        made = plan(world=world, global_batch=batch, **asked)
    except GpuscopeError as error:
        told = error
    else:
        told = None
    if told is not None:
        assert told.what
        assert told.next_step
        return
    assert made.world_size == world
    assert made.dp * made.microbatch * made.microbatches == made.global_batch
    assert batch in (None, made.global_batch)
    if made.fsdp == "hybrid":
        assert made.dp % made.shard == 0


def test_typed_suggestions_are_possible() -> None:
    """What an error says to type, typed, is taken."""
    for tp in (3, 16, 24, 48):
        with pytest.raises(InvalidValueError) as caught:
            plan(tp=tp)
        for number in re.findall(r"\d+", caught.value.next_step):
            assert plan(tp=int(number)).tp == int(number)


def test_an_expert_model_without_ep_is_whole_on_every_rank() -> None:
    assert plan_of(tiny_decoders.MIXTURE, 16, ParallelOptions(dp=2)).ep == 1


def test_state_space_heads_are_shared_by_groups() -> None:
    size = PUBLISHED["nemotron-h-8b"]
    assert plan_of(size, 4096, ParallelOptions(tp=8)).tp == 8
    few = replace(size, states=replace(size.states, groups=2))
    with pytest.raises(InvalidValueError, match="2 groups of state-space heads"):
        plan_of(few, 4096, ParallelOptions(tp=4))
