"""From what was done (events) to what is guaranteed (claims).

`events` says what is released and how often. `composition.epsilon` and `curve` account for it by two-sided
mixture PLD, with RDP, GDP and zCDP to compare; `calibration.calibrate_noise` finds the noise for a budget.
`plan` has budget, mechanisms and ledger; `claims`, `caveats` and `implications` say what follows;
`published` repeats the papers' formulas.
"""
