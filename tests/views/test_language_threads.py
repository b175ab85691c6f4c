"""Two threads that ask for different languages get each its own."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor

from run_builders import gpt_run

from gpuscope.document.language import LANGUAGES, PSEUDO, catalogue
from gpuscope.views.terminal import make_console, render_run


def told(run, lang: str) -> str:
    console = make_console(io.StringIO())
    console.print(render_run(run, lang))
    return console.file.getvalue()


def test_each_thread_gets_its_language() -> None:
    run = gpt_run(layers=1)
    asked = (*LANGUAGES, PSEUDO)
    alone = {lang: told(run, lang) for lang in asked}
    assert len(set(alone.values())) == len(asked)
    catalogue.cache_clear()  # read again, by several threads at once
    with ThreadPoolExecutor(4) as pool:
        for lang, text in pool.map(lambda lang: (lang, told(run, lang)), asked * 2):
            assert text == alone[lang]
