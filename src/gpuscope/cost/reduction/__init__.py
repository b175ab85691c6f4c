"""Reductions: `model` is what the operators become, `plan` how ATen cuts them, `threads` what they
issue, `workspace` what they borrow. Beside them `softmax`, `loss` (and its walks, `ctc`), distances
of points (`distance`) and running totals (`scan`).
"""
