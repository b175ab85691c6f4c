"""What is said of a dump, and that `explain error` says it."""

from __future__ import annotations

import json
from pathlib import Path

from blocks import all_words, blocks, told
from dumps_made import calls, p2p, write
from typer.testing import CliRunner

from gpuscope.cli.app import app
from gpuscope.document.blocks import Code, Table
from gpuscope.document.text import render
from gpuscope.explanation.error import error
from gpuscope.explanation.flight_recorder.shown import explain_dumps

DATA = Path("tests/data/errors/flight_recorder")


def test_a_missing_rank_with_its_call_site() -> None:
    said = explain_dumps(DATA / "rank_missing")
    assert said.title == "Rank 2 never called collective 4"
    table = blocks(said, Table)[0]
    assert table.marked == (2,)
    assert [row[2] for row in table.rows] == [4, 4, 3, 4]
    assert [row[3] for row in table.rows] == [4, 4, 4, 4]
    assert {row[1] for row in table.rows} == {None}  # Gloo does not note the end
    assert told(said, "on rank 0-1, 3") == "all_reduce  1024×8 → 1024×8  Float"
    sites = blocks(said, Code)
    assert [code.lines[0].number for code in sites] == [13, 13]
    assert "last call of rank 2" in sites[1].title


def test_every_text_is_in_both_languages(tmp_path: Path) -> None:
    folders = [DATA / "rank_missing", DATA / "ranks_parted"]
    for index, states in enumerate([("ccb", "ccs"), ("cs", "cs"), ("cb", "cb"), ("cc", "cb")]):
        ranks = {rank: calls(told) for rank, told in enumerate(states)}
        folders.append(write(tmp_path / str(index), ranks, 2))
    folders.append(write(tmp_path / "gone", {0: calls("cb")}, 2))
    folders.append(write(tmp_path / "well", {0: calls("c"), 1: calls("c")}, 2))
    folders.append(write(tmp_path / "pair", {0: [p2p(1, "send 0->1")], 1: []}, 2, "2.99"))
    for folder in folders:
        for words in all_words(explain_dumps(folder)):
            assert words.strip(), folder
            assert render(words, "zh").strip(), folder


def test_a_newer_version_and_missing_dumps_are_told(tmp_path: Path) -> None:
    said = explain_dumps(write(tmp_path, {0: calls("cb")}, 8, "2.99"))
    assert said.title == "Ranks 1-7 left no dump"
    assert "2.99" in said.assumptions[0]
    assert "1 of 8 ranks" in said.assumptions[1]


def test_of_many_ranks_the_culprit_is_shown(tmp_path: Path) -> None:
    ranks = {rank: calls("cb" if rank != 90 else "c") for rank in range(100)}
    table = blocks(explain_dumps(write(tmp_path, ranks, 100)), Table)[0]
    assert len(table.rows) == 24
    assert [table.rows[index][0] for index in table.marked] == [90]
    assert table.note is not None
    assert table.note.startswith("76 more")


def test_beside_a_log_and_by_itself() -> None:
    log = Path("tests/data/errors/nccl_timeout_one.txt")
    both = error(log, DATA / "rank_missing")
    assert both.title == "Rank 2 never called collective 4"
    assert both.sections[-1].title == "What the message says"
    assert error(str(DATA / "rank_missing")).title == both.title
    one = DATA / "rank_missing" / "nccl_trace_rank_0"
    assert error(one).title == "Ranks 1-3 left no dump"


def test_the_command() -> None:
    run = CliRunner().invoke(
        app, ["explain", "error", "NCCL timeout", "--dump", str(DATA / "json"), "--json"]
    )
    assert run.exit_code == 0
    assert "Rank 2 never called collective 4" in json.dumps(json.loads(run.stdout))


def test_a_wrong_dump_is_an_error_without_traceback() -> None:
    run = CliRunner().invoke(app, ["explain", "error", "hang", "--dump", "no/such/folder"])
    assert run.exit_code != 0
    assert "Traceback" not in run.output
