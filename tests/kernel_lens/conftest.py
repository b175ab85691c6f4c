"""The examples under the lens, run once for all tests that read their figures."""

from __future__ import annotations

import importlib.util

import pytest
from lens_examples import Seen, look_at_all


@pytest.fixture(scope="session")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """All Numba examples, in one process."""
    if importlib.util.find_spec("numba") is None:
        pytest.skip("Numba is not installed")
    return look_at_all(tmp_path_factory.mktemp("lens"))
