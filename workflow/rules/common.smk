# The study as one frozen value, the target lists, and what each rule depends on.

import shlex
import sys
from pathlib import Path

sys.path.insert(0, str(workflow.basedir))
# rules call the Python that runs Snakemake, whatever the caller's PATH; not part of a rule's own text
BIN = shlex.quote(str(Path(sys.executable).parent))
shell.prefix(f"set -euo pipefail; export PATH={BIN}:$PATH; ")

from dpgnn.study.driver import claim
from dpgnn.study.memory import to_prepare, to_read
from dpgnn.study.workflow import Workflow

WORKFLOW = Workflow(
    study_file=config.get("study", "config.yaml"),
    tier=config.get("tier"),
    device=config.get("device", "cpu"),
    asked=config.get("asked", ""),
)
GRAPHS, SPLITS = WORKFLOW.graphs, WORKFLOW.splits
PREPARED, RUNS = WORKFLOW.prepared, WORKFLOW.run_files
STUDY = WORKFLOW.study.name
# an out of dvc.yaml even when no entry needs a prepared sample
Path("results/prepared").mkdir(parents=True, exist_ok=True)


# one workflow at a time in a folder, however Snakemake was started
onstart:
    claim(Path(), WORKFLOW.study)


wildcard_constraints:
    study=WORKFLOW.one_of([STUDY]),
    dataset=WORKFLOW.one_of(WORKFLOW.datasets),
    setting=WORKFLOW.one_of(WORKFLOW.settings),
    entry=WORKFLOW.one_of(WORKFLOW.study.entries),
    epsilon=WORKFLOW.one_of(WORKFLOW.epsilons),
    repeat=r"\d+",
    label=WORKFLOW.one_of(WORKFLOW.labels),


def graph_files(wildcards):
    """The three files of a graph."""
    return WORKFLOW.graph_files(wildcards.dataset)


def audited_repeat(wildcards):
    """Which repeat an audit's file names; the first is not named."""
    return wildcards.again.rpartition("=")[2] or "0"
