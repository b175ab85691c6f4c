"""A model of Triton asked by its tensors: a stand-in server, since the real one is not here."""

from __future__ import annotations

import json
import socket
from typing import Any

import numpy as np
import pytest
from fake_server import Server
from fake_server import running as serving
from fake_triton import Triton, running

from gpuscope.serving.arrivals import Load, make_requests
from gpuscope.serving.client.failure import ServerError
from gpuscope.serving.client.load_test import load_test
from gpuscope.serving.client.prompts import Form
from gpuscope.serving.client.triton import Tensors, _Input
from gpuscope.serving.document import load_serving, save_serving
from gpuscope.serving.metrics import e2e_s, metrics, ttft_s
from gpuscope.serving.result import FAILED, FINISHED, Serving
from gpuscope.views.load import load_blocks

IDS = {"name": "input_ids", "datatype": "INT64", "shape": [-1, -1]}
MASK = {"name": "attention_mask", "datatype": "INT64", "shape": [-1, -1]}
IMAGE = {"name": "x", "datatype": "FP32", "shape": [-1, 3, 8, 8]}


def ask(server: Triton, **wanted: Any) -> Serving:
    load = {"rate": 100, "count": 40, "input": 24, **wanted}
    with running(server):
        return load_test(server.url, api="triton", **load)


def test_a_model_is_asked_by_its_metadata(tmp_path: Any) -> None:
    server = Triton([IDS, MASK])
    found = ask(server, input="8..32")
    served = found.served
    assert (found.engine, found.engine_version, found.model) == ("triton", "2.55.0", "net")
    assert served.status.tolist() == [FINISHED] * 40
    assert set(served.output_tokens.tolist()) == {1}
    assert (ttft_s(served) == e2e_s(served)).all()
    assert (e2e_s(served) >= 0.003).all()
    shapes = [[each["shape"] for each in asked["inputs"]] for asked in server.asked[1:]]
    assert sorted(shape[0][1] for shape in shapes) == sorted(served.input_tokens.tolist())
    assert all(shape[0] == shape[1] and shape[0][0] == 1 for shape in shapes)
    assert set(np.frombuffer(server.data[1], "<i8").tolist()) == {1}  # of the mask
    assert metrics(found).tpot.p50_s is None
    assert "an answer counts as one token" in " ".join(
        str(getattr(block, "text", "")) for block in load_blocks(found)
    )
    save_serving(found, tmp_path / "run.json")
    assert metrics(load_serving(tmp_path / "run.json")) == metrics(found)


@pytest.mark.parametrize("batch", [0, 4])
def test_the_first_dimension_is_of_a_batch_where_there_are_any(batch: int) -> None:
    shape = [-1, 3, 8, 8] if batch else [3, 8, 8]
    server = Triton([{**IMAGE, "shape": shape}], {"max_batch_size": batch})
    ask(server, concurrency=2, rate=None, count=6)
    assert {tuple(asked["inputs"][0]["shape"]) for asked in server.asked} == {
        (1, 3, 8, 8) if batch else (3, 8, 8)
    }
    assert len({data[:64] for data in server.data}) > 1


@pytest.mark.parametrize("kind", ["BOOL", "INT32", "FP16", "BF16", "BYTES"])
def test_each_type_has_its_bytes(kind: str) -> None:
    server = Triton([{"name": "x", "datatype": kind, "shape": [-1, 5]}])
    found = ask(server, concurrency=1, rate=None, count=2)
    assert (found.served.status == FINISHED).all()
    if kind == "BYTES":
        length = int.from_bytes(server.data[0][:4], "little")
        assert server.data[0][4 : 4 + length].isalpha()


def test_what_is_refused_is_counted() -> None:
    found = ask(Triton([IDS], fails=5))
    assert (found.served.status == FAILED).sum() == pytest.approx(8, abs=1)
    assert "Exceeds maximum queue size" in found.reasons[0]


@pytest.mark.parametrize(
    ("server", "model", "said"),
    [
        (Triton([IDS]), "other", "no model 'other'"),
        (Triton([IDS], models=("a", "b")), "", "2 models that are ready"),
        (Triton([IDS], models=()), "", "0 models that are ready"),
        (Triton([{**IDS, "datatype": "INT4"}]), "", "of type INT4"),
        (Triton([{**IMAGE, "shape": [-1, 3000, 3000, 3000]}]), "", "would have the shape"),
        (Triton([IDS], {"model_transaction_policy": {"decoupled": True}}), "", "several answers"),
        (Triton([IDS], fails=1), "", "Exceeds maximum queue size"),
    ],
)
def test_a_model_that_cannot_be_asked_is_told_in_words(
    server: Triton, model: str, said: str
) -> None:
    with pytest.raises(ServerError, match=said) as told:
        ask(server, model=model)
    assert told.value.next_step


def test_a_name_that_would_break_a_request() -> None:
    server = Triton([IDS], models=("a b\r\nX: y",))
    with pytest.raises(ServerError, match="no model"):
        ask(server)


def test_nobody_there_is_no_server_of_another_kind() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(ServerError, match="No server can be reached") as told:
            load_test(url, api="triton", rate=10, count=5)
    assert f"curl {url}/v2" in told.value.next_step
    assert told.value.exit_code == 2


def test_a_server_that_wants_a_key_is_told_to_want_one() -> None:
    with serving(Server("401")) as server, pytest.raises(ServerError, match="answered 401") as told:
        load_test(server.url, api="triton", rate=10, count=5)
    assert "OPENAI_API_KEY" in told.value.next_step


def test_another_server_is_told_to_be_one() -> None:
    with serving(Server()) as server, pytest.raises(ServerError, match="does not speak KServe"):
        load_test(server.url, api="triton", rate=10, count=5)


def test_bodies_are_those_of_tritons_own_client() -> None:
    http = pytest.importorskip("tritonclient.http")
    requests = make_requests(Load(count=3, input=_lengths(16), output=_lengths(1), rate_per_s=1.0))
    inputs = [_Input("ids", "INT64", [-1, -1]), _Input("x", "FP32", [-1, 4])]
    made = Tensors(Form("triton", "tensors"), "/v2/models/m/infer", inputs, True, requests)
    body, lines = made.body(1)
    head = int(lines[0].rpartition(" ")[2])
    asked, at = [], head
    for each in json.loads(body[:head])["inputs"]:
        size = each["parameters"]["binary_data_size"]
        kind = {"INT64": "<i8", "FP32": "<f4"}[each["datatype"]]
        one = http.InferInput(each["name"], each["shape"], each["datatype"])
        one.set_data_from_numpy(
            np.frombuffer(body[at : at + size], kind).reshape(each["shape"]), binary_data=True
        )
        asked.append(one)
        at += size
    own, length = http.InferenceServerClient.generate_request_body(asked)
    assert json.loads(own[:length]) == json.loads(body[:head])
    assert own[length:] == body[head:]


def _lengths(tokens: int) -> Any:
    from gpuscope.program.lengths import parse_lengths

    return parse_lengths(str(tokens))
