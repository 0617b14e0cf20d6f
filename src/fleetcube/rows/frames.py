"""Frames of several libraries: read by column, and returned with more columns.

Columns are read as pandas Series, which xarray needs anyway. Other frames are read through their
Arrow streams, where categories and texts are codes; Narwhals, which has no codes, would create an
object for each text.
"""

import contextlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from fleetcube.grid.errors import InputError, shown
from fleetcube.grid.plan.labels import REMARKS
from fleetcube.grid.spec.axis import Array
from fleetcube.grid.spec.values import without_unit
from fleetcube.kernels.calculus.derivatives import quantity
from fleetcube.kernels.graph.formulas import Graph


class Frame:
    """A dict of columns; other kinds of frame differ in how columns are read and added."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self.names: list[Any] = list(frame)
        sizes = {name: self._length(name) for name in self.names}
        if len(set(sizes.values())) > 1:
            lengths = ", ".join(f"{name} has {size}" for name, size in sizes.items())
            raise InputError(f"columns need equal lengths, but {lengths}; give one cell a row")
        self.rows = next(iter(sizes.values()), 0)

    def _length(self, name: Any) -> int:
        column = self.frame[name]
        if isinstance(column, str | bytes | Mapping) or not hasattr(column, "__len__"):
            raise InputError(
                f"column {name!r} = {shown(column)} is not a column; give a list or an array, and "
                "what all rows share as scenario="
            )
        return len(column)

    def column(self, graph: Graph, name: str) -> Any:
        """A column as a pandas Series; missing cells are NaN or None."""
        import pandas

        values = without_unit(graph, name, self.frame[name])
        if getattr(values, "ndim", 1) != 1:
            raise InputError(f"column {name!r} has {values.ndim} dimensions; give one cell a row")
        return values if isinstance(values, pandas.Series) else pandas.Series(values)

    def unit(self, name: str) -> Any:
        """The unit of numbers stated by the frame or the column itself."""
        return _unit(name, self.frame[name])

    def place(self, row: int) -> str:
        return f"row {row}, counted from 0"

    def with_columns(self, graph: Graph, outputs: Mapping[str, Array], remarks: str = "") -> Any:
        """The frame with columns added, and remarks if it can hold them."""
        return {**self.frame, **outputs}


class _Pandas(Frame):
    def __init__(self, frame: Any) -> None:
        self.frame, self.names, self.rows = frame, list(frame.columns), len(frame)

    def column(self, graph: Graph, name: str) -> Any:
        return self.frame[name]

    def unit(self, name: str) -> Any:
        return _unit(name, self.frame)

    def place(self, row: int) -> str:
        label = self.frame.index[row]
        label = label.item() if isinstance(label, np.generic) else label
        return super().place(row) + ("" if label == row else f" (index {shown(label)})")

    def with_columns(self, graph: Graph, outputs: Mapping[str, Array], remarks: str = "") -> Any:
        import pandas

        columns = {
            name: pandas.Categorical.from_codes(array, pandas.Index(meanings))
            if meanings
            else array
            for name, array in outputs.items()
            for meanings in [_meanings(graph, name)]
        }
        added = pandas.DataFrame(columns, index=self.frame.index, copy=False)
        whole = pandas.concat([self.frame, added], axis=1)
        units = {name: quantity(graph, name).unit for name in outputs if not _meanings(graph, name)}
        stated = self.frame.attrs.get("units", {})
        whole.attrs = self.frame.attrs | {
            "units": {**(stated if isinstance(stated, Mapping) else {}), **units}
        }
        if remarks:
            whole.attrs[REMARKS] = remarks
        return whole


class _Arrow(Frame):
    """Anything with an Arrow stream; returned as a pyarrow Table."""

    def __init__(self, frame: Any) -> None:
        import pyarrow

        self.frame = self.table = pyarrow.table(frame)
        self.names, self.rows = self.table.column_names, self.table.num_rows

    def chunks(self, name: str) -> Any:
        return self.table.column(name)

    def column(self, graph: Graph, name: str) -> Any:
        import pyarrow
        from pyarrow import types

        column = self.chunks(name)
        kind = column.type
        plain = (types.is_integer, types.is_floating, types.is_boolean, types.is_null)
        if any(is_(kind) for is_ in plain):
            return column.to_pandas()
        try:
            if types.is_dictionary(kind):
                with contextlib.suppress(ValueError):  # words that are null, or duplicated
                    return column.to_pandas()
                kind = kind.value_type
            readable = pyarrow.large_string() if types.is_string_view(kind) else kind
            column = column if column.type == readable else column.cast(readable)
            return column.dictionary_encode().to_pandas()  # no object for each row
        except pyarrow.ArrowException:
            raise InputError(
                f"column {name!r} holds {kind}; give numbers, texts or booleans"
            ) from None

    def unit(self, name: str) -> Any:
        stated = (self.table.schema.field(name).metadata or {}).get(b"units")
        return None if stated is None else stated.decode()

    def with_columns(self, graph: Graph, outputs: Mapping[str, Array], remarks: str = "") -> Any:
        import pyarrow

        table = self.table
        for name, array in outputs.items():
            column = _arrow(graph, name, array)
            unit = None if _meanings(graph, name) else {"units": quantity(graph, name).unit}
            table = table.append_column(pyarrow.field(name, column.type, metadata=unit), column)
        if remarks:
            table = table.replace_schema_metadata(
                {**(table.schema.metadata or {}), REMARKS: remarks}
            )
        return table


class _Polars(_Arrow):
    """A Polars frame, of which only the columns read are converted."""

    def __init__(self, frame: Any) -> None:
        import pyarrow  # noqa: F401

        self.frame, self.names, self.rows = frame, frame.columns, frame.height

    def chunks(self, name: str) -> Any:
        return self.frame.select(name).to_arrow().column(0)

    def unit(self, name: str) -> Any:
        return None

    def with_columns(self, graph: Graph, outputs: Mapping[str, Array], remarks: str = "") -> Any:
        import polars

        columns = [
            polars.Series(name, _arrow(graph, name, array)) for name, array in outputs.items()
        ]
        return self.frame.with_columns(
            column.cast(polars.Enum(meanings)) if meanings else column
            for column in columns
            for meanings in [_meanings(graph, column.name)]
        )


def frame_of(frame: Any) -> Frame:
    """The reader of a frame. Raises InputError for other objects."""
    import pandas

    if type(frame).__name__ == "LazyFrame":  # of Polars, whose rows are read here anyway
        frame = frame.collect()
    if isinstance(frame, pandas.DataFrame):
        return _Pandas(frame)
    if isinstance(frame, Mapping):
        return Frame(frame)
    if hasattr(frame, "__arrow_c_stream__"):
        try:
            of_polars = type(frame).__module__.partition(".")[0] == "polars"
            return _Polars(frame) if of_polars else _Arrow(frame)
        except ImportError:
            raise InputError(
                f"a {type(frame).__name__} is read through Arrow, which is not installed; run: "
                "pip install 'fleetcube[table]'"
            ) from None
        except (TypeError, ValueError, AttributeError):  # a single column also has a stream
            pass
    raise InputError(
        f"a {type(frame).__name__} is not a frame of rows; give a pandas or Polars DataFrame, "
        "an Arrow table or a dict of columns"
    )


def _meanings(graph: Graph, name: str) -> list[str]:
    """Meanings of a flag's codes, from 0 on; empty for a number."""
    return list(quantity(graph, name).doc.flags.values())


def _arrow(graph: Graph, name: str, array: Array) -> Any:
    """An output as an Arrow array, flags in words."""
    import pyarrow

    if not (meanings := _meanings(graph, name)):
        return pyarrow.array(array)
    codes = pyarrow.array(array, mask=array < 0)
    return pyarrow.DictionaryArray.from_arrays(codes, meanings)


def _unit(name: str, holder: Any) -> Any:
    """The unit in attributes: a DataArray's own, in pandas by column name."""
    units = getattr(holder, "attrs", {}).get("units")
    return units.get(name) if isinstance(units, Mapping) else units
