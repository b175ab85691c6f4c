"""Reads PyTorch memory snapshots (`torch.cuda.memory._dump_snapshot`) without running them."""

from gpuscope.timeline.snapshot.read import DeviceMemory, OutOfMemory, Snapshot, read_snapshot

__all__ = ["DeviceMemory", "OutOfMemory", "Snapshot", "read_snapshot"]
