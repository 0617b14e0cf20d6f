"""Cost of owning a machine: annuities and discounting.

Parameters:
    interest_rate [1]: interest r of one year
"""

from typing import Any

from ..ops import np, where


def capital_recovery_factor(interest_rate, lifetime) -> Any:
    """Yearly payment that repays a loan of 1 with its interest.

    r / (1 - (1 + r)^-n), and 1 / n + r (n + 1) / (2 n) for the smallest rates

    Parameters: lifetime [s]: years n over which it is paid, at each year's end
    Returns: [1] share of the loan, every year
    Range: at no interest the straight line 1 / n; parts of a year count as parts of the exponent
    Source: Short et al. 1995, NREL/TP-462-5173, section 3 (capital recovery factor)
    Example:
        >>> round(float(capital_recovery_factor(0.1, 5 * 31557600.0)), 6)
        0.263797
    """
    years = lifetime / 31557600.0
    rate = np.maximum(interest_rate, 1e-8)
    exact = -rate / np.expm1(-years * np.log1p(rate))
    straight = (1 + interest_rate * (years + 1) / 2) / years
    return where(interest_rate > 1e-8, exact, straight)


def discount_factor(interest_rate, lifetime) -> Any:
    """Present value of 1 that is paid at the end of a time.

    (1 + r)^-n

    Parameters: lifetime [s]: the time, n years
    Returns: [1] worth
    Source: Short et al. 1995, NREL/TP-462-5173, section 2 (discounting)
    Example:
        >>> round(float(discount_factor(0.1, 5 * 31557600.0)), 6)
        0.620921
    """
    return np.exp(-lifetime / 31557600.0 * np.log1p(interest_rate))
