"""`python -m fleetcube` and the console command."""

import sys


def main() -> None:
    """Run the command line."""
    try:
        from fleetcube.cli import run

        run()
    except KeyboardInterrupt:  # while modules were loaded
        sys.exit("fleetcube: stopped; nothing was kept")


if __name__ == "__main__":
    main()
