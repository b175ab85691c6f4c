"""Operators by the loops that Inductor makes of them; what none of these holds stays a call."""

from __future__ import annotations

POINTWISE = frozenset(
    "add sub mul div neg exp exp2 expm1 log log1p log2 pow sqrt rsqrt sin cos tan tanh"
    " sigmoid silu gelu relu erf erfc leaky_relu elu celu hardtanh hardswish hardsigmoid mish"
    " softplus log_sigmoid log_sigmoid_forward log_sigmoid_backward threshold"
    " threshold_backward gelu_backward silu_backward tanh_backward sigmoid_backward"
    " hardtanh_backward hardswish_backward hardsigmoid_backward leaky_relu_backward"
    " elu_backward softplus_backward mish_backward native_dropout_backward where masked_fill"
    " eq ne gt lt ge le bitwise_and bitwise_or bitwise_xor bitwise_not logical_and logical_or"
    " logical_not clamp clamp_min clamp_max reciprocal abs sign sgn addcmul addcdiv lerp"
    " maximum minimum fmod remainder floor ceil round trunc isnan isinf isfinite isneginf"
    " isposinf signbit nan_to_num logical_xor heaviside copysign hypot xlogy logaddexp log10"
    " acos acosh asin asinh atan atanh cosh sinh erfinv lgamma logit frac hardshrink"
    " softshrink _prelu_kernel _prelu_kernel_backward fmax fmin logaddexp2 logit_backward sinc"
    " bitwise_left_shift bitwise_right_shift bucketize searchsorted eye diagonal_backward"
    " im2col pixel_shuffle pixel_unshuffle native_channel_shuffle reflection_pad1d"
    " reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d"
    " reflection_pad2d_backward avg_pool3d avg_pool3d_backward _adaptive_avg_pool2d"
    " upsample_nearest1d upsample_nearest3d upsample_bicubic2d grid_sampler_2d"
    " huber_loss_backward smooth_l1_loss_backward binary_cross_entropy_backward atan2 rsub"
    " square _to_copy clone contiguous zeros zeros_like ones ones_like full full_like"
    " new_zeros new_ones new_full arange linspace scalar_tensor cat stack constant_pad_nd"
    " slice_backward select_backward slice_scatter select_scatter triu tril flip roll repeat"
    " floor_divide glu glu_backward max_pool2d_with_indices"
    " max_pool2d_with_indices_backward avg_pool2d avg_pool2d_backward upsample_nearest2d"
    " upsample_nearest2d_backward upsample_bilinear2d nll_loss_backward mse_loss_backward"
    " binary_cross_entropy_with_logits squeeze_copy unsqueeze_copy view_copy expand_copy"
    " permute_copy transpose_copy t_copy slice_copy select_copy".split()
)
"""Operators that are one elementwise loop over their (first) result."""

RANDOM = frozenset(
    "bernoulli rand randn rand_like randn_like randint uniform normal exponential".split()
)
"""Elementwise operators that draw random numbers: never computed twice."""

WINDOWS = frozenset(
    "max_pool2d_with_indices max_pool2d_with_indices_backward avg_pool2d avg_pool2d_backward"
    " avg_pool3d avg_pool3d_backward _adaptive_avg_pool2d reflection_pad2d_backward"
    " upsample_bilinear2d upsample_bicubic2d grid_sampler_2d".split()
)
"""Elementwise operators that read several elements of an operand for each of their own."""

SHIFTING = frozenset(
    "cat stack constant_pad_nd slice_backward select_backward slice_scatter select_scatter"
    " flip roll reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d"
    " replication_pad2d replication_pad3d".split()
)
"""Elementwise operators whose operands lie elsewhere. What is written into them is computed once
for each operand: a `cat` evaluates all of its pieces for every element of the result and picks one
(`pointwise_cat`, torch/_inductor/lowering.py)."""

COMPOSITE = frozenset("_softmax _log_softmax".split())
"""Operators of which a reduction makes a row's numbers by much more work for each element than the
loop that makes the elements from them."""

OVERWRITES = frozenset("fill zero copy".split())
"""In-place operators that do not read what they overwrite."""

NORMS = frozenset(
    "native_batch_norm cudnn_batch_norm _native_batch_norm_legit _batch_norm_with_update"
    " native_group_norm native_layer_norm".split()
)
"""Forward passes of norms: mean and variance come from one (Welford) reduction."""

TWICE = COMPOSITE | NORMS | frozenset(("var", "std", "var_mean", "std_mean", "logsumexp"))
"""Operators of which a tile in registers is reduced twice: to a largest value or a mean, then to
what is summed by means of it."""

LOOK_UPS = frozenset("embedding gather index_select index".split())
"""What reads where its indices say."""

SCATTERS = frozenset(
    "index_put _index_put_impl index_copy index_add scatter scatter_add scatter_reduce".split()
)
"""Written row by row; sums by atomic additions, where eagerly indices are sorted first
(torch/_inductor/lowering.py, `index_put_impl_`)."""

SIMPLE_REDUCTIONS = frozenset(
    "sum mean prod amax amin max min argmax argmin any all var std var_mean std_mean"
    " linalg_vector_norm norm logsumexp cumsum cumprod".split()
)
"""Operators that are one reduction."""
