"""The work of each command, from files to results, without printing."""
