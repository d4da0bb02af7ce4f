"""A model from its bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpgnn.core.checks import require
from dpgnn.release.bundle import (
    OWN_ROWS,
    STATE,
    check_files,
    check_own,
    check_released,
    read_certificate,
    read_ids,
    read_tensors,
)
from dpgnn.release.certificate import record_in
from dpgnn.release.inputs import module_named
from dpgnn.release.model import Model
from dpgnn.release.released import Names


def load(folder: str | Path, *, module: Any = None) -> Model:
    """Read a bundle that `save` wrote; needs no graph.

    Guarantee: nothing private is read except the owner's own files, if present: rows and ids that were never
    published.

    Args:
        folder: the bundle; its checksums are compared, `dpgnn verify` checks more.
        module: the torch.nn.Module that was given to `fit`, built anew; its weights are replaced by the
            bundle's. Its class is made with the numbers of features and classes, as by `fit`. Not needed if
            `fit` was given a class or a name.

    Raises:
        ValueError: a file is missing or was changed, or the module has other tensors.
    """
    folder = Path(folder)
    stated = read_certificate(folder)
    check_files(folder, stated)
    check_own(folder)
    ids, public_ids = read_ids(folder, stated)
    names = {kind: tuple(found) for kind, found in stated["names"].items()}
    model = Model(
        record=record_in(stated),
        state=read_tensors(folder / STATE),
        kept=read_tensors(folder / OWN_ROWS) if (folder / OWN_ROWS).exists() else {},
        names=Names(**names, ids=ids, public_ids=public_ids),
        directed_graph="directed_graph" in stated,
    )
    if model.kept:  # none are read for a method that keeps none
        check_released(model)
    if module is not None:
        _stand_in(model, module)
    return model


def _made(model: Model, kind: type) -> Any:
    """A module of a class, with the numbers of features and classes filled in."""
    from dpgnn.models.modules import ModuleConfig, module_network

    facts, options = model.facts, model.entry.options
    task: Any = facts.task
    asked = ModuleConfig(
        num_features=getattr(options, "projection", None) or facts.num_features,
        num_outputs=facts.num_classes, num_hops=getattr(options, "num_hops", 1), task=task,
    )  # fmt: skip
    return module_network(asked, module_named(kind, None)["module"], {}, "").module


def _stand_in(model: Model, module: Any) -> None:
    """Use a module in place of the one that was fitted in another process."""
    from dpgnn.models.modules import check_module, name_of, stand_in

    stated = model.record.entry["options"]
    if isinstance(module, type):
        if module_named(module, None)["module"] == stated.get("module") and not stated.get(
            "module_given"
        ):
            return  # the bundle finds its class by name
        module = _made(model, module)
    rule = "be left out: the model was not fitted with a module in memory"
    require(bool(stated.get("module_given")), "module", rule, type(module).__name__)
    check_module(module, type(module).__name__)
    require(
        name_of(module) == stated["module"], "module", f"be {stated['module']}", name_of(module)
    )
    held = {f"module.{name}": tuple(t.shape) for name, t in module.state_dict().items()}
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state.items()}
    other = sorted({name for name in held | wanted if held.get(name) != wanted.get(name)})
    require(not other, "module", "have the tensors of the bundle", other, "build it as for the fit")
    stand_in(stated["module_given"], module)
