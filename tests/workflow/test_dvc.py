"""DVC versions and moves what stands between stages; after a pull neither tool reruns anything."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers import TOY, bring_compiled, planned, run_tool, write_study

from dpgnn.study import sharing
from dpgnn.study.study import load_study

SHARE = ("python", "-m", "dpgnn", "share")
SECRET = "a row of a graph that may not be handed on"


@pytest.fixture(scope="module")
def made_repository(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the finished toy study in a git repository of its own and a bare one it is pushed to.

    Paths between them are relative, so that the folder may be copied.
    """
    folder = tmp_path_factory.mktemp("repository") / "made"
    made = Path(shutil.copytree(toy, folder / "toy", symlinks=True))
    for command in (
        ("git", "init", "-q", "--bare", "../origin.git"),
        ("git", "init", "-q", "."),
        ("git", "config", "user.email", "toy@example.org"),
        ("git", "config", "user.name", "toy"),
        ("dvc", "remote", "add", "-q", "-d", "local", "../remote"),
        ("git", "add", "-A"),
        ("git", "commit", "-q", "-m", "toy"),
        ("git", "remote", "add", "origin", "../origin.git"),
        ("git", "push", "-q", "-u", "origin", "HEAD"),
    ):
        run_tool(made, *command)
    return folder


@pytest.fixture
def repository_of_toy(made_repository: Path, tmp_path: Path) -> Path:
    """A copy of the toy study's repository, beside what it is pushed to; `remote` will be DVC's."""
    return Path(shutil.copytree(made_repository, tmp_path / "made", symlinks=True)) / "toy"


def clone_of(folder: Path) -> Path:
    """A fresh clone of what was pushed, after `dvc pull`."""
    clone = folder.parent / "clone"
    run_tool(folder.parent, "git", "clone", "-q", "origin.git", str(clone))
    bring_compiled(folder, clone)
    run_tool(clone, "dvc", "pull", "-q")
    return clone


def with_another_width(entry: dict[str, Any]) -> dict[str, Any]:
    return entry | {"options": entry["options"] | {"width": entry["options"]["width"] + 1}}


def test_a_pull_in_a_fresh_clone_reruns_nothing_and_one_option_reruns_one_entry(
    repository_of_toy: Path,
) -> None:
    said = run_tool(repository_of_toy, *SHARE, "quick", "--git").stdout
    expected = "study quick, tier S: 3 records, versions committed, files pushed, commits pushed\n"
    assert said == expected
    assert run_tool(repository_of_toy, "git", "status", "--porcelain").stdout == ""
    clone = clone_of(repository_of_toy)
    assert "up to date" in run_tool(clone, "dvc", "status").stdout
    assert planned(clone) == {}

    study = TOY | {
        "entries": TOY["entries"] | {"dp_mlp": with_another_width(TOY["entries"]["dp_mlp"])}
    }
    write_study(clone, study)
    assert planned(clone) == {"train": 2, "report": 1, "joined_report": 1}
    text = run_tool(clone, "dvc", "repro").stdout
    assert "Stage 'graphs' didn't change, skipping" in text
    assert planned(clone) == {}
    assert "up to date" in run_tool(clone, "dvc", "status").stdout

    params = json.loads(run_tool(clone, "dvc", "params", "diff", "--json").stdout)
    (change,) = params["config.yaml"].items()
    assert change == ("entries.dp_mlp.options.width", {"old": 4, "new": 5, "diff": 1})
    metrics = json.loads(run_tool(clone, "dvc", "metrics", "diff", "--all", "--json").stdout)
    (values,) = metrics.values()
    cell = values["chains-s.public.dp_mlp.eps=8.accuracy"]
    assert 0 <= cell["old"] <= 1
    assert 0 <= cell["new"] <= 1


@pytest.mark.slow
def test_a_second_study_is_shared_beside_the_first(repository_of_toy: Path) -> None:
    other = TOY | {
        "name": "other",
        "epsilons": ["2"],
        "datasets": {"chains-m": {"settings": ["public"]}},
    }
    (repository_of_toy / "other.yaml").write_text(yaml.safe_dump(other))
    run_tool(repository_of_toy, *SHARE, "quick")
    run_tool(repository_of_toy, "python", "-m", "dpgnn", "run", "other.yaml")
    said = run_tool(repository_of_toy, *SHARE, "other.yaml").stdout
    assert said.startswith("study other, tier S: 2 records, versions committed")
    # the joined page has two studies now, and the first study is still up to date
    assert planned(repository_of_toy) == {}
    run_tool(repository_of_toy, *SHARE, "quick", "--git")
    clone = clone_of(repository_of_toy)
    assert "up to date" in run_tool(clone, "dvc", "status").stdout
    assert planned(clone) == planned(clone, "--config", "study=other.yaml") == {}


def test_what_may_not_be_redistributed_never_leaves(
    repository_of_toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, remote = repository_of_toy / "results", repository_of_toy.parent / "remote"
    kept = [
        results / "graphs" / "cora" / "nodes.parquet",
        results / "graphs" / "friends" / "nodes.parquet",
        results / "splits" / "cora.public.0.parquet",
        results / "prepared" / "photo.public.0" / "own-list-1234.parquet",
    ]
    for path in kept:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SECRET)
    study = load_study(repository_of_toy / "config.yaml")
    # a data set slips into what DVC is shown: it is noticed before anything is sent
    with monkeypatch.context() as patch:
        patch.setattr(sharing, "ignore_text", lambda: "__pycache__\n")
        with pytest.raises(RuntimeError, match=r"got cora, friends, photo; nothing was committed"):
            sharing.share(study, Path("config.yaml"), root=repository_of_toy)
    assert not remote.exists()

    # Snakemake remembers checksums of every file, of an own graph too (long names lie in folders)
    name = base64.urlsafe_b64encode(b"results/graphs/friends/nodes.parquet").decode()
    memory = repository_of_toy / ".snakemake" / "metadata"
    assert sharing.own_remembered(repository_of_toy) == set()
    (memory / f"@{name[:20]}").mkdir()
    (memory / f"@{name[:20]}" / name[20:]).write_text(SECRET)
    assert sharing.own_remembered(repository_of_toy) == {"friends"}
    said = sharing.share(study, Path("config.yaml"), root=repository_of_toy, push=False)
    left = "Snakemake's memory and the joined page stay here: they hold checksums of friends"
    assert said.endswith(left)
    # also by DVC's own command, without ours
    run_tool(repository_of_toy, "dvc", "push", "-q")
    sent = [path.read_bytes() for path in remote.rglob("*") if path.is_file()]
    assert len(sent) > 10
    assert not any(SECRET.encode() in content for content in sent)
    run_tool(repository_of_toy, "dvc", "checkout", "-q")
    assert all(path.read_text() == SECRET for path in kept)


def test_an_unfinished_study_is_not_shared(repository_of_toy: Path) -> None:
    record = next((repository_of_toy / "results").rglob("record.json"))
    record.unlink()
    study = load_study(repository_of_toy / "config.yaml")
    with pytest.raises(
        ValueError, match=r"must be finished .*1 of 3 records missing.*dpgnn run quick"
    ):
        sharing.share(study, Path("config.yaml"), root=repository_of_toy)


def test_a_release_and_what_was_not_shared_stay(
    repository_of_toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository_of_toy / "results" / "studies" / "hush").mkdir()
    study = load_study(repository_of_toy / "config.yaml")
    reasons = sharing._not_for_others(study, repository_of_toy)
    assert reasons == ["study hush, which is not shared"]
    write_study(repository_of_toy, TOY | {"randomness": "release"})
    study = load_study(repository_of_toy / "config.yaml")
    with pytest.raises(ValueError, match=r"study quick must be no release to be shared"):
        sharing.share(study, Path("config.yaml"), root=repository_of_toy)


def test_dvc_is_shown_only_data_whose_terms_allow_it(repository: Path) -> None:
    text = (repository / ".dvcignore").read_text()
    assert text == sharing.ignore_text(), "write it anew: see `a data set` in CONTRIBUTING.md"
    assert sharing.may_leave("digits")
    assert sharing.may_leave("ogbn-arxiv")
    for name in ("cora", "photo", "reddit2", "facebook-Rutgers89", "ogbn-products", "friends"):
        assert not sharing.may_leave(name)
        assert name not in sharing.ignore_text()


def test_raw_files_are_no_out_of_any_stage_and_dvc_deletes_no_out(repository: Path) -> None:
    stages = yaml.safe_load((repository / "dvc.yaml").read_text())["stages"]
    made = [stage.get("do", stage) for stage in stages.values()]
    outs = [out for stage in made for kind in ("outs", "metrics") for out in stage.get(kind, ())]
    assert not any(name.startswith("data/raw") for out in outs for name in out)
    assert all(out[name].get("persist") for out in outs for name in out)


def test_where_the_memory_stays_the_named_stages_come_and_nothing_is_made_again(
    repository_of_toy: Path,
) -> None:
    """The commands of docs/sharing.md for a clone of a folder that holds another study."""
    (repository_of_toy / "results" / "studies" / "unshared").mkdir()
    said = run_tool(repository_of_toy, *SHARE, "quick", "--git").stdout
    assert "Snakemake's memory and the joined page stay here" in said
    clone = repository_of_toy.parent / "clone"
    run_tool(clone.parent, "git", "clone", "-q", "origin.git", str(clone))
    bring_compiled(repository_of_toy, clone)
    stages = ("graphs", "splits", "prepared", "runs@quick", "report@quick")
    run_tool(clone, "dvc", "pull", "-q", *stages)
    status = run_tool(clone, "python", "-m", "dpgnn", "run", "config.yaml", "--status").stdout
    assert "3 runs, 3 done, 0 running" in status
    run_tool(clone, "snakemake", "--touch", "--forceall", "--config", "study=config.yaml")
    assert planned(clone, "--config", "study=config.yaml").keys() <= {"joined_report"}


def test_a_page_under_another_title_and_code_that_git_does_not_hold_are_refused(
    repository_of_toy: Path,
) -> None:
    study = load_study(repository_of_toy / "config.yaml")
    strange = repository_of_toy / "dpgnn" / "strange.py"
    strange.touch()
    with pytest.raises(ValueError, match=r"be committed before.*dpgnn/strange\.py"):
        sharing.share(study, Path("config.yaml"), root=repository_of_toy)
    strange.unlink()
    write_study(repository_of_toy, TOY | {"title": "Another title"})
    study = load_study(repository_of_toy / "config.yaml")
    with pytest.raises(ValueError, match=r"left to do: joined_report, report"):
        sharing.share(study, Path("config.yaml"), root=repository_of_toy)
