"""What Inductor, the compiler behind `torch.compile`, does with operators, as rules on a `Program`.

`lowering` says what loops an operator of one of the `operator_sorts` becomes, `values` who makes
and reads which data, `partition` what the backward pass computes again instead of reading it,
`padding` which matrix products get aligned operands, `grouping` which loops share a kernel,
`emission` writes the result down. `gpuscope.program.fusion.fuse` runs them.
"""
