"""One run of a study, in four steps; `execute.run_one` takes them in this order.

`specification`: what the run reads and what identifies it (configuration, code, inputs, seeds).
`plan`: mechanisms and claims from public facts only; `method_checks` checks what the method returns.
`execute`: the fit and its scores. `record`: the files of a run; `finished` keeps copies, `staging` releases,
`ledger` an entry of each by graph.
"""
