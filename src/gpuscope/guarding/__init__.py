"""A guard of predictions: what a project's workloads take, held against what it wrote down.

`settings` reads what to guard, `facts` takes the guarded figures of a run, `baseline` reads and
writes those that hold, `judge` says what got worse, and which operator and line did it.
"""
