"""What a command does, without printing: fit, check, predict, export and the demo."""
