"""Training with and without privacy.

`dp_sgd.train` is the private loop: `gradients` clips each root's gradient (`clipping`), `noise` is added to
the sum, and `loop.run_steps` takes the steps and saves checkpoints. `nonprivate` trains the baselines;
`evaluation` computes metrics.
"""
