"""`fleetcube catalog`: kinds of records, labels of a kind, and values of a record."""

from typing import TYPE_CHECKING

import click

from fleetcube.commands.shared import complete
from fleetcube.commands.shared.say import say, say_wrapped
from fleetcube.commands.shared.table import print_table

if TYPE_CHECKING:
    from fleetcube.catalog import Record


@click.command()
@click.argument("kind", required=False, shell_complete=complete.kinds)
@click.argument("label", required=False, shell_complete=complete.labels_of_kind)
def catalog(kind: str | None, label: str | None) -> None:
    """List the catalog: its kinds, the labels of a KIND, or the values of a LABEL.

    A file of records in place of KIND lists those in it. A corrected record is a new edition;
    LABEL@1 is the first. A model's LABEL may be the path of a config.json of Hugging Face, or a
    folder that has one, as in all commands (model=./config.json).

    \b
    Example:
      fleetcube catalog gpu h100-sxm
    """
    from fleetcube import catalog as records

    if kind is None:
        rows = [[name, ", ".join(records.kind(name))] for name in records.KINDS]
        print_table(["kind", "labels"], rows)
    elif kind.endswith(".toml"):
        in_file = [label.record for label in records.own_labels([kind]).values()]
        print_table(["kind", "label", "title", "date"], [_row(r, r.kind) for r in in_file])
    elif label is None:
        listed = [*records.kind(kind).values(), *records.from_packages(kind).values()]
        foreign = any(r.origin for r in listed)
        rows = [_row(r, *([r.origin or "fleetcube"] if foreign else [])) for r in listed]
        print_table([*(["from"] if foreign else []), "label", "title", "date"], rows)
    else:
        _print_record(records.record(kind, label))


def _print_record(record: "Record") -> None:
    """Print the values of a record, its source and its edition."""
    from fleetcube.presentation.explain import readable

    say(f"{record.label}: {record.title}\n")
    for name, value in record.values.items():
        if isinstance(value, float):
            say(f"  {name:<28} {readable(value, record.unit(name), name)}")
        elif isinstance(value, dict):
            for key, row in value.items():
                cells = row if isinstance(row, tuple) else [row]
                say(f"  {name} {key:<{27 - len(name)}} {', '.join(map(str, cells)).lower()}")
        else:
            say(f"  {name:<28} {str(value).lower()}")
    say()
    say_wrapped(*(f"{n + ':':<8} {getattr(record, n)}" for n in ("source", "date", "note")))
    say(f"edition: {record.edition} (sha256 {record.digest[:16]})")
    if record.origin:
        say(f"from:    {record.origin}")


def _row(record: "Record", *before: str) -> list[str]:
    return [*before, record.label, record.title, record.date]
