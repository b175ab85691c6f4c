"""Pipelines: which rank runs what, when, and the programs that come of it.

`orders` and `script` say what each rank does in which order, `stage_step` runs one stage for the
capture, `blocks` takes it apart, `compose` makes the step of a rank, `bundles` a short one of long
blocks; `decoder_stages` and `job_programs` do all that for ready-made models.
"""
