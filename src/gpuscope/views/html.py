"""Pages: one HTML file each with its data inside, which needs no network and no server.

The page itself is built from `web/` (TypeScript) into `page/page.html`, which is shipped in the
package; here its data and title are put in. One template serves all sorts of pages: a report of
runs, an explanation, a book of lessons, the claims.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuscope.atomic import write_atomically
from gpuscope.document.blocks import Book, Explanation
from gpuscope.document.language import LANGUAGES, translated
from gpuscope.document.plain import dumps, utf8
from gpuscope.document.text import Text, render
from gpuscope.document.translations import strings
from gpuscope.errors import InvalidValueError
from gpuscope.run import Refused, Remedy, Run
from gpuscope.views.explanation import book_document, explanation_document
from gpuscope.views.i18n import choose_language

if TYPE_CHECKING:
    from gpuscope.views.report.what_if_sizes import Varied

PAGE_VERSION = 2
"""Format of a page's data; `web/src/core/data.ts` refuses newer ones."""

COMPRESS_ABOVE = 300_000
"""Characters of JSON above which a page's data is compressed."""


def write_report(
    runs: Run | Sequence[Run | Refused],
    path: str | Path,
    lang: str | None = None,
    *,
    what_if: bool = True,
    varied: Sequence[Varied] = (),
    refused: Sequence[Refused] = (),
    remedies: Sequence[Remedy] | None = None,
    advice: Explanation | None = None,
) -> None:
    """Write a report of one run, or of several side by side.

    Args:
        runs: one run or several, as `predict_many` gives them.
        path: the HTML file; it is there in full or not at all.
        lang: language that the page opens in ("en", "zh"); the reader can switch. None: as the
            environment says.
        what_if: compute the curves of the view "What if" for predicted runs.
        varied: options of the first run's workload that were predicted with other values.
        refused: devices that cannot run it, named beside the runs.
        remedies: changes of the first run, predicted; None: those that its findings were simulated
            with.
        advice: what to change, told before the run.

    Raises:
        InvalidValueError: no run.
        InputFileError: the file cannot be written.
    """
    made = render_report(
        runs,
        lang,
        what_if=what_if,
        varied=varied,
        refused=refused,
        remedies=remedies,
        advice=advice,
    )
    write_atomically(path, made)


def render_report(
    runs: Run | Sequence[Run | Refused],
    lang: str | None = None,
    *,
    what_if: bool = True,
    varied: Sequence[Varied] = (),
    refused: Sequence[Refused] = (),
    remedies: Sequence[Remedy] | None = None,
    advice: Explanation | None = None,
) -> str:
    """Return the report's HTML; arguments and errors as `write_report`."""
    from gpuscope.views.report.data import report_data

    given = [runs] if isinstance(runs, Run) else list(runs)
    listed = [run for run in given if isinstance(run, Run)]
    refused = (*refused, *(each for each in given if isinstance(each, Refused)))
    if not listed:
        raise InvalidValueError(Text("There is no run to report."))
    chosen = choose_language(lang)
    title = f"{listed[0].name} · {listed[0].target} · gpuscope"
    data = report_data(
        listed, chosen, what_if=what_if, varied=varied, refused=refused, remedies=remedies
    )
    if advice is not None:
        data["advice"] = explanation_document(advice)
    return page("report", data, title, chosen)


def write_explanation(explanation: Explanation, path: str | Path, lang: str | None = None) -> None:
    """Write an explanation as a page; arguments and errors as `write_report`."""
    write_atomically(path, render_explanation(explanation, lang))


def render_explanation(explanation: Explanation, lang: str | None = None) -> str:
    """Return an explanation as a page; `lang` as of `write_report`."""
    chosen = choose_language(lang)
    title = f"{explanation.title.to(chosen)} · gpuscope"
    return page("explanation", explanation_document(explanation), title, chosen)


def write_book(book: Book, path: str | Path, lang: str | None = None) -> None:
    """Write several explanations as one page; arguments and errors as `write_report`."""
    chosen = choose_language(lang)
    title = f"{book.title.to(chosen)} · gpuscope"
    write_atomically(path, page("book", book_document(book), title, chosen))


def write_claims(path: str | Path, lang: str | None = None) -> None:
    """Write all claims with their verdicts as one page; arguments and errors as `write_report`."""
    from gpuscope.learn.claims.document import claims_document

    chosen = choose_language(lang)
    title = render(Text("Claims about GPUs, checked"), chosen)
    data = claims_document()
    write_atomically(path, page("claims", data, f"{title} · gpuscope", chosen))


def page(kind: str, data: dict[str, Any], title: str, lang: str) -> str:
    """Return a page of the shipped template.

    Args:
        kind: "report", "explanation", "book" or "claims".
        data: what the page draws.
        title: of the window.
        lang: language that it opens in.
    """
    others = [each for each in LANGUAGES if each != "en"]
    whole = {
        "kind": kind,
        "version": PAGE_VERSION,
        "lang": lang,
        "strings": {each: strings(data, each) for each in others},
        kind: data,
    }
    texts = {each: own_texts(each) for each in others}
    template = files("gpuscope.views").joinpath("page", "page.html").read_text("utf-8")
    # One pass over the template, so that nothing inside the data is taken for a placeholder.
    pieces, rest = [], template
    for mark, text in (
        ("GPUSCOPE_TITLE", html.escape(title)),
        ("GPUSCOPE_TEXTS", embedded(texts)),
        ("GPUSCOPE_DATA", embedded(whole)),
    ):
        before, _, rest = rest.partition(mark)
        pieces += [before, text]
    return "".join((*pieces, rest))


def own_texts(lang: str) -> dict[str, str]:
    """Return the translations of the page's own texts, by the English ones."""
    listed = files("gpuscope.views").joinpath("page", "texts.json").read_text("utf-8")
    return {text: translated(text, lang) for text in json.loads(listed)}


def embedded(data: dict[str, Any]) -> str:
    """Return JSON that can stand inside a script element: no "<" that could end it.

    Much data is compressed: "gzip:" and base64, which a browser unpacks by itself.
    """
    text = dumps(data)
    if len(text) > COMPRESS_ABOVE:
        # No time of writing in it: equal data make equal pages.
        packed = gzip.compress(utf8(text), 6, mtime=0)
        return "gzip:" + base64.b64encode(packed).decode("ascii")
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def read_embedded(text: str) -> dict[str, Any]:
    """Return the data that `embedded` wrote.

    Args:
        text: content of the page's data element.
    """
    if text.startswith("gzip:"):
        text = gzip.decompress(base64.b64decode(text[5:])).decode("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found
