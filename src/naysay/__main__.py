"""``python -m naysay`` and ``naysay`` are the command line."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C while it still loads ends it like Ctrl-C later."""
    try:
        from naysay.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
