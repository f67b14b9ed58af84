"""Convert formulas to MathML, which browsers render without a script or a request."""

import re

import griffe
from latex2mathml.converter import convert

BLOCK = re.compile(r"^ *\.\. math:: (.*?)(?=\n\s*\n|\Z)", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r":math:`(.*?)`", re.DOTALL)


class Formulas(griffe.Extension):
    """Convert LaTeX in docstrings, before Markdown interprets its underscores as emphasis."""

    def on_object(self, *, obj, **_):
        if obj.docstring:
            text = BLOCK.sub(lambda found: draw(found[1], "block"), obj.docstring.value)
            obj.docstring.value = INLINE.sub(lambda found: draw(found[1], "inline"), text)


def draw(latex, display):
    # wrapped in an element, a formula at the start of a line does not end the paragraph
    element = "div" if display == "block" else "span"
    formula = convert(" ".join(latex.split()), display=display)
    return f'<{element} class="formula">{formula}</{element}>'
