"""What is captured once for several tests: equal builds, and no others."""

from collections.abc import Callable

import torch
from sharing import Shared, alike


def _build(width: int, dtype: torch.dtype = torch.float32) -> Callable[[], object]:
    def build() -> object:
        return lambda: torch.ones(width, dtype=dtype)

    return build


def test_code_and_what_it_closes_over_decide() -> None:
    assert alike(_build(2)) == alike(_build(2)) is not None
    assert alike(_build(2)) != alike(_build(3))
    assert alike(_build(1)) != alike(_build(True))
    assert alike(_build(2)) != alike(_build(2, torch.float16))
    assert alike(lambda: 1) != alike(lambda: 2)


def test_what_can_change_is_never_shared() -> None:
    seen: list[int] = []
    assert alike(lambda: seen.append(1)) is None
    assert alike(torch.nn.Linear(1, 1)) is None
    shared = Shared()
    made = [shared.of(lambda: seen.append(1), (), object) for _ in range(2)]
    assert made[0] is not made[1]


def test_made_once_for_what_is_asked() -> None:
    shared = Shared()
    first = shared.of(_build(2), "h200", object)
    assert shared.of(_build(2), "h200", object) is first
    assert shared.of(_build(2), "h100", object) is not first
