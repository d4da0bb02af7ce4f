# records -> tables, figures, one page


rule report:
    input:
        records=RUNS,
        audits=AUDITS,
        attacks=ATTACKS,
    output:
        page="results/studies/{study}/report.html",
        metrics="results/studies/{study}/metrics.json",
        tables=directory("results/studies/{study}/tables"),
        figures=directory("results/studies/{study}/figures"),
    log:
        "logs/report/{study}.log",
    benchmark:
        "logs/benchmark/report/{study}.tsv"
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda w, attempt: 2000 * attempt,
        runtime=lambda w, attempt: 30 * attempt,
    params:
        study=WORKFLOW.study_file,
        tier=WORKFLOW.study.tier,
        presentation=WORKFLOW.presentation_json,
        code=WORKFLOW.report_code,
    shell:
        "python -m dpgnn report --study {params.study:q} --tier {params.tier}"
        " --results results --out results/studies/{wildcards.study} > {log} 2>&1"


# the same pages whichever study is asked for, so that one study's run leaves another's up to date
PAGES = {f"results/studies/{STUDY}/report.html"}
PAGES |= {str(path) for path in Path("results/studies").glob("*/report.html")}


rule joined_report:
    input:
        sorted(PAGES),
    output:
        "results/report.html",
    log:
        "logs/report/joined.log",
    benchmark:
        "logs/benchmark/report/joined.tsv"
    localrule: True
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda w, attempt: 2000 * attempt,
        runtime=lambda w, attempt: 30 * attempt,
    params:
        code=WORKFLOW.report_code,
    shell:
        "python -m dpgnn report --join --results results --out {output} > {log} 2>&1"
