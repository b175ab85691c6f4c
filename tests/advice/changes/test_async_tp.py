"""Asynchronous tensor parallelism: refused, and said why."""

import pytest
from changed_cases import case_of
from tiny_models import llama, tiny

from gpuscope.advice.changes.hooks.live import Live
from gpuscope.advice.registry import find
from gpuscope.document.text import render
from gpuscope.errors import UnsupportedError


@pytest.mark.parametrize("name", ["async-tp"])
def test_it_says_that_it_cannot(name):
    fit = find(name).fits(case_of(tiny(llama())))
    assert not fit.applies
    assert not fit.relevant
    assert render(fit.why, "zh")
    with pytest.raises(UnsupportedError, match="micro_pipeline"):
        find(name).install(Live())
