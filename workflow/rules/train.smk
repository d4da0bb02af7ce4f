# graph, split, prepared sample -> record of one run


# by chunks below where processes make several runs; a rule that could make each of thousands of files, and never
# does, would double the time of a dry run
if not WORKFLOW.chunks:

    rule train:
        input:
            graph_files,
            split="results/splits/{dataset}.{setting}.{repeat}.parquet",
            prepared=lambda w: WORKFLOW.prepared_of(
                w.dataset, w.setting, w.entry, w.repeat
            ),
        output:
            record="results/studies/{study}/runs/{dataset}.{setting}/{entry}/eps={epsilon}/{repeat}/record.json",
            resources="results/studies/{study}/runs/{dataset}.{setting}/{entry}/eps={epsilon}/{repeat}/resources.json",
            history="results/studies/{study}/runs/{dataset}.{setting}/{entry}/eps={epsilon}/{repeat}/history.parquet",
            model="results/studies/{study}/runs/{dataset}.{setting}/{entry}/eps={epsilon}/{repeat}/model.safetensors",
            checksums="results/studies/{study}/runs/{dataset}.{setting}/{entry}/eps={epsilon}/{repeat}/checksums.sha256",
        log:
            "logs/train/{study}/{dataset}.{setting}/{entry}/eps={epsilon}/{repeat}.log",
        benchmark:
            "logs/benchmark/train/{study}/{dataset}.{setting}/{entry}/eps={epsilon}/{repeat}.tsv"
        conda:
            "../../envs/cpu.yaml"
        threads: WORKFLOW.cores_of_run
        resources:
            mem_mb=lambda w, attempt: attempt * to_read(w.dataset),
            runtime=lambda w, attempt: 240 * attempt,
            gpu=1 if WORKFLOW.device == "cuda" else 0,
        params:
            study=WORKFLOW.study_file,
            # what decides the result: the entry's own options, and the code of its method
            run=lambda w: WORKFLOW.run_json(w.dataset, w.setting, w.entry),
            code=lambda w: WORKFLOW.method_code(w.entry),
            # a function of resources is no rerun trigger: a finished run is not made again on another device
            device=lambda w, resources: WORKFLOW.device_flag,
            # what earlier versions remember of the device of a run on the CPU, so that it is not made again
            remembered="",
        shell:
            "python -m dpgnn train --study {params.study:q}"
            " --run {wildcards.dataset}.{wildcards.setting}/{wildcards.entry}/eps={wildcards.epsilon}/{wildcards.repeat}"
            "{params.device} > {log} 2>&1"


# runs_per_job > 1: one process makes several runs, each with its own record
for chunk in WORKFLOW.chunks:

    rule:
        name:
            chunk.rule
        input:
            chunk.graphs,
            splits=chunk.splits,
            prepared=chunk.prepared,
        output:
            chunk.outputs,
        log:
            chunk.log,
        benchmark:
            chunk.benchmark
        conda:
            "../../envs/cpu.yaml"
        threads: WORKFLOW.cores_of_run
        resources:
            mem_mb=lambda w, attempt, names=tuple(chunk.datasets): attempt
            * max(map(to_read, names)),
            runtime=lambda w, attempt: 240 * attempt,
            gpu=1 if WORKFLOW.device == "cuda" else 0,
        params:
            study=WORKFLOW.study_file,
            run=chunk.run_json,
            code=chunk.code,
            runs=chunk.run_flags,
            device=lambda w, resources: WORKFLOW.device_flag,
            remembered="",
        shell:
            "python -m dpgnn train --study {params.study:q} {params.runs}"
            "{params.device} > {log} 2>&1"
