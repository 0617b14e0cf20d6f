"""The one operation that NumPy, numba and JAX do not share: an elementwise choice."""

from typing import Any

import numpy as np


# Both values are computed: where a divisor may be 0 in the one not chosen, formulas guard it, too,
# for plain Python numbers raise ZeroDivisionError and other libraries' derivatives become NaN.
def where(condition: Any, if_true: Any, if_false: Any) -> Any:
    """Choose elementwise; engines replace it (`np.where` on scalars builds arrays in numba).

    Parameters:
        condition [1]: where true, take the first value
        if_true [any]: value where the condition holds
        if_false [any]: value elsewhere
    Returns: [any] the chosen values
    Source: by definition
    """
    return np.where(condition, if_true, if_false)
