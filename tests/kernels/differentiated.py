"""All quantities of a scenario and their derivatives, by the reference engine, at one point."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fleetcube import Sweep
from fleetcube.analysis.gradient import continuous
from fleetcube.kernels.calculus.derivatives import Derivative, Differentiator, name_of
from fleetcube.kernels.engines import numpy as numpy_engine
from fleetcube.kernels.physics.graph import PHYSICS

from .precise import Graph

NUMBERS = [name for name, quantity in PHYSICS.quantities.items() if quantity.unit != "flag"]


# The maximum of several windows: where all are closed, only the first has the slope of opening
WINDOWS = frozenset({"traffic_window"})


class Point:
    """One scenario: values, derivatives by every continuous input, and the graph in 80 digits."""

    def __init__(self, scenario: dict[str, Any], outputs: Sequence[str] = NUMBERS) -> None:
        plan = Sweep(scenario, {}, [name for name in outputs if name not in scenario])._plan(
            "numpy"
        )
        case = plan.cases[0]
        self.outputs = [name for name in outputs if name in case.formulas]
        given = [name for name in scenario if name in PHYSICS.quantities]
        self.inputs = [*continuous(plan, self.outputs), *given]
        wanted = [
            Derivative(name_of("d", of, wrt), "d", of, wrt)
            for of in self.outputs
            for wrt in self.inputs
        ]
        made = Differentiator(PHYSICS, case.formulas, plan.dims).add(wanted)
        leaves = {name: leaf.reshape(()) for name, leaf in case.leaves.items()}
        self.values = numpy_engine.evaluate({**case.formulas, **made}, leaves)
        self.leaves = {name: float(leaf) for name, leaf in leaves.items()}
        self.graph = Graph(case.formulas, self.leaves)

    def derivative(self, of: str, wrt: str) -> float:
        return float(self.values[name_of("d", of, wrt)])

    def wrong(self, tolerance: float = 1e-6) -> tuple[list[str], int]:
        """Derivatives that are not finite or no slope in 80 digits, and the number of right ones.

        At a kink the slope on the floats' side is right; at 0, the lower bound of most inputs, the
        one above. An infinite input changes nothing. Where the slope is infinite, any finite number
        is accepted; where it vanishes with the step, 0.
        """
        found, right = [], 0
        for wrt in self.inputs:
            here = self.leaves[wrt]
            slopes = self.graph.slopes(wrt) if np.isfinite(here) else {}
            scale = min(abs(here) or 1.0, abs(1 - here) or 1.0)  # or of a share's complement
            finer: dict[str, Any] = {}  # where a slope at 0 seems wrong: infinite, or 0?
            for of in self.outputs:
                if not np.isfinite(self.values[of]):
                    continue
                got = self.derivative(of, wrt)
                slope = slopes.get(of, 0.0)
                rounding = 1e-13 * abs(float(self.values[of])) / scale
                near = abs(got - slope) <= tolerance * abs(slope) + rounding
                if here == 0 and not near and of in slopes:
                    finer = finer or self.graph.slopes(wrt, 1e-26)
                endless = of in finer and abs(finer[of]) > 100 * abs(slope)
                fades = of in finer and got == 0 and abs(finer[of]) < abs(slope) / 100
                shut = of in WINDOWS and here == 0 and got == 0
                if np.isfinite(got) and (near or endless or fades or shut):
                    right += 1
                else:
                    found.append(f"d {of} / d {wrt} at {here}: {got}, not {float(slope)}")
        return found, right
