"""Names of ATen's elementwise operators, as a plain table (torch's own `pointwise` tag, 2.13).

Written down rather than asked from torch, because costing a program must not import it. Groups
differ in the arithmetic of one element; names are without "aten::" and without the trailing
underscore of the in-place form.
"""

from __future__ import annotations

CHEAP = (
    "__and__", "__or__", "__xor__", "__lshift__", "__rshift__", "__ilshift__", "__irshift__",
    "__iand__", "__ior__", "__ixor__", "_conj_physical", "abs", "absolute", "add", "addcmul",
    "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "ceil", "clamp", "clamp_max", "clamp_min", "clip", "complex", "conj_physical",
    "copysign", "deg2rad", "eq", "fix", "floor", "fmax", "fmin", "frac", "ge", "greater",
    "greater_equal", "gt", "hardshrink", "hardshrink_backward", "hardsigmoid",
    "hardsigmoid_backward", "hardswish", "hardswish_backward", "hardtanh", "hardtanh_backward",
    "heaviside", "isclose", "isfinite", "isin", "isinf", "isnan", "isneginf", "isposinf", "isreal",
    "ldexp", "le", "leaky_relu", "leaky_relu_backward", "lerp", "less", "less_equal",
    "logical_and", "logical_not", "logical_or", "logical_xor", "lt", "maximum",
    "minimum", "mul", "multiply", "nan_to_num", "native_dropout_backward", "ne", "neg", "negative",
    "nextafter", "not_equal", "polar", "positive", "prelu", "_prelu_kernel",
    "_prelu_kernel_backward", "rad2deg", "real", "relu", "relu6", "round", "rrelu", "rsub",
    "rrelu_with_noise", "rrelu_with_noise_backward", "sgn", "sign", "signbit", "softshrink",
    "softshrink_backward", "square", "sub", "subtract", "threshold", "threshold_backward", "trunc",
    "view_as_complex_copy", "view_as_real_copy", "where", "_masked_scale",
)  # fmt: skip
"""A few instructions an element: memory sets the time of a large, dense call."""

TRANSCENDENTAL = (
    "addcdiv", "atan2", "celu", "cos", "div", "divide", "elu", "elu_backward", "exp", "exp2",
    "expm1", "float_power", "floor_divide", "fmod", "frexp", "glu", "glu_backward", "hypot",
    "log", "log10", "log1p", "log2", "log_sigmoid_forward", "log_sigmoid_backward", "logaddexp",
    "logaddexp2", "logit", "logit_backward", "pow", "reciprocal", "remainder", "rsqrt", "sigmoid",
    "sigmoid_backward", "silu", "silu_backward", "sin", "sinc", "softplus", "softplus_backward",
    "sqrt", "tan", "tanh", "tanh_backward", "true_divide", "xlogy", "special_xlog1py",
)  # fmt: skip
"""A division, root or exponential an element (multifunction unit and a few more)."""

HEAVY = (
    "acos", "acosh", "angle", "asin", "asinh", "atan", "atanh", "cosh", "erf", "erfc", "erfinv",
    "gcd", "gelu", "gelu_backward", "lcm", "mish", "mish_backward", "selu", "sinh",
    "special_entr", "special_erfcx", "special_expit", "special_log_ndtr", "special_ndtr",
    "special_ndtri", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "arctan2",
)  # fmt: skip
"""A polynomial or several exponentials an element."""

SPECIAL = (
    "digamma", "i0", "igamma", "igammac", "lgamma", "mvlgamma", "polygamma", "special_airy_ai",
    "special_bessel_j0", "special_bessel_j1", "special_bessel_y0", "special_bessel_y1",
    "special_chebyshev_polynomial_t", "special_chebyshev_polynomial_u",
    "special_chebyshev_polynomial_v", "special_chebyshev_polynomial_w",
    "special_hermite_polynomial_h", "special_hermite_polynomial_he", "special_i0e", "special_i1",
    "special_i1e", "special_laguerre_polynomial_l", "special_legendre_polynomial_p",
    "special_modified_bessel_i0", "special_modified_bessel_i1", "special_modified_bessel_k0",
    "special_modified_bessel_k1", "special_scaled_modified_bessel_k0",
    "special_scaled_modified_bessel_k1", "special_shifted_chebyshev_polynomial_t",
    "special_shifted_chebyshev_polynomial_u", "special_shifted_chebyshev_polynomial_v",
    "special_shifted_chebyshev_polynomial_w", "special_spherical_bessel_j0", "special_zeta",
)  # fmt: skip
"""Series or recurrences of dozens of steps an element."""


def operators(names: tuple[str, ...]) -> tuple[str, ...]:
    """Full names of the plain and the in-place form."""
    return tuple(f"aten::{name}{tail}" for name in names for tail in ("", "_"))
