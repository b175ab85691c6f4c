from __future__ import annotations

from gpuscope.doctor.probes import deep_host


def test_the_memory_that_is_free() -> None:
    text = "MemTotal: 100 kB\nMemAvailable:   2048 kB\n"
    assert deep_host.available_bytes(text) == 2048 * 1024
    assert deep_host.available_bytes("") is None
    assert 0 < deep_host.budget_bytes() <= deep_host.MOST_BYTES


def test_the_host_is_tested(monkeypatch) -> None:
    monkeypatch.setattr(deep_host, "SHAPE", (64, 64, 64))
    monkeypatch.setattr(deep_host, "budget_bytes", lambda: 4 << 20)
    found = deep_host.host([])
    assert found["trusted"]
    assert set(found["products"]) == set(deep_host.CHECKED)
    assert all(row["wrong"] == 0 for row in found["products"].values())
    assert found["memory"]["wrong_words"] == 0
    assert found["memory"]["bytes_tested"] == 2 << 20
    assert len(found["memory"]["patterns"]) == 9
    assert found["bandwidth"]["bytes_per_s"] > 0
