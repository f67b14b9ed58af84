"""What everything else stands on: errors, checks of arguments, files, progress bars."""
