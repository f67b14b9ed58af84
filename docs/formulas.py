"""Formulas of docstrings as MathML, which browsers draw themselves: no script, no request."""

import re

import griffe
from latex2mathml.converter import convert

BLOCK = re.compile(r"^ *\.\. math:: (.*?)(?=\n\s*\n|\Z)", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r":math:`(.*?)`", re.DOTALL)


class Formulas(griffe.Extension):
    """Turn LaTeX into MathML before Markdown takes its underscores for emphasis."""

    def on_object(self, *, obj, **_):
        if obj.docstring:
            text = BLOCK.sub(lambda found: draw(found[1], "block"), obj.docstring.value)
            obj.docstring.value = INLINE.sub(lambda found: draw(found[1], "inline"), text)


def draw(latex, display):
    # in an element of its own, a formula at the start of a line does not end the paragraph
    element = "div" if display == "block" else "span"
    return f"<{element}>{convert(' '.join(latex.split()), display=display)}</{element}>"
