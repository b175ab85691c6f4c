"""A framework beside a task that it does not start names the pair and what to type."""

import pytest

from gpuscope.errors import UnsupportedError
from gpuscope.planning.frameworks import _known, refuse_other_task


def test_every_framework_starts_one_task_and_is_refused_by_the_others() -> None:
    known = _known()
    for task, names in known.items():
        for name in names:
            refuse_other_task(name, task)
            for other in known:
                if name not in known[other]:
                    with pytest.raises(UnsupportedError) as refused:
                        refuse_other_task(name, other)
                    told = str(refused.value)
                    assert f"--for {name} does not go with --task {other}" in told
                    assert f"--task {task} --for {name}" in told
                    assert all(each in told for each in known[other])


def test_an_unknown_name_is_left_to_who_knows_them() -> None:
    refuse_other_task("caffe", "train")
