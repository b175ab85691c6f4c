"""Code is known again by its hash, with all that it imports from beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuscope.advice.source.code_hash import code_hash
from gpuscope.errors import InputFileError


def test_the_hash_follows_what_the_file_imports(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    main, near = tmp_path / "train.py", tmp_path / "near.py"
    inner = tmp_path / "part" / "__init__.py"
    main.write_text("import os\nimport near\nfrom part import thing\n")
    near.write_text("import train\n")  # a circle
    inner.write_text("from . import thing\n")
    (tmp_path / "part" / "thing.py").write_text("x = 1\n")
    (tmp_path / "stranger.py").write_text("x = 1\n")
    first = code_hash(main)
    (tmp_path / "stranger.py").write_text("x = 2\n")
    assert code_hash(main) == first
    (tmp_path / "part" / "thing.py").write_text("x = 2\n")
    second = code_hash(main)
    assert second != first
    near.write_text("import train  # changed\n")
    assert code_hash(main) not in (first, second)


def test_a_missing_file_has_no_hash(tmp_path: Path) -> None:
    with pytest.raises(InputFileError):
        code_hash(tmp_path / "none.py")
