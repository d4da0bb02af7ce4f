"""Privacy accounting: from events (what was done) to claims (what is guaranteed).

`events` describes what is released and how often. `composition.epsilon` and `curve` count it by the PLD of
both directions, with RDP, GDP and zCDP for comparison; `calibration.calibrate_noise` finds the noise for a
budget. `plan` holds budget, mechanisms and ledger. `claims`, `caveats` and `implications` state what is
guaranteed. `published` has the formulas of the papers.
"""
