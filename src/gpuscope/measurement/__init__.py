"""Real runs: sensors, warm-up and timing, the profiler, and the benches of a machine's ceilings."""
