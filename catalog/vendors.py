"""Vendors of chips, and those on whose chips software trains."""

import functools
from collections.abc import Mapping, Sequence
from importlib.resources import files

from .entry import Record
from .files import parse_toml

PATH = files(__package__).joinpath("data", "vendors.toml")


@functools.cache
def of_software() -> Mapping[str, Sequence[str]]:
    """The vendors on whose chips software trains, by its label."""
    tables = parse_toml(PATH.read_text(encoding="utf-8"))
    return {label: tuple(table["vendors"]) for label, table in tables.items()}


def vendor(gpu: Record) -> str:
    """The vendor of a chip, the first word of its title; empty if no software names it."""
    first = gpu.title.partition(" ")[0]
    return first if any(first in vendors for vendors in of_software().values()) else ""
