"""Errors, checks of arguments, file writing and progress bars, used by all other packages."""
