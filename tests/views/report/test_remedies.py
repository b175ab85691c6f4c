"""What stands beside a finding: its lines as they are in the file, the changed step whole."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from run_builders import gpt_run

import gpuscope as gs
from gpuscope.outcomes import simulated
from gpuscope.run.timeline_document import THIN_EVENTS, thin_timeline
from gpuscope.timeline.types import DEVICE_KINDS, EVENT_KINDS
from gpuscope.views.report.data import remedies_document, source_lines

CODE = """import torch


def build():
    model = torch.nn.Sequential(torch.nn.Linear(64, 100), torch.nn.GELU(), torch.nn.Tanh()).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    x = torch.randn(1 << 20, 64, device="cuda")

    def step():
        optimizer.zero_grad()
        loss = (model(x).sigmoid() * 3 + 1).sum()
        loss.backward()
        optimizer.step()

    return step
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> tuple[Path, gs.Run]:
    path = tmp_path_factory.mktemp("code") / "own_step.py"
    path.write_text(CODE)
    return path, gs.predict(f"{path}:build", on="h200")


def test_a_thin_timeline_has_all_events_where_they_were() -> None:
    timeline = gpt_run().timeline
    thin, events = thin_timeline(timeline), timeline.events
    order = np.argsort(events.start_ns, kind="stable")
    order = order[events.kind[order] != EVENT_KINDS.index("step")]
    assert np.cumsum(thin["start_ns"]).tolist() == events.start_ns[order].tolist()
    assert thin["duration_ns"] == events.duration_ns[order].tolist()
    named = [timeline.names[name] for name in events.name[order].tolist()]
    assert [thin["names"][name] for name in thin["name"]] == named
    for at, row in enumerate(order.tolist()):
        op, kernel = int(events.op[row]), int(events.kernel[row])
        assert (thin["op"][at] < 0) == (op < 0)
        if op >= 0:
            found = timeline.ops[op]
            assert thin["ops"][thin["op"][at]] == (found.name, found.module, found.phase)
        if kernel >= 0:
            assert thin["families"][thin["family"][at]] == timeline.kernels[kernel].kind
    assert thin["left_out"] == 0


def test_of_many_events_the_longest_are_kept() -> None:
    timeline = gpt_run().timeline
    thin = thin_timeline(timeline, 10)
    events = timeline.events
    lengths = events.duration_ns[events.kind != EVENT_KINDS.index("step")]
    assert len(thin["start_ns"]) == 10
    assert thin["left_out"] == len(lengths) - 10
    assert min(thin["duration_ns"]) >= np.sort(lengths)[-10]


def test_of_several_ranks_one_is_drawn() -> None:
    folder = Path(__file__).resolve().parents[2] / "data" / "traces" / "4xh200" / "ddp_slow_host"
    timeline = gs.load(folder).timeline
    thin, events = thin_timeline(timeline, THIN_EVENTS), timeline.events
    assert {lane["rank"] for lane in thin["lanes"]} == {0}
    own = [at for at, lane in enumerate(timeline.lanes) if lane.rank == 0]
    on_device = np.isin(events.lane, own) & (events.kind < DEVICE_KINDS)
    assert sum(kind < DEVICE_KINDS for kind in thin["kind"]) == on_device.sum()


def test_lines_of_a_finding_are_those_of_the_file(own) -> None:
    path, run = own
    found, text = source_lines(run), path.read_text().splitlines()
    named = {line for each in run.analysis.findings if each.about for line in each.about.lines}
    assert named
    assert set(found) == named
    for line, around in found.items():
        at = int(line.rpartition(":")[2])
        assert line.startswith("own_step.py:")
        assert around["first"] <= at < around["first"] + len(around["lines"])
        first = around["first"] - 1
        assert around["lines"] == text[first : first + len(around["lines"])]
    assert any("loss = (model(x)" in text[int(line.rpartition(":")[2]) - 1] for line in found)


def test_without_its_program_or_its_file_no_line_is_told(own) -> None:
    _, run = own
    assert source_lines(replace(run, basis=None)) == {}
    gone = replace(run.basis.captured, files={"own_step.py": "/no/such/file.py"})
    assert source_lines(replace(run, basis=replace(run.basis, captured=gone))) == {}


def test_changes_are_compact(own) -> None:
    _, run = own
    documents = remedies_document(run, None)
    assert [each["findings"] for each in documents] == [list(r.findings) for r in simulated(run)]
    assert documents
    assert len(json.dumps(documents[0]["timeline"])) < 200 * len(run.timeline.events)
