"""Which source files are a user's own."""

from __future__ import annotations

import importlib

import pytest
import torch

import gpuscope
from gpuscope.program.user_code import is_library


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
