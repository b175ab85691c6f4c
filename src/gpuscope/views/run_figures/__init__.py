"""The figures of a run, or of several, as blocks: for `--figures DIR` and the notebook."""

from gpuscope.views.run_figures.figures import run_figures, runs_figures, sweep_figures

__all__ = ["run_figures", "runs_figures", "sweep_figures"]
