"""Ways to share a model in a replica, and prompts on devices of their own: which are tried, how
lines spell them, and what the quick score makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuscope.errors import UnsupportedError
from gpuscope.hardware import parse_target
from gpuscope.planning.serving.check import check_server
from gpuscope.planning.serving.existing import existing_server
from gpuscope.planning.serving.launch import launch_line
from gpuscope.planning.serving.search import question_of_serving, scored, search_serving
from gpuscope.planning.serving.space import deployed, layouts
from gpuscope.planning.serving.steady import prompts_per_s
from gpuscope.planning.serving.types import ServingChoice, ServingQuestion

DENSE, MIXTURE = "llama-3.1-8b", "qwen3-30b-a3b"


def _asked(model: str, devices: int, **more: Any) -> ServingQuestion:
    return question_of_serving(
        model, on="h200", devices=devices, rate=2.0, input="1000", answer="100", **more
    )


def _choice(devices: int, tp: int, replicas: int, **more: Any) -> ServingChoice:
    on = parse_target(f"{devices}xh200")
    return ServingChoice(on, tp, replicas, "bfloat16", "bfloat16", 8192, 256, **more)


def test_every_layout_uses_all_devices_and_is_there_once() -> None:
    """Of four devices 1, 2 or 4 a stage, and of each number of replicas some for prompts."""
    found = list(layouts(_asked(DENSE, 4)))
    assert all(each.needed == 4 for each in found)
    assert len({each.words for each in found}) == len(found)
    told = {(e.tp, e.value("pp"), e.replicas, e.prefill) for e in found}
    assert told == {
        (1, 1, 4, 0), (1, 1, 3, 1), (1, 1, 2, 2), (1, 1, 1, 3), (1, 2, 2, 0), (1, 4, 1, 0),
        (2, 1, 2, 0), (2, 1, 1, 1), (2, 2, 1, 0), (4, 1, 1, 0),
    }  # fmt: skip
    assert {e.value("ep") for e in found} == {e.value("dp") for e in found} == {1}
    mixed = {(e.tp, e.value("ep"), e.value("dp")) for e in layouts(_asked(MIXTURE, 2))}
    assert {(2, 1, 1), (2, 2, 1), (2, 1, 2), (2, 2, 2)} <= mixed


def test_two_of_a_kind_of_split_are_one_choice() -> None:
    alone = _choice(8, 2, 1)
    assert alone.split("pp", 2).split("ep", 2) == alone.split("ep", 2).split("pp", 2)
    assert alone.split("pp", 2).split("pp", 1) == alone
    assert alone.split("pp", 2).filled() == _choice(8, 2, 2, splits=(("pp", 2),))
    assert _choice(8, 2, 1, prefill=4).filled() is None


@pytest.mark.parametrize(
    ("choice", "model", "vllm", "sglang"),
    [
        (_choice(4, 2, 1, splits=(("pp", 2),)), DENSE,
         "--tensor-parallel-size 2 --pipeline-parallel-size 2", "--tp 2 --pp-size 2"),
        (_choice(4, 4, 1, splits=(("dp", 2), ("ep", 4))), MIXTURE,
         "--tensor-parallel-size 2 --data-parallel-size 2 --enable-expert-parallel",
         "--tp 4 --dp 2 --enable-dp-attention --ep-size 4"),
        (_choice(4, 4, 1, splits=(("ep", 4),)), MIXTURE,
         "--tensor-parallel-size 4 --enable-expert-parallel", "--tp 4 --ep-size 4"),
    ],
)  # fmt: skip
def test_a_line_is_written_and_read_as_the_same(
    choice: ServingChoice, model: str, vllm: str, sglang: str, tmp_path: Path
) -> None:
    question = _asked(model, 4)
    for server, wanted in (("vllm", vllm), ("sglang", sglang)):
        line = launch_line(model, choice, server, question.size.experts is not None)
        assert wanted in line.replace(" \\\n ", "")
        path = tmp_path / f"{server}.sh"
        path.write_text(line)
        found = existing_server(question, path)
        assert found.choice == choice
        assert found.ignored == ()


def test_replicas_that_a_server_would_share_experts_among_are_started_one_by_one() -> None:
    """vLLM's data parallelism shares the experts of a mixture: copies are servers of their own."""
    two = _choice(4, 2, 2)
    assert "--data-parallel-size 2" in launch_line(DENSE, two, "vllm")
    alone = launch_line(MIXTURE, two, "vllm", experts=True)
    assert "# start it 2 times" in alone
    assert "data-parallel" not in alone
    assert "--dp 2" in launch_line(MIXTURE, two, "sglang", experts=True)


def test_prompts_apart_have_a_line_of_their_own() -> None:
    apart = _choice(8, 2, 3, prefill=1)
    vllm, sglang = (launch_line(DENSE, apart, server) for server in ("vllm", "sglang"))
    assert vllm.count("vllm serve") == 2
    assert "# start it 3 times" in vllm
    assert vllm.count("NixlConnector") == 2
    assert "--disaggregation-mode prefill" in sglang
    assert "--disaggregation-mode decode" in sglang


def test_what_a_server_cannot_start_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="cannot share experts"):
        launch_line(MIXTURE, _choice(4, 4, 1, splits=(("ep", 2),)), "vllm", experts=True)


def test_prompts_apart_by_hand() -> None:
    """Of one replica for prompts what all can take in is one after another; answers' iterations
    have no prompts, so that a token takes less than where they do."""
    question, apart = _asked(DENSE, 2), _choice(2, 1, 1, prefill=1)
    found = deployed(question, apart)
    assert found.prefill is not None
    most = prompts_per_s(found, question.prompt)
    # 16 TFLOP a prompt of 1,000 tokens: at 40 to 80 % of 989 TFLOP/s 20 to 41 ms.
    assert 1 / 0.041 < most < 1 / 0.020
    together = scored(question, _choice(1, 1, 1))  # as many answers, and prompts between them
    assert scored(question, apart).tpot_s < together.tpot_s
    assert scored(question, apart).headroom <= most / question.rate_per_s


def test_a_stage_more_takes_no_less_for_a_token_and_serves_more() -> None:
    question = _asked(DENSE, 2)
    one, two = scored(question, _choice(2, 1, 1)), scored(question, _choice(2, 1, 1).split("pp", 2))
    assert one.tpot_s < two.tpot_s < 2 * one.tpot_s
    assert one.headroom < two.headroom < 2.2 * one.headroom


def test_all_of_it_can_be_chosen_and_checked(tmp_path: Path) -> None:
    """A mixture whose experts are shared whole can be on the front; a pipeline can be judged."""
    plan = search_serving(_asked(MIXTURE, 2, simulate=5))
    assert any(each.choice.splits for each in plan.judged)
    path = tmp_path / "serve.sh"
    path.write_text("vllm serve m -pp 2")
    checked = check_server(existing_server(_asked(DENSE, 2, simulate=1), path))
    assert checked.own.choice.value("pp") == 2
    assert checked.own.simulated
