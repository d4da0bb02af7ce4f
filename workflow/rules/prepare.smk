# graph and split -> prepared sample; as sensitive as the graph, never noised


rule prepare:
    input:
        graph_files,
        split="results/splits/{dataset}.{setting}.{repeat}.parquet",
    output:
        table="results/prepared/{dataset}.{setting}.{repeat}/{label}.parquet",
        facts="results/prepared/{dataset}.{setting}.{repeat}/{label}.json",
        diagnostics="results/prepared/{dataset}.{setting}.{repeat}/{label}.diagnostics.json",
    log:
        "logs/prepare/{dataset}.{setting}.{repeat}/{label}.log",
    benchmark:
        "logs/benchmark/prepare/{dataset}.{setting}.{repeat}/{label}.tsv"
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda w, attempt: attempt * to_read(w.dataset),
        runtime=lambda w, attempt: 60 * attempt,
    params:
        sampler=lambda w: WORKFLOW.sampler_json(w.label),
        name=lambda w: WORKFLOW.sampler_name(w.label),
        method=lambda w: WORKFLOW.sampler_method(w.label),
        seed=WORKFLOW.study.config.root_seed,
        code=lambda w: WORKFLOW.sampler_code(w.label),
    shell:
        "python -m dpgnn prepare --graph results/graphs/{wildcards.dataset}"
        " --split {input.split} --dataset {wildcards.dataset} --setting {wildcards.setting}"
        " --repeat {wildcards.repeat} --root-seed {params.seed} --method {params.method}"
        " --sampler {params.name} --params-json {params.sampler:q} --out {output.table}"
        " > {log} 2>&1"
