"""`python -m fleetcube` and the console command."""

import gc
import sys

# Objects beyond which Python looks for garbage: it would look more than a hundred times while
# modules load, which make none, for a tenth of a short command's time
_OBJECTS = 200_000


def main() -> None:
    gc.set_threshold(_OBJECTS)
    if sys.stdout is None:
        sys.exit("fleetcube: standard output is closed; send it to a file or to /dev/null")
    from fleetcube.stop import STOPPED, Terminated, end, leave, listen

    try:
        listen()
        from fleetcube.cli import run

        run()
    except KeyboardInterrupt as stopped:  # while modules load, before cli.run handles it
        end()
        sys.stderr.write("fleetcube: stopped; nothing was kept\n")
        leave(143 if isinstance(stopped, Terminated) else 130)
    except SystemExit as ending:
        if ending.code in STOPPED:
            leave(int(ending.code))
        raise


if __name__ == "__main__":
    main()
