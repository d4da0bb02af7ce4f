# claim audits of the study's private entries, one JSON each (study key `audits`)

AUDITS = WORKFLOW.audits


rule audit:
    input:
        graph_files,
        split=lambda w: f"results/splits/{w.dataset}.{w.setting}.{audited_repeat(w)}.parquet",
    output:
        "results/studies/{study}/audits/{dataset}.{setting}.{entry}.eps={epsilon}{again}.json",
    log:
        "logs/audit/{study}/{dataset}.{setting}.{entry}.eps={epsilon}{again}.log",
    benchmark:
        "logs/benchmark/audit/{study}/{dataset}.{setting}.{entry}.eps={epsilon}{again}.tsv"
    wildcard_constraints:
        again=r"(\.repeat=[1-9][0-9]*)?",
    conda:
        "../../envs/cpu.yaml"
    threads: 2
    resources:
        mem_mb=lambda w, attempt: 3000 * attempt,
        runtime=lambda w, attempt: 60 * attempt,
    params:
        study=WORKFLOW.study_file,
        repeat=audited_repeat,
        run=lambda w: WORKFLOW.run_json(w.dataset, w.setting, w.entry),
        code=lambda w: WORKFLOW.audit_code(w.entry),
    shell:
        "python -m dpgnn audit --study {params.study:q} --entry {wildcards.entry}"
        " --dataset {wildcards.dataset} --setting {wildcards.setting} --epsilon {wildcards.epsilon}"
        " --repeat {params.repeat}"
        " --processes {threads} --no-attacks --exit-zero --out {output} > {log} 2>&1"
