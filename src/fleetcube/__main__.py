"""`python -m fleetcube` and the console command."""


def main() -> None:
    """Run the command line."""
    from fleetcube.cli import run

    run()


if __name__ == "__main__":
    main()
