# graph -> training, validation and test nodes


rule split:
    input:
        graph_files,
    output:
        "results/splits/{dataset}.{setting}.{repeat}.parquet",
    log:
        "logs/split/{dataset}.{setting}.{repeat}.log",
    benchmark:
        "logs/benchmark/split/{dataset}.{setting}.{repeat}.tsv"
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda w, attempt: attempt * to_read(w.dataset),
        runtime=lambda w, attempt: 30 * attempt,
    params:
        setting=lambda w: WORKFLOW.setting_json(w.setting),
        seed=lambda w: WORKFLOW.study.split_seed(w.setting),
        code=WORKFLOW.split_code,
    shell:
        "python -m dpgnn split --graph results/graphs/{wildcards.dataset}"
        " --dataset {wildcards.dataset} --setting {wildcards.setting}"
        " --repeat {wildcards.repeat} --root-seed {params.seed}"
        " --setting-json {params.setting:q} --out {output} > {log} 2>&1"
