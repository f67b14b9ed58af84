"""Ask annotators: a page with one question after the other, and a database of their answers.

`naysay annotate` runs it. The server never imports torch; models are trained by a process of their
own. It needs ``pip install 'naysay[annotate]'``.
"""
