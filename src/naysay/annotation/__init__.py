"""Collect answers from annotators: a web page that asks questions, and a database of the answers.

The command `naysay annotate` uses this package, which needs ``pip install 'naysay[annotate]'``. The
server never imports torch: a separate process trains models.
"""
