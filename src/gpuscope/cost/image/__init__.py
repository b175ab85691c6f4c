"""Pictures: `pooling` (`pool_last`: channels last), interpolation and unfolding (`resample`,
`resample_planes`, `resample_gradient`), reading at given places (`grid_sample`).
"""
