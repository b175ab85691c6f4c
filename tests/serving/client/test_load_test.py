"""The load client against a server of our own on this machine: right, and wrong in every way."""

from __future__ import annotations

import socket
import time
from typing import Any

import numpy as np
import pytest
from fake_server import Server, running

from gpuscope.errors import GpuscopeError, InvalidValueError, UnknownNameError
from gpuscope.serving.client.connection import Answer
from gpuscope.serving.client.failure import NoAnswerError, ServerError
from gpuscope.serving.client.load_test import load_test
from gpuscope.serving.client.reply import Reply
from gpuscope.serving.document import load_serving, save_serving
from gpuscope.serving.metrics import e2e_s, metrics, tpot_s, ttft_s
from gpuscope.serving.result import FAILED, FINISHED, TIMEOUT, Serving


def ask(server: Server, **wanted: Any) -> Serving:
    load = {"concurrency": 4, "count": 12, "input": 24, "output": 6, **wanted}
    with running(server):
        return load_test(server.url, **load)


def test_a_good_server_is_measured(tmp_path: Any) -> None:
    server = Server()
    found = ask(server, concurrency=None, rate=200, count=40, shared=16)
    served = found.served
    assert (found.origin, found.model, found.engine, found.engine_version) == (
        "measured", "tiny", "vllm", "9.9",
    )  # fmt: skip
    assert served.status.tolist() == [FINISHED] * 40
    assert set(served.output_tokens.tolist()) == {6}
    assert set(served.input_tokens.tolist()) == {24}
    assert (ttft_s(served) >= 0.002).all()  # a token takes the server 2 ms at least
    assert (e2e_s(served) >= 6 * 0.002).all()
    assert (served.sent_s >= served.intended_s).all()
    assert found.client["tokens_from"] == "usage"
    prompts = [body["prompt"] for body in server.asked if body["max_tokens"] == 6]
    assert len({tuple(each[:16]) for each in prompts}) == 1
    assert len({tuple(each[16:]) for each in prompts}) == 40
    save_serving(found, tmp_path / "run.json.gz")
    assert metrics(load_serving(tmp_path / "run.json.gz")) == metrics(found)


def test_each_token_has_its_own_moment() -> None:
    """Gaps that are longer than a busy machine keeps a reader waiting."""
    gap_s = 0.04
    served = ask(Server(gap_s=gap_s), concurrency=8, count=24).served
    assert (tpot_s(served) > 0).all()
    assert 0.9 * gap_s < np.median(tpot_s(served)) < 2 * gap_s  # the server may be late, too


def test_a_slow_server_cannot_hide_its_delay() -> None:
    """Requests go out at their times, though none before them is answered."""
    found = ask(Server(gap_s=0.3), concurrency=None, rate=100, count=20, output=2)
    served = found.served
    assert served.intended_s.max() < 0.6
    assert (served.first_token_s > served.sent_s.max()).any()
    assert np.median(ttft_s(served)) >= 0.3


def test_no_more_than_the_places_are_in_flight() -> None:
    found = ask(Server(), concurrency=3, count=15)
    served = found.served
    for moment in served.sent_s:
        flying = (served.sent_s <= moment) & (moment < served.finished_s)
        assert 1 <= flying.sum() <= 3


def test_the_next_request_does_not_wait_until_the_last_answer_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a wave that ends together: reading takes as long as an answer has tokens."""
    read = Answer.read

    def slowly(answer: Answer) -> Reply:
        time.sleep(0.02 if len(answer.heap) > 2 else 0.0)  # not of a head
        return read(answer)

    monkeypatch.setattr(Answer, "read", slowly)
    served = ask(Server(), concurrency=8, count=16).served
    assert (served.status == FINISHED).all()
    assert set(served.output_tokens.tolist()) == {6}
    assert np.sort(served.sent_s)[8:].min() - served.finished_s.min() < 0.02
    between_s = (served.sent_s - served.intended_s)[8:]
    assert np.median(between_s) < 0.02  # not behind the reading of its own answer


def test_chat_with_words_of_calibrated_length() -> None:
    server = Server()
    found = ask(server, api="chat", input=400)
    assert found.settings["prompts"] == "words"
    words = len(server.asked[-1]["messages"][0]["content"].split())
    assert abs(2 * words - 400) < 40  # the server counts two tokens a word, and some more


@pytest.mark.parametrize(("behaviour", "said"), [("no_eos", "ignore_eos"), ("no_ids", "token ids")])
def test_what_is_refused_is_left_out_and_told(behaviour: str, said: str) -> None:
    found = ask(Server(behaviour))
    assert (found.served.status == FINISHED).all()
    assert any(said in note for note in found.notes)


def test_without_usage_pieces_are_counted() -> None:
    found = ask(Server(usage=False))
    assert found.client["tokens_from"] == "pieces"
    assert set(found.served.output_tokens.tolist()) == {6}


WRONG = {
    "401": "OPENAI_API_KEY",
    "404": "--api chat",
    "422": "--prompts words",
    "500": "log",
    "not_streaming": "proxy",
    "closing_early": "log",
    "garbage": "log",
    "endless_line": "log",
    "zero_tokens": "log",
}


@pytest.mark.parametrize("behaviour", WRONG)
def test_a_wrong_server_is_told_in_words(behaviour: str) -> None:
    with pytest.raises(ServerError) as caught:
        ask(Server(behaviour))
    assert caught.value.what
    assert WRONG[behaviour] in caught.value.next_step
    assert "\x1b" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_server_that_is_not_there_is_no_server_without_models() -> None:
    with pytest.raises(ServerError) as caught:
        load_test("http://127.0.0.1:9", rate=1)
    assert "which models" not in str(caught.value)
    assert "curl http://127.0.0.1:9" in caught.value.next_step


@pytest.mark.parametrize("behaviour", ["500", "closing_early", "garbage", "zero_tokens"])
def test_some_failures_are_counted_and_the_rest_is_told(behaviour: str) -> None:
    found = ask(Server(behaviour, every=3), count=12)
    figures = metrics(found)
    assert (figures.finished, figures.failed) == (8, 4)
    assert figures.ttft.p99_s is None  # of fewer than 30
    assert len(found.reasons) == 1


def test_when_everything_fails_there_is_no_table() -> None:
    with pytest.raises(NoAnswerError, match=r"All 6 requests failed.*500") as caught:
        ask(Server("500", after=1), count=6)  # the probe's request is answered
    assert caught.value.exit_code == 1


def test_too_slow_is_a_time_out() -> None:
    found = ask(Server("silent", every=4), timeout_s=1.0, count=8)
    assert (found.served.status == TIMEOUT).sum() == 2
    assert (found.served.status == FAILED).sum() == 0


def test_nobody_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(ServerError, match="No server can be reached"):
            load_test(url, model="m", rate=1, count=1)


def test_a_model_that_the_server_has_not() -> None:
    with pytest.raises(UnknownNameError, match="tiny"):
        ask(Server(), model="tinny")


@pytest.mark.parametrize(
    "wanted",
    [
        {"concurrency": 0},
        {"concurrency": None, "rate": 0},
        {"concurrency": None, "rate": float("nan")},
        {"concurrency": None, "rate": float("inf")},
        {"concurrency": None},
        {"rate": 1},
        {"input": "0"},
        {"timeout_s": 0},
        {"concurrency": 10**6},
        {"api": "embeddings"},
    ],
)
def test_loads_that_cannot_be(wanted: dict[str, Any]) -> None:
    with pytest.raises(GpuscopeError):
        ask(Server(), **wanted)


@pytest.mark.parametrize("url", ["", "ftp://a", "http://", "http://a:b", "a b", "http://u:p@h"])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(InvalidValueError):
        load_test(url, rate=1, count=1)


def test_the_key_goes_into_the_header(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "abc")
    server = Server()
    found = ask(server)
    assert set(server.keys) == {"bearer abc"}
    assert "abc" not in str(found.settings)


PAGE = """# TYPE vllm:request_queue_time_seconds histogram
vllm:request_queue_time_seconds_bucket{{le="+Inf",engine="0"}} {count}
vllm:request_queue_time_seconds_sum{{engine="0"}} {seconds}
vllm:request_queue_time_seconds_count{{engine="0"}} {count}
# TYPE vllm:num_preemptions counter
vllm:num_preemptions_total{{engine="0"}} {count}
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{{engine="0"}} 0.5
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{{block_size="16",num_gpu_blocks="400",engine="0"}} 1.0
"""


def test_the_servers_own_figures_are_read() -> None:
    pytest.importorskip("prometheus_client")
    pages = PAGE.format(count=10, seconds=1.0), PAGE.format(count=14, seconds=3.0)
    found = ask(Server(pages=pages))
    assert found.server["queue_s"] == pytest.approx(0.5)
    assert found.server["preemptions"] == 4
    assert found.server["kv_usage_max"] == 0.5
    assert (found.kv_blocks, found.kv_block_tokens) == (400, 16)
