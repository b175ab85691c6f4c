"""Parts that no longer add up are found, table by table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from spoilt import found, names, sound, with_analysis, with_page


def test_a_sound_run_passes() -> None:
    assert found("sums", sound()) == []


@pytest.mark.parametrize("table", ["classes", "kinds", "operators", "phases", "modules"])
def test_a_row_too_long_is_found(table: str) -> None:
    first, *rest = getattr(sound().run.analysis, table)
    longer = replace(first, time_s=first.time_s * 1.00001)
    wrong = names("sums", with_analysis(**{table: (longer, *rest)}))
    assert any(f"analysis.{table}" in what for what in wrong)


def test_parts_of_energy_and_memory() -> None:
    analysis = sound().run.analysis
    assert analysis.energy is not None
    assert analysis.energy.idle_j is not None
    assert analysis.memory is not None
    energy = replace(analysis.energy, idle_j=analysis.energy.idle_j * 1.1)
    assert len(found("sums", with_analysis(energy=energy))) == 1
    memory = replace(analysis.memory, at_peak={**analysis.memory.at_peak, "cache": 512})
    assert len(found("sums", with_analysis(memory=memory))) == 1


def test_the_page_is_held_to_the_analysis() -> None:
    modules = [{**row, "time_s": 2 * row["time_s"]} for row in sound().document["modules_folded"]]
    wrong = names("sums", with_page("modules_folded", value=modules))
    assert list(wrong) == ["the rows of modules_folded and analysis.classes"]
