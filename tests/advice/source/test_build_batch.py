"""The batch of a build function."""

import functools

import pytest

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.source.build_batch import batch_of, with_batch


def build(batch: int = 8, width: int = 2):
    return lambda: (batch, width)


def sized(batch_size: int = 3):
    return lambda: batch_size


@pytest.mark.parametrize(
    ("made", "found"),
    [
        (build, ("batch", 8)),
        (sized, ("batch_size", 3)),
        (functools.partial(build, batch=16), ("batch", 16)),
        (lambda: None, None),
        (lambda batch: None, None),
        (lambda batch=True: None, None),
        (lambda batch=0: None, None),
        (lambda batch="8": None, None),
        (dict, None),
    ],
)
def test_found(made, found) -> None:
    assert batch_of(made) == found


def test_a_partial_that_tells_its_name_keeps_its_batch() -> None:
    bound = functools.partial(build, batch=4)
    functools.update_wrapper(bound, build)
    assert batch_of(bound) == ("batch", 4)


def test_changed() -> None:
    changed = with_batch(functools.partial(build, width=5), 32)
    assert changed()() == (32, 5)
    assert batch_of(changed) == ("batch", 32)
    with pytest.raises(ValueError, match="batch"):
        with_batch(lambda: None, 2)


def test_live_code_is_seen_and_changed() -> None:
    live = Live()
    live.start()
    step = live.wrap(build)()
    assert live.seen().batch == 8
    assert step() == (8, 2)
    live.close()
