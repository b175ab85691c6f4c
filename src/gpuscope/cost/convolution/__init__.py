"""Convolutions: the forward pass, the data gradient and the weight gradient.

`model` is what the operators become. `shape` says which product a pass is, `choice` which sort of
kernel cuDNN takes for it: `product` (tensor cores, with `padding`, `few` channels and `packed` or
sliced `groups`), `wgrad_tiles` (its gradient kernel that adds tiles up), `transformed` (Fourier
and Winograd), `direct`, `direct_results`, `engine` and `group_lanes` (vector lanes), `depthwise`
with its `depthwise_forms`. Around it `layout` and `convert` copy tensors, `bias` adds and
`stream` moves; `workspace` is the memory borrowed meanwhile, `features` what the learned residual
sees.
"""
