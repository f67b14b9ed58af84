"""The table of methods: what each does, what it needs, and the loss it makes."""

from naysay.methods.table import (
    METHODS,
    Method,
    Setting,
    find_method,
    markdown_references,
    markdown_table,
)

__all__ = ["METHODS", "Method", "Setting", "find_method", "markdown_references", "markdown_table"]
