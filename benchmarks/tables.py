"""Tables of results: on the terminal, as Markdown in a page, as JSON."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- benchmarks:begin -->", "<!-- benchmarks:end -->"
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """One benchmark's rows; `columns` maps keys to headings; `failed`: a requirement is not met."""

    title: str
    columns: Mapping[str, str]
    rows: Sequence[Row]
    notes: Sequence[str] = field(default=())
    failed: bool = False

    def cells(self) -> list[list[str]]:
        """Headings, then one list of texts for each row."""
        body = [[shown(row.get(key)) for key in self.columns] for row in self.rows]
        return [list(self.columns.values()), *body]

    def text(self) -> str:
        cells = self.cells()
        widths = [max(len(row[k]) for row in cells) for k in range(len(self.columns))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in cells
        ]
        return "\n".join([self.title, *(lines if self.rows else []), *self.notes])

    def markdown(self) -> str:
        head, *body = (f"| {' | '.join(row)} |" for row in self.cells())
        rule = f"|{' --- |' * len(self.columns)}"
        rows = ["", head, rule, *body] if self.rows else []
        notes = ["", *self.notes] if self.notes else []
        return "\n".join([f"**{self.title}**", *rows, *notes])


def shown(value: Any) -> str:
    """A cell: numbers to three significant digits, verdicts as words, None as a dash."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "**no**"
    if isinstance(value, float):
        digits = f"{value:.3g}"
        return f"{float(digits):,.0f}" if abs(value) >= 1000 else digits
    return f"{value:,}" if isinstance(value, int) else str(value)


def markers(section: str = "") -> tuple[str, str]:
    """The lines of a page that its tables, or those of one of its sections, are between."""
    name = f"benchmarks {section}".strip()
    return BEGIN.replace("benchmarks", name), END.replace("benchmarks", name)


def has_markers(readme: Path, section: str = "") -> bool:
    """Whether a page has a place for the tables."""
    text = readme.read_text(encoding="utf-8") if readme.exists() else ""
    begin, end = markers(section)
    return begin in text and end in text.partition(begin)[2]


def write(readme: Path, preamble: str, tables: Iterable[Table], section: str = "") -> None:
    """Replace the text between the markers of a page by the tables."""
    begin, end = markers(section)
    before, _, rest = readme.read_text(encoding="utf-8").partition(begin)
    after = rest.partition(end)[2]
    parts = [preamble, *(table.markdown() for table in tables)]
    inside = "\n\n".join(parts)
    readme.write_text(f"{before}{begin}\n{inside}\n{end}{after}", encoding="utf-8")


def write_json(path: Path, machine: Mapping[str, str], tables: Mapping[str, Table]) -> None:
    """Write all numbers unrounded, keeping other tables, each with its machine."""
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    results |= {name: {"machine": machine, **asdict(table)} for name, table in tables.items()}
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
