"""A bound on the rounding of a clipped sum in float64, as a public share of the clipping norm.

Proof (docs/accounting.md, theorem 16). Every entry of the sum is a sum of products a_t g_t of all rows of the
batch's roots, in some order, with at most `ROWS_OF_A_PRODUCT` rows in one matrix product and one
addition for each product; so it is wrong by at most gamma_m sum_t |a_t||g_t|, gamma_m = m u / (1 - m u), m
the number of operations behind an entry and u = 2^-53. The norm of all entries' errors is at most gamma_m
sum_roots S, S the spread of a root after clipping, which `clip_factors` keeps below C / SPREAD_SHARE. Both
sums are rounded, so their difference grows by at most 2 gamma_m n C / SPREAD_SHARE, n roots in the batch.
"""

from __future__ import annotations

import math

SPREAD_SHARE = 2.0**-10
ROWS_OF_A_PRODUCT = 2**16
# additions over processes, a projection of rows and the rounding of a factor
OTHER_OPERATIONS = 2**10


def rounding_share(largest_batch: int) -> float:
    """Share of the clipping norm by which rounding may separate two sums; a public power of two.

    Noise with a deviation larger by this share is as private as the planned noise over real numbers.

    Args:
        largest_batch: public bound on the number of roots in a batch, see `Batches.largest_batch`.
    """
    size = max(largest_batch, 1)
    moved = (ROWS_OF_A_PRODUCT + size + OTHER_OPERATIONS) * 2.0**-53
    share = 2.0 * moved / (1.0 - moved) * size / SPREAD_SHARE
    return float(2.0 ** math.ceil(math.log2(share)))
