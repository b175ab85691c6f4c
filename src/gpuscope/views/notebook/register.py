"""Which values show themselves as a card, and how IPython learns of it.

Types are registered by name, so that nothing is imported before a value is shown; the rooms that
define them know nothing of views.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from gpuscope.document.text import Text

SHOWN: Mapping[tuple[str, str], str] = {
    ("gpuscope.analysis.compare", "Comparison"): "comparison_card",
    ("gpuscope.hardware.device", "Device"): "device_card",
    ("gpuscope.hardware.cluster", "Cluster"): "cluster_card",
    ("gpuscope.document.blocks", "Explanation"): "explanation_card",
    ("gpuscope.run.types", "Run"): "run_card",
}
"""(module, class) -> the function of `gpuscope.views.notebook.cards` that shows it."""


def html(value: Any, lang: str | None = None) -> str:
    """Return the card of a value as HTML: a fragment that needs no script and no network.

    Args:
        value: a `Run`, `Comparison`, `Device`, `Cluster` or `Explanation`.
        lang: "en" or "zh"; None: as the environment says.

    Raises:
        InvalidValueError: no card for such a value.
    """
    from gpuscope.errors import InvalidValueError
    from gpuscope.views.i18n import choose_language

    kind = type(value)
    function = SHOWN.get((kind.__module__, kind.__qualname__))
    if function is None:
        raise InvalidValueError(
            Text("There is no card for a {name}.", name=kind.__name__),
            "",
            Text("Cards are there for: {names}.", names=", ".join(name for _, name in SHOWN)),
        )
    cards = import_module("gpuscope.views.notebook.cards")
    return str(getattr(cards, function)(value, choose_language(lang)))


def register(shell: Any) -> None:
    """Tell an IPython shell how to show our values.

    Args:
        shell: an `IPython.core.interactiveshell.InteractiveShell`.
    """
    formatter = shell.display_formatter.formatters["text/html"]
    for module, name in SHOWN:
        formatter.for_type_by_name(module, name, html)


def register_here() -> None:
    """Register with the IPython shell that runs this process, if there is one."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None:
        register(shell)


def load_ipython_extension(shell: Any) -> None:
    """Entry of `%load_ext gpuscope.views.notebook`."""
    register(shell)
