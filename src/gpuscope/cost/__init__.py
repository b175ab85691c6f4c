"""How long: operators become kernels with tiles, waves, traffic and time; the host has its cost."""
