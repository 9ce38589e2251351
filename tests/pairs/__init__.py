"""Programs as statisticians write them, each with a real table or simulated data.

``NAME.stan`` is the program, `pairs.tables` or `pairs.simulated` makes its data, `pairs.cases`
lists both, `pairs.child` makes one fit, and `pairs.outcomes` says what came of it.
"""
