# Graph -> split -> prepared sample -> run record -> audits, tables, figures, report.
#
#   snakemake                                           the quick study (config.yaml)
#   snakemake --config study=workflow/studies/drw.yaml tier=M
#
# `dpgnn run STUDY --tier T` writes the second form for you.

from snakemake.utils import min_version

min_version("9.27")


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/splits.smk"
include: "workflow/rules/prepare.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/audit.smk"
include: "workflow/rules/attack.smk"
include: "workflow/rules/report.smk"


# all that is kept is named: Snakemake makes a file that is only on the way to another not again when it is lost
rule all:
    default_target: True
    input:
        RUNS,
        AUDITS,
        ATTACKS,
        f"results/studies/{STUDY}/report.html",
        "results/report.html",
    localrule: True


# one target a stage, for DVC and for clusters: snakemake graphs, splits, prepared, runs
rule graphs:
    input:
        GRAPHS,
    localrule: True


rule splits:
    input:
        SPLITS,
    localrule: True


rule prepared:
    input:
        PREPARED,
    localrule: True


rule checks:
    input:
        AUDITS,
        ATTACKS,
    localrule: True


rule runs:
    input:
        RUNS,
    localrule: True
