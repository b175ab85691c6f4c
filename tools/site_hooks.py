"""What `mkdocs.yml` cannot say: the order of pages, the live ones, the API, files outside docs/.

A hook of MkDocs (`make site`). The order is that of the two indexes, docs/README.md and its twin.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
LINK = re.compile(r"\[([^\]]*)\]\((?!\w+:)([^)#\s]+)(#[^)\s]*)?\)")
BLOCK = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)

LIVE = {
    "step": ("predict", "gpt2", "--task", "train", "--batch", "8", "--seq", "1024", "--on", "h200"),
    "matmul": ("explain", "matmul", "8192", "50257", "768", "--on", "h200", "--quiet"),
    "learn": ("learn", "--quiet"),
    "claims": ("claims",),
}
"""The pages that are embedded, and what makes each: they are as new as the site."""

LANGUAGES = {
    "": ("English", "Live pages", "The page that this command writes:"),
    ".zh-CN": ("中文", "实时页面", "由以下命令写出的页面："),
}


def on_config(config: Any) -> Any:
    """Name the pages in the order of the indexes."""
    config.nav = [
        *(
            {language: [f"README{ending}.md", f"live{ending}.md", *listed(ending)]}
            for ending, (language, *_) in LANGUAGES.items()
        ),
        "api.md",
    ]
    return config


def listed(ending: str) -> list[str]:
    """Pages of one language, in the order of its index."""
    text = (DOCS / f"README{ending}.md").read_text("utf-8")
    found = dict.fromkeys(target for _, target, _ in LINK.findall(text))
    other = [f"README{e}.md" for e in LANGUAGES]
    return [t for t in found if "/" not in t and t.endswith(".md") and t not in other]


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made, and the files outside docs/ that pages lead to."""
    from mkdocs.structure.files import File

    def add(place: str, content: str | bytes) -> None:
        files.append(File.generated(config, place, content=content))

    for ending in LANGUAGES:
        add(f"live{ending}.md", _live_page(ending))
    add("api.md", _api_page())
    for path in _outside():
        add(_copied(path), path.read_bytes())
    if config.extra["live"]:
        for name, content in _live().items():
            add(f"live/{name}.html", content)
    return files


def _live_page(ending: str) -> str:
    _, title, about = LANGUAGES[ending]
    parts = [
        f"## {name}\n\n{about}\n\n```console\n$ gpuscope {' '.join(command)} --report {name}.html\n"
        f'```\n\n<iframe src="live/{name}{ending}.html" title="{name}" loading="lazy" '
        'style="width:100%;height:80vh;border:1px solid #8884"></iframe>\n'
        for name, command in LIVE.items()
    ]
    return f"# {title}\n\n" + "\n".join(parts)


def _live() -> dict[str, bytes]:
    """Run the commands that make the live pages, each in the language of the page around it."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    made = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, ending in product(LIVE, LANGUAGES):
            page = Path(folder) / f"{name}{ending}.html"
            line = [sys.executable, "-m", "gpuscope", *LIVE[name], "--report", str(page)]
            line += ["--lang", ending[1:3] or "en"]
            subprocess.run(line, check=True, env=environment, stdout=subprocess.DEVNULL)
            made[name + ending] = page.read_bytes()
    return made


def _api_page() -> str:
    """Public names by their docstrings: of the package, and of what scripts and notebooks take."""
    sys.path.insert(0, str(ROOT / "src"))
    import gpuscope
    from gpuscope import runtime
    from gpuscope.views import notebook

    pages = ["# Python\n"]
    for package, names in (
        (gpuscope, gpuscope.__all__),
        (runtime, runtime.__all__),
        (notebook, ["inline", "html"]),
    ):
        listed = sorted(names, key=lambda name: (not name.islower(), name.lower()))
        pages.append(f"## {package.__name__}\n")
        pages += [f"::: {_place(package, name)}\n" for name in listed]
    return "\n".join(pages)


def _place(package: Any, name: str) -> str:
    """Where a public name is made, for a room's name may be that of a module in it, too."""
    made = getattr(package, name)
    if made.__qualname__ != name:
        return f"{package.__name__}.{name}"
    return f"{made.__module__}.{name}"


def _outside() -> list[Path]:
    """The files outside docs/ that its pages lead to."""
    found = {
        target
        for page in DOCS.glob("*.md")
        for _, link, _ in LINK.findall(BLOCK.sub("", page.read_text("utf-8")))
        if (target := (DOCS / link).resolve()).is_file() and not target.is_relative_to(DOCS)
    }
    return sorted(found)


def _copied(path: Path) -> str:
    """Where a file outside docs/ stands in the site: as text, which a browser shows."""
    return f"source/{path.relative_to(ROOT).as_posix()}.txt"


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Lead links out of docs/ to the copies; a folder's becomes its name."""
    del page, config, files
    parts = BLOCK.split(markdown)
    return "".join(part if i % 2 else LINK.sub(_led, part) for i, part in enumerate(parts))


def _led(link: re.Match[str]) -> str:
    words, target, _ = link.groups()
    path = (DOCS / target).resolve()
    if path.is_relative_to(DOCS) or not path.exists():
        return link[0]
    return f"[{words}]({_copied(path)})" if path.is_file() else words
