from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers import two_community_graph

from dpgnn.accountants.claims import Claim
from dpgnn.accountants.events import GaussianRelease
from dpgnn.accountants.implications import Notion
from dpgnn.accountants.plan import Mechanism, Plan
from dpgnn.core.storage import DamagedFileError
from dpgnn.data.files.content import structure_hash
from dpgnn.run.ledger import GraphLedger, private_folder, release_of, without_entry
from dpgnn.run.totals import TotalBudget, budgets, declare

GRAPH = two_community_graph()
EVENT = GaussianRelease(relation="add-remove", noise_stddev=2.0, sensitivity=1.0)
PLAN = Plan(
    mechanisms=(Mechanism(name="sum", event=EVENT, noise_stddev=2.0, sensitivity=1.0),),
    claims=(
        Claim(
            privacy_unit="node", relation="add-remove", epsilon=2.0, delta=1e-3, accountant="gdp",
            status="proved",
        ),
    ),
)  # fmt: skip


def entered(root: Path, name: str, structure: str) -> GraphLedger:
    ledger = GraphLedger(root, structure)
    ledger.write(root / name, release_of(name, "two", "dp_mlp", PLAN))
    return ledger


def test_a_ledger_holds_its_own_graph_alone_and_gives_back_what_was_entered(tmp_path: Path) -> None:
    ledger = entered(tmp_path, "a/b", "one")
    entered(tmp_path, "c", "another")
    entered(tmp_path, "d", "one")
    found = ledger.releases()
    assert [one.name for one in found] == ["a/b", "d"]
    assert found[0].claims == PLAN.claims
    assert found[0].mechanisms == (
        {
            "event": {
                "type": "GaussianRelease",
                "relation": "add-remove",
                "noise_stddev": 2.0,
                "sensitivity": 1.0,
            },
            "population": None,
        },
    )
    # a moved folder still counts
    (tmp_path / "a").rename(tmp_path / "moved")
    assert len(ledger.releases()) == 2


def test_a_folder_that_holds_other_things_is_not_closed(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    (shared / "notes.txt").write_text("of all")
    with pytest.raises(ValueError, match=r"folder of releases .*shared must be new or empty, got"):
        private_folder(shared / "study", shared)
    assert shared.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in shared.iterdir()] == ["notes.txt"]
    (shared / "notes.txt").unlink()
    private_folder(shared / "study", shared)
    assert shared.stat().st_mode & 0o777 == 0o700


def test_an_entry_names_its_graph_under_a_secret_key_only(tmp_path: Path) -> None:
    text = (entered(tmp_path / "x", "a", "one").root / "a" / "ledger.json").read_text()
    other = entered(tmp_path / "y", "a", "one")
    assert GraphLedger(tmp_path / "x", "one").graph in text
    assert GraphLedger(tmp_path / "x", "one").graph != other.graph
    assert "one" not in text.replace("none", "").replace("None", "")
    assert other.key != GraphLedger(tmp_path / "x", "one").key
    assert (tmp_path / "x" / "ledger.key").stat().st_mode & 0o777 == 0o600


def test_every_changed_byte_of_an_entry_is_found(tmp_path: Path) -> None:
    ledger = entered(tmp_path, "a", "one")
    path = tmp_path / "a" / "ledger.json"
    whole = path.read_bytes()
    assert ledger.releases()
    for at in range(0, len(whole), 7):
        if whole[at : at + 1].isspace():
            continue
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(DamagedFileError, match=r"a/ledger\.json must be"):
            ledger.releases()


def test_entries_without_their_key_are_no_empty_ledger(tmp_path: Path) -> None:
    entered(tmp_path, "a", "one")
    (tmp_path / "ledger.key").unlink()
    with pytest.raises(DamagedFileError, match=r"ledger\.key must be there"):
        GraphLedger(tmp_path, "one").releases()


def test_budgets_without_their_key_are_no_empty_ledger(tmp_path: Path) -> None:
    node = Notion(privacy_unit="node", relation="add-remove")
    declare(GraphLedger(tmp_path, "one"), TotalBudget(notion=node, epsilon=1.0, delta=1e-3))
    (tmp_path / "ledger.key").unlink()
    with pytest.raises(DamagedFileError, match="entries and budgets"):
        budgets(GraphLedger(tmp_path, "one"))


def test_entries_behind_links_are_counted_once_and_a_closed_folder_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "releases"
    entered(root, "api/a", "one")
    (root / "api").rename(tmp_path / "disk")
    (root / "api").symlink_to(tmp_path / "disk")
    (root / "again").symlink_to(tmp_path / "disk")
    (tmp_path / "disk" / "circle").symlink_to(root)
    assert len(GraphLedger(root, "one").releases()) == 1
    assert without_entry(root) == []

    def closed(path: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("os.scandir", closed)
    with pytest.raises(PermissionError):
        GraphLedger(root, "one").releases()


def test_hidden_labels_splits_and_another_name_are_the_same_graph_and_edges_are_not() -> None:
    known = structure_hash(GRAPH)
    hidden = replace(
        GRAPH, name="other", y=np.full(GRAPH.num_nodes, -1), num_classes=5,
        edge_index=GRAPH.edge_index[:, ::-1],
    )  # fmt: skip
    assert structure_hash(hidden) == known
    fewer = replace(GRAPH, edge_index=GRAPH.edge_index[:, GRAPH.edge_index.min(0) > 0])
    moved = np.array(GRAPH.x)
    moved[3, 2] += 1
    assert len({known, structure_hash(fewer), structure_hash(replace(GRAPH, x=moved))}) == 3


def test_releases_from_before_there_were_ledgers_are_named(tmp_path: Path) -> None:
    for name, claims in (("old", "[{}]"), ("plain", "[]")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "record.json").write_text(f'{{"claims": {claims}}}')
    assert without_entry(tmp_path) == [tmp_path / "old"]
    entered(tmp_path, "old", "one")
    assert without_entry(tmp_path) == []


def test_looking_at_an_empty_ledger_makes_nothing(tmp_path: Path) -> None:
    ledger = GraphLedger(tmp_path / "releases", "one")
    assert (ledger.releases(), budgets(ledger), without_entry(ledger.root)) == ([], [], [])
    assert list(tmp_path.iterdir()) == []
