"""Reports of Nsight Compute: what its counters read of each kernel."""
