"""``python -m naysay`` is the command line."""

from naysay.cli import main

main()
