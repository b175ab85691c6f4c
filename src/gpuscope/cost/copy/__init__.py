"""Copies: within the device (`model`), many into one (`concat`), to float8 (`cast`), over the
host's link (`transfer`).
"""
