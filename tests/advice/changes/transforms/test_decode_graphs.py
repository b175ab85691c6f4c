"""Graphs of decoding: captured after the warm-up, replayed with new inputs, results of their own.

There is no device here, so what captures and replays is a stand-in that runs the call again.
"""

import pytest
import torch

pytest.importorskip("transformers")

from gpuscope.advice.changes.transforms import decode_graphs


class _Layer:
    """A fixed layer "on a GPU"."""

    def __init__(self):
        self.graphs = {}
        self.keys = type("Keys", (), {"is_cuda": True})()


class _Replay:
    """Runs the call again in the graph's own memory, as a replay does."""

    def __init__(self, call, kwargs):
        self.given = {k: v.clone() for k, v in kwargs.items() if isinstance(v, torch.Tensor)}
        self.call, self.kwargs, self.replays = call, kwargs, 0
        self.out = call(**{**kwargs, **self.given})

    def replay(self):
        self.replays += 1
        self.out.copy_(self.call(**{**self.kwargs, **self.given}))


@pytest.fixture
def counted(monkeypatch):
    made = []

    def capture(call, kwargs):
        graph = _Replay(call, kwargs)
        made.append(graph)
        return decode_graphs._Graph(graph, graph.given, graph.out)

    monkeypatch.setattr(decode_graphs, "_capture", capture)
    monkeypatch.setattr(decode_graphs, "fixed", lambda cache: cache)
    return made


@torch.no_grad()
def test_replays_take_new_inputs_and_give_memory_of_their_own(counted):
    cache = [_Layer()]
    called = decode_graphs.replayed(
        torch.nn.Module(), lambda input_ids, past_key_values: input_ids * 2
    )
    given = [torch.full((1, 1), n) for n in range(7)]
    out = [called(input_ids=x, past_key_values=cache) for x in given]
    assert [int(o) for o in out] == [0, 2, 4, 6, 8, 10, 12]
    assert len(counted) == 1
    assert counted[0].replays == 7 - decode_graphs.WARM_UP
    assert len({o.data_ptr() for o in out}) == 7


@torch.no_grad()
def test_another_batch_is_another_graph(counted):
    cache = [_Layer()]
    called = decode_graphs.replayed(
        torch.nn.Module(), lambda input_ids, past_key_values: input_ids + 1
    )
    for rows in (1, 2):
        for _ in range(5):
            assert called(input_ids=torch.ones(rows, 1), past_key_values=cache).shape == (rows, 1)
    assert len(counted) == 2


@torch.no_grad()
def test_prompts_and_growing_caches_are_called_as_they_are(counted):
    called = decode_graphs.replayed(torch.nn.Module(), lambda input_ids, past_key_values: input_ids)
    for _ in range(6):
        called(input_ids=torch.ones(1, 4), past_key_values=[_Layer()])
        called(input_ids=torch.ones(1, 1), past_key_values=[])
    assert not counted


def test_gradients_are_left_alone(counted):
    called = decode_graphs.replayed(torch.nn.Module(), lambda input_ids, past_key_values: input_ids)
    cache = [_Layer()]
    for _ in range(6):
        called(input_ids=torch.ones(1, 1), past_key_values=cache)
    assert not counted
