"""Real trials: variants of a workload in processes of their own, timed in turn, held equal."""

from gpuscope.advice.trial.trials import Trials

__all__ = ["Trials"]
