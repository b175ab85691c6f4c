"""The collector is as it was afterwards, also after an error."""

from __future__ import annotations

import gc
from contextlib import suppress

import pytest

from gpuscope.garbage import no_collection


@pytest.mark.parametrize("was", [True, False])
def test_the_collector_is_as_it_was(was: bool) -> None:
    before = gc.isenabled()
    (gc.enable if was else gc.disable)()
    try:
        with suppress(KeyError), no_collection():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() is was
    finally:
        (gc.enable if before else gc.disable)()
