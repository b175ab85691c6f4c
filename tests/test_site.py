"""The documentation as a site: its order, its links, its pages that are made."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import site_hooks

import gpuscope

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("ending", site_hooks.LANGUAGES)
def test_every_page_of_a_language_is_listed(ending: str) -> None:
    listed = site_hooks.listed(ending)
    wanted = {
        page.name
        for page in (ROOT / "docs").glob("*.md")
        if page.name.endswith(".zh-CN.md") == bool(ending) and not page.name.startswith("README")
    }
    assert wanted <= set(listed)
    assert listed[0] == f"quickstart{ending}.md"


def test_links_out_of_the_folder_lead_to_copies() -> None:
    page = "[a](../examples/fsdp_tp.py) [b](../web) [c](json.md#schemas) [d](https://x.org)"
    code = "\n```\n[e](../examples/fsdp_tp.py)\n```\n"
    told = site_hooks.on_page_markdown(page + code, None, None, None)
    assert told == (
        "[a](source/examples/fsdp_tp.py.txt) b [c](json.md#schemas) [d](https://x.org)" + code
    )


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mkdocs") is None, reason="needs the extra docs")
def test_it_is_built_without_a_warning(tmp_path: Path) -> None:
    """Strict: a dead link, an unknown anchor or a name without docs ends it."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env=os.environ | {"GPUSCOPE_SITE_LIVE": "false"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    api = (tmp_path / "site" / "api.html").read_text("utf-8")
    told = set(re.findall(r'id="gpuscope[\w.]*\.(\w+)"', api))
    assert {*gpuscope.__all__, "StepTimes", "inline"} <= told
    chinese = (tmp_path / "site" / "live.zh-CN.html").read_text("utf-8")
    assert 'src="live/step.zh-CN.html"' in chinese
    assert (tmp_path / "site" / "source" / "examples" / "fsdp_tp.py.txt").is_file()
