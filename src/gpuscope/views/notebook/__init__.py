"""Values that show themselves in a notebook: a compact card of HTML, without scripts.

`import gpuscope` registers them where IPython runs; elsewhere `html(value)` returns the card.
`inline(value)` shows the whole interactive page.
"""

from __future__ import annotations

from gpuscope.views.notebook.inline import Inline, inline
from gpuscope.views.notebook.register import SHOWN, html, load_ipython_extension, register

__all__ = ["SHOWN", "Inline", "html", "inline", "load_ipython_extension", "register"]
