"""`python -m fleetcube.catalog`: add new records to the ledger of editions."""

import sys

from .ledger import complaints, existing, publish, published


def main() -> int:
    """Publish new records; return 1, and publish nothing, if a published record has changed."""
    try:
        wrong = complaints(published(), existing())
        new = [] if wrong else publish()
    except (OSError, ValueError) as error:
        wrong, new = [" ".join(str(error).split())], []
    for line in new:
        print(f"published {line.rsplit(' ', 1)[0]}")
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
