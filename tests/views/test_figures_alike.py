"""Figures on the page and in the terminal read alike: `web/test/figures.json` holds both to it."""

from __future__ import annotations

import json
from pathlib import Path

from gpuscope.views import units

FILE = Path(__file__).resolve().parents[2] / "web" / "test" / "figures.json"
VALUES = [
    0, 1, 3, 12.5, 999.7, 1000, 1024, 12345, 99_999, 100_000, 157_000, 1.24e9, 4.8e12, 9.894e14,
    2.5e-6, 0.0123, 0.99951, 1e-9, 4.2e-11,
]  # fmt: skip
SHOW = {
    "time": units.time, "size": units.size, "byteRate": units.byte_rate,
    "flopRate": units.flop_rate, "energy": units.energy, "power": units.power,
    "count": units.count, "percent": units.percent, "money": units.money, "ratio": units.ratio,
    "hertz": units.frequency, "flops": units.flops,
}  # fmt: skip


def test_the_page_is_held_to_the_terminal_s_figures() -> None:
    shown = {name: [show(value, "en") for value in VALUES] for name, show in SHOW.items()}
    wanted = json.dumps({"values": VALUES, "shown": shown}, ensure_ascii=False, indent=1) + "\n"
    if not FILE.exists():
        FILE.write_text(wanted, "utf-8")
    assert FILE.read_text("utf-8") == wanted, f"delete {FILE.name}, run this test again"
