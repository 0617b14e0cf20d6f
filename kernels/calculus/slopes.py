"""Elasticities, slopes between points, and the whole numbers on both sides of a value.

Parameters:
    low [any]: a
    high [any]: b
    below [any]: y(a)
    above [any]: y(b)
    value [1]: any number
    step [1]: distance of the valid numbers
    least [1]: smallest valid number
"""

from typing import Any

import numpy as np

from ..ops import where


def elasticity(derivative: Any, value: Any, result: Any) -> Any:
    """Relative change of a result over the relative change of an input.

    d ln y / d ln x = x / y dy / dx; 0 where y does not change with x

    Parameters:
        derivative [any]: dy / dx
        value [any]: x
        result [any]: y
    Returns: [1] elasticity
    Source: by definition
    """
    changes = derivative != 0
    return where(changes, where(changes, value, 0.0) * derivative / result, 0.0)


def difference(low: Any, high: Any, below: Any, above: Any) -> Any:
    """Slope between two points.

    (y(b) - y(a)) / (b - a); 0 where a and b are equal

    Returns: [any] slope
    Source: by definition
    """
    differ = high > low
    return where(differ, (above - below) / where(differ, high - low, 1.0), 0.0)


def log_difference(low: Any, high: Any, below: Any, above: Any) -> Any:
    """Slope between two points of logarithms.

    ln(y(b) / y(a)) / ln(b / a); 0 where a and b are equal, or where y does not change

    Returns: [1] slope
    Source: by definition
    """
    changes = (high > low) & (above != below)
    ratio = where(changes, above / where(changes, below, 1.0), 1.0)
    return where(changes, np.log(ratio) / np.log(where(changes, high / low, 2.0)), 0.0)


def previous_whole(value: Any, step: Any, least: Any) -> Any:
    """The next smaller multiple of a step; the value itself where that is below the least.

    Returns: [1] the number
    Source: by definition
    """
    smaller = (np.ceil(value / step) - 1) * step
    return where(smaller >= least, smaller, value)


def next_whole(value: Any, step: Any) -> Any:
    """The next larger multiple of a step.

    Returns: [1] the number
    Source: by definition
    """
    return (np.floor(value / step) + 1) * step


def halved(value: Any, least: Any) -> Any:
    """Half of a number; the number itself where that is below the least.

    Returns: [1] the number
    Source: by definition
    """
    return where(0.5 * value >= least, 0.5 * value, value)


def doubled(value: Any) -> Any:
    """Twice a number.

    Returns: [1] the number
    Source: by definition
    """
    return 2 * value


def first_valid(
    value: Any, near: Any, far: Any, reason: Any, near_reason: Any, far_reason: Any
) -> Any:
    """The first of two candidates that can be laid out; the value itself where neither can.

    The nearer candidate where the value cannot be laid out either.

    Parameters:
        value [1]: the number now
        near [1]: nearer candidate
        far [1]: farther candidate
        reason [flag]: why the number now cannot be laid out; 0 where it can
        near_reason [flag]: the same of the nearer candidate
        far_reason [flag]: the same of the farther one
    Returns: [1] the number
    Source: by definition
    """
    valid = where(near_reason == 0, near, where(far_reason == 0, far, value))
    return where(reason == 0, valid, near)
