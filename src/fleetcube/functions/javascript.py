"""One point of a program as a JavaScript function, for pages that compute without Python.

Operations and their order are those of the other engines. `exp` and the like are the browser's,
which differ from NumPy's in the last bits.
"""

import re
from collections.abc import Mapping

from fleetcube.kernels.engines.program import Program
from fleetcube.kernels.graph.trace import LIGHT, LOOPS, written

_NUMBER = re.compile(r"(?<!\w)\((\d[\d.e+-]*)\)")
_LIBRARY = ", ".join((*LOOPS, *LIGHT)).replace("maximum", "max: maximum")
_LIBRARY = _LIBRARY.replace("minimum", "min: minimum")
HEAD = f"""\
const {{{_LIBRARY}}} = Math;
const np = {{inf: Infinity, nan: NaN}}, True = true, False = false;
const select = (condition, one, other) => condition ? one : other;
"""  # names used in the Python text of operations


def source(program: Program, name: str) -> str:
    """Source, to follow `HEAD`, of a function from array to array; undefined flags are -1. It is
    one declaration with short names and numbers: a page has thousands of operations."""
    trace, results = program.trace()
    places = {each: f"i{k}" for k, each in enumerate(program.inputs)}
    steps = [f"[{','.join(places.values())}]=inputs"]
    for step, operation in trace.operations.items():
        steps.append(f"{step}={_short(operation.text, places)}")
    values = [_short(written(result), places) for result in results]
    both = zip(program.outputs, values, strict=True)
    texts = [f"select({v}!={v},-1,+{v})" if o in program.flags else v for o, v in both]
    declared = ",\n".join(steps)
    return f"function {name}(inputs) {{\nconst {declared};\nreturn [{','.join(texts)}];\n}}\n"


def _short(text: str, places: Mapping[str, str]) -> str:
    """An operation without spaces, outer brackets, and brackets of numbers."""
    text = re.sub(r"[A-Za-z_]\w*", lambda word: places.get(word[0], word[0]), text.replace(" ", ""))
    text = _NUMBER.sub(lambda number: number[1].removesuffix(".0"), text)
    return text[1:-1] if text.startswith("(") else text
