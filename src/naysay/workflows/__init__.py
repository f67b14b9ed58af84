"""The jobs of the commands, from files to results, without printing."""
