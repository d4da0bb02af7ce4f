# raw files -> validated graph (Parquet)


rule graph:
    output:
        nodes="results/graphs/{dataset}/nodes.parquet",
        edges="results/graphs/{dataset}/edges.parquet",
        meta="results/graphs/{dataset}/graph.json",
        checksums="results/graphs/{dataset}/checksums.sha256",
    log:
        "logs/graph/{dataset}.log",
    benchmark:
        "logs/benchmark/graph/{dataset}.tsv"
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda w, attempt: attempt * to_prepare(w.dataset),
        runtime=lambda w, attempt: 60 * attempt,
    params:
        folder=lambda w: f"results/graphs/{w.dataset}",
        seed=lambda w: WORKFLOW.graph_seed(w.dataset),
        code=lambda w: WORKFLOW.graph_code(w.dataset),
    shell:
        "python -m dpgnn data prepare {wildcards.dataset} --out {params.folder}"
        " --root-seed {params.seed} > {log} 2>&1"
