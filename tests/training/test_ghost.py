"""A root that is not finite leaves every other root's norm alone."""

import numpy as np
import torch

from dpgnn.training import ghost


def test_a_row_that_is_not_finite_stays_out_of_the_norms_of_the_roots_beside_it():
    """Roots of three and of four rows share a bucket of four: the shorter one is padded."""
    rng = np.random.default_rng(0)
    counts = np.array([3, 4, 3, 4])
    ptr = np.concatenate([[0], np.cumsum(counts)])
    # wide enough that Gram matrices are used and no gradient is formed
    a, g = (
        torch.from_numpy(rng.standard_normal((ptr[-1], 40)).astype(np.float32)) for _ in range(2)
    )
    whole = torch.stack(ghost.root_norms(a, g, ptr))
    for value in (np.nan, np.inf):
        spoiled, spoiled_g = a.clone(), g.clone()
        spoiled[ptr[1] : ptr[2]], spoiled_g[ptr[3] : ptr[4]] = value, value
        found = torch.stack(ghost.root_norms(spoiled, spoiled_g, ptr))
        assert torch.equal(found[:, [0, 2]], whole[:, [0, 2]])
        assert not torch.isfinite(found[0, [1, 3]]).any()


def test_a_root_without_rows_has_no_norm_and_reads_no_other_root():
    """A layer on edges has none for a root without edges, also for the first and the last root."""
    rng = np.random.default_rng(0)
    for counts in ([0, 3, 0, 4, 0], [0, 1, 1, 0], [0, 0]):
        ptr = np.concatenate([[0], np.cumsum(counts)])
        a, g = (torch.from_numpy(rng.standard_normal((ptr[-1], 40))) for _ in range(2))
        found = torch.stack(ghost.root_norms(a, g, ptr))
        filled = np.array(counts) > 0
        assert (found[:, ~filled] == 0.0).all()
        if filled.any():
            expected = torch.stack(ghost.root_norms(a, g, np.concatenate([[0], ptr[1:][filled]])))
            torch.testing.assert_close(found[:, filled], expected, rtol=1e-12, atol=0.0)
            # what is not finite in the next root is not read
            spoiled = torch.stack(ghost.root_norms(a * np.nan, g * np.nan, ptr))
            assert (spoiled[:, ~filled] == 0.0).all()
