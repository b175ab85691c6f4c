"""A run on the terminal: one file a panel, put together in the order people read."""

from gpuscope.views.terminal.console import WIDTH, make_console
from gpuscope.views.terminal.run import render_headline, render_run

__all__ = ["WIDTH", "make_console", "render_headline", "render_run"]
