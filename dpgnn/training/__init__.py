"""Training with and without privacy.

`dp_sgd.train` is the private loop: `gradients` clips each root's gradient (`clipping`), `noise` is added to
the sum, `loop.run_steps` steps and keeps checkpoints. `nonprivate` trains the baselines, `evaluation`
scores.
"""
