"""What tests of several files share: a job to start from, and how a refusal is checked."""

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from fleetcube import InputError

Patch = pytest.MonkeyPatch
JUNK = st.recursive(  # anything that JSON may hold
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


def on_h100(model: str = "llama-3-8b", **given: Any) -> dict[str, Any]:
    """A scenario: a model on DGX H100 nodes with NDR InfiniBand, and whatever else is given."""
    return {"model": model, "node": "dgx-h100", "fabric": "infiniband-ndr"} | given


def refused(words: str, ask: Callable[..., object], *given: Any, **named: Any) -> str:
    """The message of a refusal, which is one line with these words."""
    with pytest.raises(InputError, match=words) as error:
        ask(*given, **named)
    assert "\n" not in str(error.value)
    return str(error.value)


def cases(names: str, *rows: Any, ids: Any = None) -> pytest.MarkDecorator:
    """Try a test on each row of values, given one by one."""
    return pytest.mark.parametrize(names, rows, ids=ids)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """No process writes a larger file, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def written(path: Path, text: str) -> Path:
    """The path of a file that holds a text."""
    path.write_text(text, encoding="utf-8")
    return path
