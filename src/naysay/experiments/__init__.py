"""Runs of the paper's experiments: what to run, what came out, and tables of it.

`spec` says what a run is, `records` keeps what came out of it, `runner` does it, `tables` puts it
beside what was published. Only `runner` and what it trains with load torch.
"""
