"""The host's processors, from tables by hand."""

from __future__ import annotations

import pytest

from gpuscope.watch import host_load
from gpuscope.watch.host_load import HostLoad


def test_the_share_is_of_the_time_between(tmp_path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 1\n")
    load = HostLoad(tmp_path)
    assert load.read() is None
    stat.write_text("cpu  130 0 60 840 70 0 0 0 99 0\n")  # 40 busy of 100; guest counts in user
    assert load.read() == pytest.approx(0.4)
    assert load.read() is None  # no time passed


@pytest.mark.parametrize("text", ["", "cpu 1 2\n"])
def test_a_table_that_cannot_be_read_is_none(tmp_path, text: str) -> None:
    (tmp_path / "stat").write_text(text)
    load = HostLoad(tmp_path)
    assert (load.read(), load.read()) == (None, None)


def test_without_the_table_another_library_answers_or_nobody(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(host_load, "_psutil_ticks", iter([(1.0, 2.0), (2.0, 4.0)]).__next__)
    load = HostLoad(tmp_path / "none")
    assert (load.read(), load.read()) == (None, 0.5)
