"""Real runs: sensors, warm-up and timing, the profiler, and the benches of a machine's ceilings."""

from gpuscope.verb import make_callable

make_callable(__name__, "gpuscope.measure.run.measure")
