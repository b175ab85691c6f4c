"""A graphed call: as it is where nothing can be replayed; noted under a capture's fakes."""

import torch

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.changes.transforms.call_graphs import _told, replayed_calls


def test_training_and_host_tensors_run_as_they_are():
    model = torch.nn.Linear(4, 4)
    called = []

    def call(x):
        called.append(1)
        return model(x)

    graphed = replayed_calls(Live())(model, call)
    x = torch.randn(2, 4)
    torch.testing.assert_close(graphed(x), model(x))  # with gradients
    model.eval()
    with torch.no_grad():
        for _ in range(6):
            torch.testing.assert_close(graphed(x), model(x))
    assert len(called) == 7


def test_calls_of_one_graph_have_equal_shapes_and_numbers():
    x = torch.randn(4, 4)
    assert _told(x) == _told(torch.zeros(4, 4))
    assert _told(x) != _told(x.t())
    assert _told(x) != _told(x.half())
    assert _told(3) == _told(3) != _told(4)
    assert _told(object()) != _told(x)
