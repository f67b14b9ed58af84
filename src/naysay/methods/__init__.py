"""The table of methods, with what each does, what it needs and which loss it uses."""

from naysay.methods.table import (
    METHODS,
    Method,
    Setting,
    find_method,
    markdown_references,
    markdown_table,
)

__all__ = ["METHODS", "Method", "Setting", "find_method", "markdown_references", "markdown_table"]
