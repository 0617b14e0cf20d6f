"""What tests of several files share: a job to start from, and how a refusal is checked."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fleetcube import InputError

Patch = pytest.MonkeyPatch


def on_h100(model: str = "llama-3-8b", **given: Any) -> dict[str, Any]:
    """A scenario: a model on DGX H100 nodes with NDR InfiniBand, and whatever else is given."""
    return {"model": model, "node": "dgx-h100", "fabric": "infiniband-ndr", **given}


def refused(words: str, ask: Callable[..., object], *given: Any, **named: Any) -> str:
    """The message of a refusal, which is one line with these words."""
    with pytest.raises(InputError, match=words) as error:
        ask(*given, **named)
    assert "\n" not in str(error.value)
    return str(error.value)


def cases(names: str, *rows: Any, ids: Any = None) -> pytest.MarkDecorator:
    """Try a test on each row of values, given one by one."""
    return pytest.mark.parametrize(names, rows, ids=ids)


def written(path: Path, text: str) -> Path:
    """The path of a file that holds a text."""
    path.write_text(text, encoding="utf-8")
    return path
