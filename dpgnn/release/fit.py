"""`fit`: a model from a graph in memory, by the plan and code of a study's runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpgnn import methods
from dpgnn.core.checks import at_least, one_of, positive, require
from dpgnn.core.paths import RELEASES
from dpgnn.methods.base import Performance
from dpgnn.release.inputs import inputs_of, module_named
from dpgnn.release.model import Model
from dpgnn.run.account import Answer, Question, answer
from dpgnn.run.execute import Made, make
from dpgnn.run.record import Clock, identified
from dpgnn.run.specification import Specification, specify
from dpgnn.run.staging import place_of_call

if TYPE_CHECKING:
    from dpgnn.audits.findings import Finding
    from dpgnn.methods.entry import Mode

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"  # form of a graph's name, which is part of the path of its releases


def fit(
    data: Any,
    *,
    method: str = "dp_gnn",
    module: Any = None,
    module_options: Mapping[str, Any] | None = None,
    epsilon: float = 4.0,
    delta: float | None = None,
    unit: str | None = None,
    relation: str | None = None,
    mode: Mode = "sound",
    population: int | tuple[int, int] | None = None,
    num_classes: int | None = None,
    classes: Sequence[str] = (),
    features: Sequence[str] = (),
    ids: Sequence[str] = (),
    public_ids: bool = False,
    directed_graph: bool = False,
    seed: int | None = None,
    name: str = "data",
    releases: str | Path | None = None,
    device: str = "cpu",
    num_threads: int = 1,
    options: Mapping[str, Any] | None = None,
    **more_options: Any,
) -> Model:
    """Fit a private node classifier.

    Guarantee: `claim` of the returned model. Which nodes are training nodes is public. Each call without
    `seed` is a new release, which enters the graph's ledger before the model is returned; several models of a
    graph together cost at most the sum of their epsilons and deltas.

    Args:
        data: a PyG `Data`: x, edge_index, y (-1 where unlabelled), train_mask; val_mask and test_mask if any.
        method: a name of the table of methods, or its title (DP-GNN).
        module: a torch.nn.Module that replaces DP-GNN's network, its class, or the class's name
            `package.module:Class`. forward maps (x, edge_index) of a root's tree, row 0 the root, to logits.
            A module is trained from its own weights, which are public; the fit uses a copy.
        module_options: arguments of the class; numbers of features and classes are filled in.
        epsilon: the budget; > 0.
        delta: in (0, 1); None is 1/(10 nodes) for node units.
        unit: what neighbouring graphs differ in; None takes the method's first.
        relation: how they differ; None takes the method's first for the unit.
        mode: sound, published or nonprivate.
        population: public numbers (nodes, training nodes), or one number for both. Without them, a plan under
            add-remove counts the graph, and the claim says so.
        num_classes: public number of classes; None counts `classes` or, without any, the labels.
        classes, features: names that may be published with the model.
        ids: names of the nodes, used in tables for prediction; kept private.
        public_ids: the ids may be published with the model, which reveals who is in the graph.
        directed_graph: whether edges are directed; otherwise reverse edges are added.
        seed: gives a reproducible model, which must not be released; None draws in secret.
        name: of the graph, in messages and in its ledger.
        releases: folder of the ledgers; None is $DPGNN_RELEASES, or releases/ of the working folder.
        device: cpu or cuda.
        num_threads: of this fit.
        options: the method's own, nested or dotted: `{"training.num_steps": 100}`.
        more_options: further options; those with a name used above go into `options`.

    Raises:
        ValueError: the data, an option, the unit or the budget is wrong, nothing meets the budget, or a total
            budget of the graph does not allow it.
    """
    _check_asked(epsilon, device, num_threads, name, {} if options is None else options)
    inputs, named = inputs_of(
        data, method=methods.name_of(method), epsilon=epsilon, delta=delta, unit=unit,
        relation=relation, mode=mode, population=population, num_classes=num_classes, classes=classes,
        features=features, directed_graph=directed_graph, seed=seed, name=name,
        performance=Performance(device=device, num_threads=num_threads),
        options={**(options or {}), **more_options, **module_named(module, module_options)},
    )  # fmt: skip
    count = inputs.graph.num_nodes
    require(len(ids) in (0, count), "ids", f"name each of the {count} nodes", len(ids))
    names = replace(named, ids=tuple(ids), public_ids=public_ids)
    with _threads(num_threads):
        made = _make(specify(inputs), Path(releases or RELEASES))
    if made.fitted is None:
        raise ValueError(made.record.reason)
    fitted = identified(made.fitted, inputs.graph)
    return Model(record=made.record, state=dict(fitted.state), kept=dict(fitted.kept), names=names,
                 directed_graph=inputs.graph.directed)  # fmt: skip


def _check_asked(epsilon: float, device: str, num_threads: int, name: str, options: Any) -> None:
    import torch

    positive("epsilon", epsilon)
    one_of("device", device, ("cpu", "cuda"))
    there = device == "cpu" or torch.cuda.is_available()
    require(there, "device", "be here", device, "take cpu, or a torch that was built for CUDA")
    at_least("num_threads", num_threads, 1)
    require(bool(re.fullmatch(NAME, name)), "name", f"match {NAME}", name)
    require(isinstance(options, Mapping), "options", "be a mapping of names to values", options)


@contextmanager
def _threads(number: int) -> Iterator[None]:
    """As many threads of torch's for a while."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _make(run: Specification, releases: Path) -> Made:
    """Make the run; a release enters its graph's ledger before it is returned."""
    if not run.is_private_release:
        return make(run, None, Clock())
    place = place_of_call(run, releases)
    with place.held():
        made = make(run, None, Clock(), lambda plan: place.begin(plan, run.inputs))
        if made.fitted is not None:
            place.commit()
    return made


def account(
    method: str,
    *,
    delta: float,
    nodes: int,
    training: int | None = None,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    num_steps: int | None = None,
    unit: str | None = None,
    relation: str | None = None,
    mode: Mode = "sound",
    options: Mapping[str, Any] | None = None,
) -> Answer:
    """Noise, steps or epsilon of a method by its own plan; needs no data.

    Guarantee: the answer holds for the method's unit and relation, with the given public numbers; no data is
    read.

    Args:
        method: a name of the table of methods, or its title.
        delta: in (0, 1).
        nodes, training: public numbers of nodes and of training nodes (None: all).
        epsilon, noise_multiplier, num_steps: two are given, the third is computed; see `dpgnn account`.
        unit, relation, mode, options: as for `fit`.

    Returns:
        noise, steps and epsilon, with the claims and the accountant; prints like `dpgnn account`.

    Raises:
        ValueError: too few or too many values are given, or nothing meets the budget.

    Source: the method's own plan; docs/accounting.md.
    """
    from dpgnn.methods.base import Facts

    training = nodes if training is None else training
    at_least("training", training, 1)
    at_least("nodes", nodes, training)
    facts = Facts(
        num_nodes=nodes, num_train=training, num_features=1, num_classes=2, task="multiclass",
        declared=True,
    )  # fmt: skip
    return answer(
        Question(
            method=methods.name_of(method), facts=facts, delta=delta, mode=mode, privacy_unit=unit,
            relation=relation, options=options or {}, noise_multiplier=noise_multiplier,
            num_steps=num_steps, target_epsilon=epsilon,
        )
    )  # fmt: skip


def audit(
    model: Model, *, runs: int = 400, steps: int = 64, seed: int = 0, processes: int = 1
) -> tuple[Finding, ...]:
    """Test the model's claim by its code on small constructed graphs; needs no data.

    Guarantee: for unit and relation of the model's first claim, the claim test accuses a correct mechanism
    with probability at most 0.1 %, and so do the exact tests. The data of the fit are not read.

    Args:
        model: a private one.
        runs: for each of two neighbouring graphs and each mechanism; >= 8.
        steps: largest number of steps of one run.
        seed: of the audit.
        processes: that share the runs.

    Returns:
        a finding for each mechanism and test.

    Raises:
        ValueError: the model is not private.

    Source: docs/audits.md.
    """
    from dpgnn.accountants.plan import Budget
    from dpgnn.audits.entry_audit import audit as audit_entry
    from dpgnn.audits.request import AuditRequest

    budget = model.record.budget
    return audit_entry(
        AuditRequest(
            entry=model.entry,
            budget=Budget(epsilon=float(budget["target_epsilon"]), delta=float(budget["delta"])),
            facts=model.facts,
            root_seed=seed,
            num_runs=runs,
            max_steps=steps,
            num_processes=processes,
            randomness=model.record.randomness["kind"],
        )
    )
