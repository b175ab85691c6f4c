"""Edits of source text: each lands where it should, and what comes out still is Python."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.advice.source import edits as source
from gpuscope.advice.types import Edit

TEXT = dedent('''\
    """A script."""
    from __future__ import annotations

    import os

    os.environ["A"] = "1"
    import torch


    def build():
        model = torch.nn.Linear(4, 4)  # 模型
        opt = torch.optim.AdamW(
            model.parameters(),
            lr=1e-3,
        )

        def step():
            """Do
              it."""
            opt.zero_grad()
            text = """a
      b"""
            loss = model(torch.ones(2, 4)).sum(); loss.backward()
            if loss > 1:
                print(loss)
            return loss.item()

        return step
''')


def _line(start: str) -> int:
    """Number of the line that begins so."""
    lines = source.lines_of(TEXT)
    return 1 + next(i for i, line in enumerate(lines) if line.strip().startswith(start))


def _after(*edits: Edit | None) -> str:
    assert None not in edits
    text = source.applied(TEXT, tuple(edit for edit in edits if edit))
    ast.parse(text)
    return text


def test_after_imports_comes_behind_settings_between_imports() -> None:
    text = _after(source.after_imports("f.py", TEXT, "X = 1\n"))
    assert text.splitlines()[5:8] == ['os.environ["A"] = "1"', "import torch", "X = 1"]


def test_after_imports_of_a_file_without_any() -> None:
    assert source.applied("a = 1", (source.after_imports("f", "a = 1", "b\n"),)) == "b\na = 1\n"


def test_a_keyword_is_added_and_replaced() -> None:
    sources = {"f.py": TEXT}
    site = f"f.py:{_line('opt = ')}"
    text = _after(source.call_keyword(sources, site, "AdamW", "fused", "True"))
    assert "        lr=1e-3, fused=True,\n    )" in text
    text = _after(source.call_keyword(sources, site, "AdamW", "lr", "2"))
    assert "lr=2," in text
    assert "lr=1e-3" not in text
    assert source.call_keyword(sources, "f.py:4", "AdamW", "lr", "2") is None
    assert source.call_keyword(sources, "g.py:11", "AdamW", "lr", "2") is None


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("f()", "f(k=1)"),
        ("f(a)", "f(a, k=1)"),
        ("f(a, )", "f(a, k=1)"),
        ("f(k=0)", "f(k=1)"),
        ("f(\n    a\n)", "f(\n    a, k=1\n)"),
        ("f('é', a)", "f('é', a, k=1)"),
    ],
)
def test_a_keyword_in_every_form_of_a_call(call: str, wanted: str) -> None:
    edit = source.call_keyword({"f": call + "\n"}, "f:1", "f", "k", "1")
    assert edit is not None
    assert source.applied(call + "\n", (edit,)) == wanted + "\n"


def test_a_keyword_is_taken_out() -> None:
    text = _after(source.without_keyword({"f": TEXT}, f"f:{_line('opt = ')}", "AdamW", "lr"))
    assert "torch.optim.AdamW(model.parameters())\n" in text
    assert source.without_keyword({"f": TEXT}, f"f:{_line('opt = ')}", "AdamW", "eps") is None


def test_before_and_after_a_statement() -> None:
    text = _after(
        source.before_statement("f", TEXT, _line("opt = "), "a = 1\n"),
        source.after_statement("f", TEXT, _line("lr="), "b = 2\nif b:\n    c = 3\n"),
    )
    lines = text.splitlines()
    at = lines.index("    a = 1")
    assert lines[at + 1] == "    opt = torch.optim.AdamW("
    assert lines[at + 5 : at + 8] == ["    b = 2", "    if b:", "        c = 3"]
    assert source.before_statement("f", TEXT, 8, "a\n") is None


def test_a_statement_is_replaced_or_deleted() -> None:
    text = _after(source.delete_statement("f", TEXT, _line("print")))
    assert "        if loss > 1:\n            pass\n" in text
    text = _after(source.delete_statement("f", TEXT, _line("return loss")))
    assert "return loss.item()" not in text
    assert "pass" not in text
    text = _after(source.replace_statement("f", TEXT, _line("return loss"), "return loss\n"))
    assert "        return loss\n" in text
    # `loss = ...; loss.backward()` shares its line.
    assert source.replace_statement("f", TEXT, _line("loss = "), "x = 1\n") is None


def test_a_block_goes_under_a_header_and_strings_keep_their_blanks() -> None:
    first, last = _line("opt.zero"), _line("loss = ")
    text = _after(source.around_statements("f", TEXT, first, last, "with torch.no_grad():"))
    assert "        with torch.no_grad():\n            opt.zero_grad()\n" in text
    assert '            text = """a\n  b"""\n            loss' in text


def test_a_value_is_wrapped() -> None:
    text = _after(source.wrap_value("f", TEXT, _line("model = "), "torch.compile({value})"))
    assert "    model = torch.compile(torch.nn.Linear(4, 4))  # 模型\n" in text
    text = _after(source.wrap_value("f", TEXT, _line("return loss"), "float({value})"))
    assert "return float(loss.item())" in text
    assert source.wrap_value("f", TEXT, _line("opt.zero"), "x({value})") is None


def test_a_call_is_replaced() -> None:
    site, new = f"f:{_line('model = ')}", "my.Linear({args}, bias=False)"
    edit = source.replace_call({"f": TEXT}, site, "Linear", new)
    assert "model = my.Linear(4, 4, bias=False)  # 模型" in _after(edit)
    edit = source.replace_call({"f": TEXT}, site, "Linear", "wrap({call})")
    assert "model = wrap(torch.nn.Linear(4, 4))" in _after(edit)


def test_insertions_at_one_place_keep_their_order() -> None:
    edits = (Edit("f", 2, 1, "x\n"), Edit("f", 2, 1, "y\n"))
    assert source.applied("a\nb\n", edits) == "a\nx\ny\nb\n"


def test_overlapping_edits_are_refused() -> None:
    with pytest.raises(ValueError, match="two edits"):
        source.applied("a\nb\n", (Edit("f", 1, 2, "x\n"), Edit("f", 2, 2, "y\n")))


def test_lines_as_python_counts_them() -> None:
    assert source.lines_of("a\x0cb\r\nc\rd") == ["a\x0cb\r\n", "c\r", "d"]
    assert source.lines_of("") == []


@given(st.lists(st.text("ab\n\r\x0c", max_size=8), max_size=5))
def test_lines_lose_nothing(parts: list[str]) -> None:
    text = "".join(parts)
    assert "".join(source.lines_of(text)) == text
