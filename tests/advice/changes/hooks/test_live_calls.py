"""Calls of root modules and distributed wrappers, as changes get hold of them."""

import torch
from torch import nn

from gpuscope.advice.change import Change
from gpuscope.advice.changes.hooks.live import Live


class _Asking(Change):
    def __init__(self, asks):
        self.asks = asks

    def install(self, live):
        self.asks(live)

    def fits(self, case):
        raise NotImplementedError


def _tracing(word, calls):
    def wrap(module, call):
        def called(*args, **kwargs):
            calls.append((word, module))
            return call(*args, **kwargs)

        return called

    return _Asking(lambda live: live.on_call(wrap))


def _build(models):
    def build():
        models.extend([nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2))])
        return lambda: [model(torch.ones(1, 2)) for model in models]

    return build


def test_the_first_that_asks_is_the_outermost_and_children_are_not_wrapped():
    calls, models = [], []
    before = nn.Linear.__call__
    live = Live([_tracing("a", calls), _tracing("b", calls)])
    step = live.wrap(_build(models))()
    step()
    # The linear layer inside of the second model is of a wrapped class, but no root.
    assert calls == [(w, m) for m in models for w in "ab"]
    live.close()
    step()
    assert len(calls) == 4
    assert nn.Linear.__call__ is before
    assert "__call__" not in vars(nn.Linear)


def test_two_models_of_a_class_are_called_as_themselves():
    calls, models = [], []

    def build():
        models.extend([nn.Linear(2, 2), nn.Linear(2, 3)])
        return lambda: [model(torch.ones(1, 2)).shape[-1] for model in models]

    live = Live([_tracing("a", calls)])
    assert live.wrap(build)()() == [2, 3]
    live.close()
    assert [m for _, m in calls] == models


def test_wrappers_are_handed_over_once_made(tmp_path):
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    made = []
    dist.init_process_group("gloo", f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        asking = _Asking(lambda live: live.on_wrapped(lambda kind, w: made.append((kind, w))))
        with Live([asking]):
            wrapper = DistributedDataParallel(nn.Linear(2, 2))
    finally:
        dist.destroy_process_group()
    assert made == [("ddp", wrapper)]


def test_a_slice_of_a_models_layers_is_no_model():
    def build():
        model = nn.Module()
        model.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
        kept = [model, model.layers[:1]]
        return lambda: kept

    live = Live()
    step = live.wrap(build)()
    assert [type(m) for m in live.models] == [nn.Module]
    assert step()
    live.close()


def test_what_wraps_the_users_step_stands_inside_of_what_changes_it():
    order = []

    def saying(word):
        def wrap(step):
            def said():
                order.append(word)
                return step()

            return said

        return wrap

    live = Live([_Asking(lambda live: live.on_step(saying("change")))])
    step = live.wrap(lambda: lambda: order.append("step"), saying("innermost"))()
    step()
    live.close()
    assert order == ["change", "innermost", "step"]
