"""What libraries tell, each asked in a process of its own: `python -m gpuscope.doctor.probes.NAME`
prints one JSON object on its last line. A probe imports only the library that it asks."""

AHEAD: tuple[str, ...] = ("nvml", "torch_libraries", "kernel_log")
"""Probes that are started at the same time, before the checks ask for them: together they take as
long as the slowest."""
