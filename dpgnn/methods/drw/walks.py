"""The subgraphs of a DRW run by step: from walks or chains to clipped sums and batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.data.graph import arcs_of
from dpgnn.methods.drw.data import Inputs, first_hop
from dpgnn.methods.drw.options import resolved
from dpgnn.samplers.adjacency import Adjacency, induced_adjacency
from dpgnn.samplers.walks import Partition, Walks, partition_from_table, record_chains
from dpgnn.training.step_gradients import LossOfStep

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split
    from dpgnn.methods.base import Context, Entry, Prepared
    from dpgnn.models.network import Network
    from dpgnn.training.clipping import Clipping
    from dpgnn.training.gradients import RootGradients


def training_graph(graph: Graph, split: Split) -> Adjacency:
    """The graph induced by the training nodes, for walks."""
    return induced_adjacency(
        arcs_of(graph, symmetrize=True), num_nodes=graph.num_nodes, node_idx=split.train_idx
    )


class RunWalks(LossOfStep):
    """Subgraphs of a run as clipped sums and batches; those of DRW-D change from step to step.

    Drawing t depends only on the stream `resample/t`, so a stopped run resumes with the same walks.
    """

    def __init__(
        self,
        entry: Entry,
        graph: Graph,
        split: Split,
        prepared: Prepared | None,
        x: Any,
        context: Context,
        network: Network,
    ) -> None:
        self.entry, self.graph, self.split, self.x = entry, graph, split, x
        self.config = resolved(entry)
        self.prepared, self.context, self.network = prepared, context, network
        self.clipping = None
        self._for_release = False
        self._drawing = -1
        self._space: Adjacency | None = None
        if self.config.sampler == "walks":
            self._space = training_graph(graph, split)

    def before_step(self, step: int) -> None:
        """Make the subgraphs of this step (1, 2, ...) the current ones."""
        every = self.config.resample_every
        drawing = (step - 1) // every if every else 0
        if drawing == self._drawing:
            return
        self._drawing = drawing
        self.current = self.gradients_of(self._inputs(drawing), self.clipping)
        if self._for_release:
            self.current.sum_for_release()

    def sum_for_release(self) -> None:
        """Sum the subgraphs of this step and of all later ones in float64."""
        self._for_release = True
        self.current.sum_for_release()

    @property
    def are_drawn(self) -> bool:
        """Whether subgraphs are walks; own lists and single nodes are not drawn."""
        return self._space is not None

    def counts(self, num_steps: int) -> list[int]:
        """Walks in every drawing of a run; drawn again after a restart."""
        every = self.config.resample_every
        drawings = (num_steps - 1) // every + 1 if every else 1
        return [self._partition(drawing).num_subgraphs for drawing in range(drawings)]

    def gradients_of(self, inputs: Inputs, clipping: Clipping | None) -> RootGradients:
        """Clipped (or plain) sums over the subgraphs."""
        from dpgnn.training.gradients import Execution, RootGradients

        speed = self.context.performance
        execution = Execution(device=speed.device, chunk_rows=speed.chunk_size)
        return RootGradients(
            self.network, inputs.x, inputs.trees, clipping=clipping, execution=execution
        )

    def first_inputs(self) -> Inputs:
        """The subgraphs of the prepared file."""
        return self._inputs(0)

    def _inputs(self, drawing: int) -> Inputs:
        from dpgnn.models.trees import lone_roots, trees_of
        from dpgnn.samplers.subgraphs import from_table

        config, y = self.config, self.graph.y
        if config.sampler == "nodes":
            train = self.split.train_idx
            trees = lone_roots(np.arange(len(train)), y[train])
            return Inputs(x=self.x[train], trees=trees)
        if config.sampler == "own-list":
            assert self.prepared is not None
            bound = record_chains(config.num_layers).promise.max_occurrences
            subgraphs = from_table(self.prepared.table, max_occurrences=bound)
        else:
            assert self._space is not None
            subgraphs = self._partition(drawing).subgraphs(self._space, inside=config.edges)
        trees = trees_of(subgraphs, y, num_hops=config.num_layers, conv=config.conv)
        return first_hop(trees, self.x)

    def _partition(self, drawing: int) -> Partition:
        if drawing == 0:
            assert self.prepared is not None
            return partition_from_table(self.prepared.table)
        assert self._space is not None
        walks = Walks(length=self.config.walk_length, num_walks=self.config.num_restarts)
        return walks.draw(self._space, rng=self.context.streams.numpy(f"resample/{drawing}"))


class BatchesOfWalks:
    """Batches of a step's walks: m of them without replacement, or each with a fixed rate.

    Args:
        walks: of the run.
        size: m; None draws each walk with `rate`.
        planned_size: public mean size where the number of training nodes may be private, see
            `PoissonBatches`.
    """

    def __init__(
        self,
        walks: RunWalks,
        *,
        size: int | None,
        rate: float | None,
        planned_size: float | None = None,
    ) -> None:
        self.walks, self.size, self.rate, self.planned_size = walks, size, rate, planned_size

    @property
    def num_roots(self) -> int:
        """Walks of this step."""
        return self.walks.num_roots

    @property
    def largest_batch(self) -> int:
        """A bound for every step: no step has more walks than training nodes times restarts.

        With a planned size of that size alone; otherwise the number of training nodes is public.
        """
        from dpgnn.samplers.batches import poisson_tail, room_for

        if self.size is not None:
            return self.size
        if self.planned_size is not None:
            return room_for(self.planned_size)
        assert self.rate is not None
        most = len(self.walks.split.train_idx) * max(self.walks.config.num_restarts, 1)
        return min(most, poisson_tail(most * self.rate))

    def draw(self, *, rng: np.random.Generator) -> np.ndarray:
        """int64 positions, ascending."""
        from dpgnn.samplers.batches import FixedSizeBatches, PoissonBatches

        if self.rate is not None:
            return PoissonBatches(self.num_roots, self.rate).draw(rng=rng)
        assert self.size is not None
        return FixedSizeBatches(self.num_roots, self.size).draw(rng=rng)
