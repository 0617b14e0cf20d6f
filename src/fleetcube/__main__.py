"""`python -m fleetcube` and the console command."""

import sys


def main() -> None:
    if sys.stdout is None:
        sys.exit("fleetcube: standard output is closed; send it to a file or to /dev/null")
    from fleetcube.stop import Terminated, end, listen

    try:
        listen()
        from fleetcube.cli import run

        run()
    except KeyboardInterrupt as stopped:  # while modules load, before cli.run handles it
        end()
        sys.stderr.write("fleetcube: stopped; nothing was kept\n")
        sys.exit(143 if isinstance(stopped, Terminated) else 130)


if __name__ == "__main__":
    main()
