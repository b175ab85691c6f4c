"""Which source files are a user's own."""

from __future__ import annotations

import importlib

import pytest
import torch

import gpuscope
from gpuscope.program.user_code import is_library, user_line


@pytest.mark.parametrize(
    ("file", "library"),
    [
        (torch.__file__, True),
        (importlib.__file__, True),
        (gpuscope.__file__, True),
        ("<frozen importlib._bootstrap>", True),
        ("<string>", True),
        (__file__, False),
        ("/home/me/gpuscope/train.py", False),  # a folder of that name is the user's
        ("/usr/lib/python3/dist-packages/tool.py", True),
        ("/home/me/train.py", False),
        ("/home/me/site-packages/tool.py", True),
    ],
)
def test_libraries(file: str, library: bool) -> None:
    assert is_library(file) is library


def test_the_innermost_line_of_the_users_is_named() -> None:
    def step() -> None:
        torch.ones(2) @ torch.ones(3)

    with pytest.raises(RuntimeError) as caught:
        step()
    line = step.__code__.co_firstlineno + 1
    assert user_line(caught.value) == f" (line {line} of {__file__})"


def test_an_error_of_a_library_alone_names_no_line() -> None:
    with pytest.raises(ValueError, match="Invalid literal") as caught:
        importlib.import_module("fractions").Fraction("none")
    error = caught.value
    assert error.__traceback__ is not None
    error.__traceback__ = error.__traceback__.tb_next  # without this file's own line
    assert error.__traceback__ is not None
    assert user_line(error) == ""
