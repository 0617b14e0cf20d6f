"""One point of a program as a JavaScript function, for pages that compute without Python.

Operations and their order are those of the other engines. `exp` and the like are the browser's,
which differ from NumPy's in the last bits.
"""

from ..graph.trace import LIGHT, LOOPS, written
from .program import Program

_LIBRARY = ", ".join((*LOOPS, *LIGHT)).replace("maximum", "max: maximum")
_LIBRARY = _LIBRARY.replace("minimum", "min: minimum")
HEAD = f"""\
const {{{_LIBRARY}}} = Math;
const np = {{inf: Infinity, nan: NaN}}, True = true, False = false;
const select = (condition, one, other) => condition ? one : other;
"""  # names used in the Python text of operations


def source(program: Program, name: str) -> str:
    """Source, to follow `HEAD`, of a function from array to array; undefined flags are -1."""
    trace, results = program.trace()
    # one declaration without spaces: a page has thousands of operations
    steps = [f"[{','.join(program.inputs)}]=inputs"]
    steps += [f"{name}={each.text.replace(' ', '')}" for name, each in trace.operations.items()]
    texts = []
    for output, result in zip(program.outputs, results, strict=True):
        value = written(result)
        texts.append(
            f"select({value} != {value}, -1, +{value})" if output in program.flags else value
        )
    declared = ",\n".join(steps)
    return f"function {name}(inputs) {{\nconst {declared};\nreturn [{', '.join(texts)}];\n}}\n"
