"""One test over a table: tries every row, and names those that fail."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from . import memory

only = ""  # part of the names of rows to try, from `pytest --only NAME`


def each(names: str | tuple[str, ...], rows: Iterable[Any], ids: Any = None) -> Any:
    """`pytest.mark.parametrize` as one test: cheap rows cost more to collect than to try."""
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table: dict[str, dict[str, Any]] = {}
    for number, row in enumerate(rows):
        values = row.values if hasattr(row, "marks") else row if len(keys) > 1 else (row,)
        given = dict(zip(keys, values, strict=True))
        name = _name(number, row, given, ids)
        table[f"{name} ({number})" if name in table else name] = given
    if not table and only:  # codes have no derivative, for one
        return pytest.mark.skip(reason=f"no row of this test is named {only}")
    if not table:
        raise ValueError("the table is empty: its test would never fail")

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def whole(**fixtures: Any) -> None:
            failed: dict[str, BaseException] = {}
            for name, given in table.items():
                if only in name:
                    try:
                        test(**fixtures, **given)
                    except (Exception, pytest.fail.Exception) as error:
                        failed[name] = error
                    memory.bound()
            if failed:
                told = [
                    f"{name}: {type(error).__name__}: {error}" for name, error in failed.items()
                ]
                first = next(iter(failed.values()))
                raise AssertionError(
                    f"{len(failed)} of {len(table)} rows fail\n" + "\n".join(told[:20])
                ) from first

        parameters = [
            parameter
            for name, parameter in inspect.signature(test).parameters.items()
            if name not in keys
        ]
        whole.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return whole

    return decorate


def _name(number: int, row: Any, given: dict[str, Any], ids: Any) -> str:
    if getattr(row, "id", None):
        return str(row.id)
    if callable(ids):
        return "-".join(str(ids(value)) for value in given.values())
    if ids is not None:
        return str(list(ids)[number])
    return "-".join(str(getattr(value, "__name__", value)) for value in given.values())
