"""What a prediction loads: one device's step and its report need a third of the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MOST_MODULES = 407
"""Modules of the package that predicting one device's step and writing its report may load. Seven
came with the page's blocks of memory, power limits, LoRA's options and JAX's steps; four with
convolutions' copies, layouts, depthwise kernels and few channels; two with what sums borrow and the
product of a convolution's pass; four with convolutions' packed groups, groups one by one on the
vector lanes, direct forward kernels and the choice between them; one with weight gradients that
tiles of positions add up; three with the rooms of kernel models (recurrent ones no longer come)."""

NOT_NEEDED = (
    "advice",
    "analysis.collective_calls",
    "analysis.collective_match",
    "analysis.compare",
    "analysis.job",
    "analysis.modelled",
    "analysis.ranks",
    "analysis.trust_checks",
    "cost.collective",
    "doctor",
    "loading",
    "measurement",
    "planning",
    "program.models.llama",
    "program.models.networks",
    "program.pipeline",
    "program.signatures",
    "sweeping",
    "timeline.kineto",
    "timeline.simulate_ranks",
    "views.compare",
    "views.report.between_ranks",
    "views.scaling",
    "views.sweep",
    "views.terminal.blocks.lines",
    "views.terminal.job_panel",
    "views.terminal.rank_panel",
    "views.terminal.trust_panel",
)
"""Rooms and files of recordings, of several ranks, of other verbs and models."""


def test_a_prediction_and_its_report_load_what_they_need(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from gpuscope.cli.app import main\n"
        "sys.argv = ['gpuscope', 'predict', 'gpt2', '--layers', '1', '--batch', '1', '--seq', '16',"
        f" '--report', {str(tmp_path / 'x.html')!r}, '--quiet']\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    assert not end.code\n"
        "print('modules', *sorted(name for name in sys.modules if name.startswith('gpuscope')))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = ran.stdout.splitlines()[-1].split()[1:]
    assert "gpuscope.views.report.data" in loaded
    unneeded = [
        name
        for name in loaded
        if any(f"{name}.".startswith(f"gpuscope.{place}.") for place in NOT_NEEDED)
    ]
    assert not unneeded
    assert len(loaded) <= MOST_MODULES


def test_files_apart_hold_the_names_that_they_are_kept_apart_for() -> None:
    """Every operator finds its kernel model whatever was looked up before."""
    code = (
        "import sys\n"
        "from gpuscope.cost.registry import MODELS, model_for\n"
        "model_for('aten::mm'); model_for('aten::no_such')\n"
        "most = {name for name in MODELS._items}\n"
        "assert 'gpuscope.cost.collective' not in sys.modules\n"
        "late = set(MODELS.names()) - most\n"
        "begins = sum(MODELS._apart.values(), ())\n"
        "print(all(n.startswith(begins) for n in late), len(late) > 10,\n"
        "      not any(n.startswith(begins) for n in most))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["True"] * 3
