# published attacks on the study's runs, one JSON per run and attack (study key `attacks`)

ATTACKS = WORKFLOW.attacks


rule attack:
    input:
        graph_files,
        split="results/splits/{dataset}.{setting}.{repeat}.parquet",
        prepared=lambda w: WORKFLOW.prepared_of(w.dataset, w.setting, w.entry, w.repeat),
        record="results/studies/{study}/runs/{dataset}.{setting}/{entry}/eps={epsilon}/{repeat}/record.json",
        model="results/studies/{study}/runs/{dataset}.{setting}/{entry}/eps={epsilon}/{repeat}/model.safetensors",
    output:
        "results/studies/{study}/attacks/{dataset}.{setting}.{entry}.eps={epsilon}.{repeat}.{attack}.json",
    log:
        "logs/attack/{study}/{dataset}.{setting}.{entry}.eps={epsilon}.{repeat}.{attack}.log",
    benchmark:
        "logs/benchmark/attack/{study}/{dataset}.{setting}.{entry}.eps={epsilon}.{repeat}.{attack}.tsv"
    wildcard_constraints:
        attack="linkteller|gmia|leak",
    conda:
        "../../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=lambda w, attempt: attempt * to_read(w.dataset),
        runtime=lambda w, attempt: 60 * attempt,
    params:
        study=WORKFLOW.study_file,
        tier=WORKFLOW.study.tier,
        run=lambda w: WORKFLOW.run_json(w.dataset, w.setting, w.entry),
        code=lambda w: WORKFLOW.attack_code(w.entry),
    shell:
        "python -m dpgnn attack --study {params.study:q} --tier {params.tier} --attacks {wildcards.attack}"
        " --run {wildcards.dataset}.{wildcards.setting}/{wildcards.entry}/eps={wildcards.epsilon}/{wildcards.repeat}"
        " --work work > {log} 2>&1"
