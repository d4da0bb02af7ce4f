"""Node features on a device, dense or sparse, with an additional row of zeros."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor


class Features:
    """Rows of x on a device.

    Args:
        x: dense float32, or scipy CSR without duplicate entries, shape (num_nodes, num_features).
        device: where they are copied, once.

    Attributes:
        blank: position of the row of zeros.
    """

    def __init__(self, x: Any, device: torch.device) -> None:
        self.blank, self.width = x.shape
        self.dense: Tensor | None = None
        if isinstance(x, np.ndarray):
            self.dense = torch.zeros(self.blank + 1, self.width, device=device)
            with warnings.catch_warnings():
                # a graph's arrays are read-only; nothing here writes, and a copy might not fit into memory
                warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
                self.dense[: self.blank].copy_(torch.from_numpy(x))
            return
        self._longest = int(np.diff(x.indptr).max(initial=0))
        # the row of zeros has no entry; padding reads one additional entry
        ptr = np.append(x.indptr.astype(np.int64), np.int64(x.indptr[-1]))
        self._ptr = torch.from_numpy(ptr).to(device)
        self._column = torch.from_numpy(np.append(x.indices.astype(np.int64), 0)).to(device)
        self._value = torch.from_numpy(np.append(x.data, np.float32(0))).to(device)

    def rows(self, node: Tensor, dtype: torch.dtype) -> Tensor:
        """Rows, dense, shape (len(node), width); `blank` gives zeros.

        Args:
            node: int64 positions.
            dtype: of the rows.
        """
        if self.dense is not None:
            return self.dense.index_select(0, node).to(dtype)
        num_rows = len(node)
        first = self._ptr[node]
        step = torch.arange(self._longest, device=node.device)
        outside = step >= (self._ptr[node + 1] - first)[:, None]
        entry = (first[:, None] + step).masked_fill(outside, len(self._value) - 1)
        start = torch.arange(num_rows, device=node.device)[:, None] * self.width
        # padding writes 0 behind the last row
        place = (start + self._column[entry]).masked_fill(outside, num_rows * self.width)
        out = torch.zeros(num_rows * self.width + 1, dtype=dtype, device=node.device)
        out.scatter_(0, place.flatten(), self._value[entry].to(dtype).flatten())
        return out[:-1].view(num_rows, self.width)
