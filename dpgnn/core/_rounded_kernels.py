"""Compiled loops of `rounded_noise` over coordinates."""

from __future__ import annotations

import numpy as np
from numba import njit

# PPND16 of Wichura (1988), Algorithm AS 241: near 1/2, and in the tails down to exp(-25)
_A = (
    3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
    1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
    3.3430575583588128105e4, 2.5090809287301226727e3,
)  # fmt: skip
_B = (
    1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
    2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4,
    5.2264952788528545610e3,
)  # fmt: skip
_C = (
    1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
    3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
    2.27238449892691845833e-2, 7.74545014278341407640e-4,
)  # fmt: skip
_D = (
    1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
    1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
    1.05075007164441684324e-9,
)  # fmt: skip


@njit(inline="always")
def _polynomial(c, x):  # type: ignore[no-untyped-def]
    return (
        (((((c[7] * x + c[6]) * x + c[5]) * x + c[4]) * x + c[3]) * x + c[2]) * x + c[1]
    ) * x + c[0]


@njit(cache=True, nogil=True, error_model="numpy")
def gaussian_inverse(p, z):  # type: ignore[no-untyped-def]
    """z with Phi(z) = p, for p in (0, 1/2]; see `rounded_noise.Law`."""
    for i in range(len(p)):  # vectorises; wrong in the tails
        q = p[i] - 0.5
        x = 0.180625 - q * q
        z[i] = q * _polynomial(_A, x) / _polynomial(_B, x)
    for i in range(len(p)):
        if p[i] < 0.075:
            x = np.sqrt(-np.log(p[i])) - 1.6
            z[i] = -_polynomial(_C, x) / _polynomial(_D, x)


@njit(cache=True, nogil=True, error_model="numpy")
def halves(bits, p):  # type: ignore[no-untyped-def]
    """The smaller of U and 1 - U, at the middle of the interval given by 64 bits."""
    for i in range(len(bits)):
        upper = np.int64(bits[i]) >> 63  # -1 for U >= 1/2
        p[i] = (np.float64(np.int64(bits[i]) ^ upper) + 0.5) * 2.0**-64


@njit(cache=True, nogil=True, error_model="numpy")
def nearest(scaled, bits, half, z, ratio, limits, out):  # type: ignore[no-untyped-def]
    """out = round(scaled + ratio Z), Z of the sign of U - 1/2; returns which of them need more bits."""
    unsure, (smallest, error) = np.zeros(len(out), dtype=np.bool_), limits
    for i in range(len(out)):
        whole = np.rint(scaled[i])
        signed = z[i] if np.int64(bits[i]) >= 0 else -z[i]
        value = (scaled[i] - whole) + ratio[i] * signed
        step = np.rint(value)
        # products and sums round by less than 2^-50 of |ratio z| + 1, and |z| < 32 in the sure part
        wrong = error + 2.0**-63 / half[i] + 2.0**-45
        room = 0.5 - ratio[i] * wrong - 2.0**-50
        unsure[i] = not (abs(value - step) <= room and half[i] >= smallest)
        out[i] = whole + step
    return unsure
