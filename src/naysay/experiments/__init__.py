"""Experiments of the paper: their specifications, runs, records and tables.

`spec` specifies a run, `suites` list the runs of each table, `runner` trains them, `records` stores
the results, and `tables` compares them with the published figures. Only `runner` and `train` import
torch.
"""
