# claim audits of the study's private entries, one JSON each (study key `audits`)

AUDITS = WORKFLOW.audits


rule audit:
    input:
        graph_files,
        split="results/splits/{dataset}.{setting}.0.parquet",
    output:
        "results/studies/{study}/audits/{dataset}.{setting}.{entry}.eps={epsilon}.json",
    log:
        "logs/audit/{study}/{dataset}.{setting}.{entry}.eps={epsilon}.log",
    benchmark:
        "logs/benchmark/audit/{study}/{dataset}.{setting}.{entry}.eps={epsilon}.tsv"
    conda:
        "../../envs/cpu.yaml"
    threads: 2
    resources:
        mem_mb=lambda w, attempt: 3000 * attempt,
        runtime=lambda w, attempt: 60 * attempt,
    params:
        study=WORKFLOW.study_file,
        run=lambda w: WORKFLOW.run_json(w.dataset, w.setting, w.entry),
        code=lambda w: WORKFLOW.audit_code(w.entry),
    shell:
        "python -m dpgnn audit --study {params.study:q} --entry {wildcards.entry}"
        " --dataset {wildcards.dataset} --setting {wildcards.setting} --epsilon {wildcards.epsilon}"
        " --processes {threads} --no-attacks --exit-zero --out {output} > {log} 2>&1"
