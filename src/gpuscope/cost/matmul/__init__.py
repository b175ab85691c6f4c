"""Matrix products: one, many, grouped, solved.

`model` is what the operators become. `gemm` times one product by the best of the library's
`tiles` (`choice`, `machine`, `types`), `parts` says where that time goes. Of their own are `small`
products in float32, those of `few_rows`, `grouped` ones of experts, `streamed` weights of four
bits, `triangular` solves, sizes that data decides (`data_sized`), and what cuSOLVER takes apart
(`factorization`); `added_matrix` is copied first.
"""
