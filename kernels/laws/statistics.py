"""Normal quantiles, the gamma function, extremes of many, Poisson counts and lost calls.

Parameters:
    x [1]: positive number
    ranks [1]: number n of variables that are awaited
    groups [1]: number g of equal groups that they form
    spares [1]: number b of further groups: the slowest b of all are left out
    count [1]: number c
    mean [1]: mean m of the variable
    load [1]: offered load a, in erlangs
"""

from typing import Any

from ..ops import np, where


def normal_quantile(probability) -> Any:
    """Value below which a standard normal variable lies with a given probability.

    x = Phi^-1(p): ratios of polynomials in 0.180625 - (p - 1/2)^2 or sqrt(-log(min(p, 1 - p)))

    Parameters: probability [1]: p between 0 and 1
    Returns: [1] quantile; -infinity at 0, infinity at 1
    Range: 0 to 1, within 1e-14 relative
    Source: Wichura 1988, Applied Statistics 37(3), algorithm AS 241 (PPND16)
    Example:
        >>> round(float(normal_quantile(0.975)), 6)
        1.959964
    """
    deviation = probability - 0.5
    tail = np.minimum(probability, 1 - probability)
    depth = np.sqrt(-np.log(where(tail <= 0, 0.5, tail)))
    outer = where(depth <= 5, _quantile_in_tail(depth - 1.6), _quantile_far_out(depth - 5))
    outer = where(tail <= 0, np.inf, outer)
    outer = where(deviation < 0, -outer, outer)
    return where(np.abs(deviation) <= 0.425, _quantile_in_middle(deviation), outer)


def _quantile_in_middle(q) -> Any:
    """Normal quantile for a probability within 0.425 of one half.

    q times a ratio of polynomials in r = 0.425^2 - q^2

    Parameters: q [1]: probability - 1/2
    Returns: [1] quantile
    Source: Wichura 1988, Applied Statistics 37(3), algorithm AS 241 (PPND16)
    """
    r = 0.180625 - q * q
    a = 3.34305755835881281050e4 + r * 2.50908092873012267270e3
    a = 4.59219539315498714570e4 + r * (6.72657709270087008530e4 + r * a)
    a = 1.97159095030655144270e3 + r * (1.37316937655094611250e4 + r * a)
    a = 3.38713287279636660800e0 + r * (1.33141667891784377450e2 + r * a)
    b = 2.87290857357219426740e4 + r * 5.22649527885285456100e3
    b = 2.12137943015865958670e4 + r * (3.93078958000927106100e4 + r * b)
    b = 6.87187007492057908300e2 + r * (5.39419602142475110770e3 + r * b)
    b = 1 + r * (4.23133307016009112520e1 + r * b)
    return q * a / b


def _quantile_in_tail(r) -> Any:
    """Size of the normal quantile for a tail between exp(-25) and 0.075.

    a ratio of polynomials in r

    Parameters: r [1]: sqrt(-log(tail)) - 1.6
    Returns: [1] size of the quantile
    Source: Wichura 1988, Applied Statistics 37(3), algorithm AS 241 (PPND16)
    """
    a = 2.27238449892691845833e-2 + r * 7.74545014278341407640e-4
    a = 1.27045825245236838258e0 + r * (2.41780725177450611770e-1 + r * a)
    a = 5.76949722146069140550e0 + r * (3.64784832476320460504e0 + r * a)
    a = 1.42343711074968357734e0 + r * (4.63033784615654529590e0 + r * a)
    b = 5.47593808499534494600e-4 + r * 1.05075007164441684324e-9
    b = 1.48103976427480074590e-1 + r * (1.51986665636164571966e-2 + r * b)
    b = 1.67638483018380384940e0 + r * (6.89767334985100004550e-1 + r * b)
    b = 1 + r * (2.05319162663775882187e0 + r * b)
    return a / b


def _quantile_far_out(r) -> Any:
    """Size of the normal quantile for a tail below exp(-25).

    a ratio of polynomials in r

    Parameters: r [1]: sqrt(-log(tail)) - 5
    Returns: [1] size of the quantile
    Source: Wichura 1988, Applied Statistics 37(3), algorithm AS 241 (PPND16)
    """
    a = 2.71155556874348757815e-5 + r * 2.01033439929228813265e-7
    a = 2.65321895265761230930e-2 + r * (1.24266094738807843860e-3 + r * a)
    a = 1.78482653991729133580e0 + r * (2.96560571828504891230e-1 + r * a)
    a = 6.65790464350110377720e0 + r * (5.46378491116411436990e0 + r * a)
    b = 1.42151175831644588870e-7 + r * 2.04426310338993978564e-15
    b = 7.86869131145613259100e-4 + r * (1.84631831751005468180e-5 + r * b)
    b = 1.36929880922735805310e-1 + r * (1.48753612908506148525e-2 + r * b)
    b = 1 + r * (5.99832206555887937690e-1 + r * b)
    return a / b


def log_gamma(x) -> Any:
    """Natural logarithm of the gamma function.

    log Gamma(x) = log(2 pi)/2 + (x - 1/2) log t - t + log(c0 + sum c_k / (x + k - 1)), t = x + 13/2

    Returns: [1] logarithm
    Range: 1 to 100, within 1e-14 relative or absolute, the larger
    Source: Lanczos 1964, SIAM J. Numer. Anal. B 1; coefficients of P. Godfrey, g = 7
    Example:
        >>> round(float(log_gamma(11.0)), 10)  # log 10!
        15.1044125731
    """
    t = x + 6.5
    return 0.9189385332046727 + (x - 0.5) * np.log(t) - t + np.log(_lanczos_series(x))


def _lanczos_series(x) -> Any:
    """The slowly varying factor of the gamma function.

    c0 + sum c_k / (x + k - 1)

    Returns: [1] factor
    Source: Lanczos 1964, SIAM J. Numer. Anal. B 1; coefficients of P. Godfrey, g = 7
    """
    series = 0.99999999999980993 + 676.5203681218851 / x - 1259.1392167224028 / (x + 1)
    series = series + 771.32342877765313 / (x + 2) - 176.61502916214059 / (x + 3)
    series = series + 12.507343278686905 / (x + 4) - 0.13857109526572012 / (x + 5)
    return series + 9.9843695780195716e-6 / (x + 6) + 1.5056327351493116e-7 / (x + 7)


def expected_maximum(ranks, groups, spares) -> Any:
    """Expected maximum of many normal variables, the slowest groups left out.

    Phi^-1(q^(g / n)), at least 0, q = (g - 0.375) / (g + b + 0.25): the (b + 1)-th slowest of
    g + b groups; Phi^-1((n - 0.375) / (n + 0.25)) for b = 0

    Returns: [1] standard deviations above the mean
    Range: within 0.026 of the integral, and within 0.016 from n = 8 on; with spares within 0.04; 0
        where the last one awaited is below the mean
    Source: Blom 1958, Statistical Estimates and Transformed Beta-Variables
    Example:
        >>> round(float(expected_maximum(1000, 125, 0)), 2)  # 3.24 by integration
        3.23
    """
    below = np.maximum(groups - 0.375, 0.0) / (groups + spares + 0.25)
    left_out = -np.expm1(np.log(below) * groups / ranks)
    tail = where(spares > 0, left_out, 0.625 / (ranks + 0.25))
    return 0.0 - normal_quantile(np.minimum(tail, 0.5))  # not -0


def expected_maximum_gumbel(ranks, groups, spares) -> Any:
    """Expected maximum of many Gumbel variables, the slowest groups left out.

    sqrt(6)/pi (log(n (1 + b/g/2)) - H_b), at least 0; H_b = 1 + 1/2 + ... + 1/b, about
    log(1 + e^gamma b)

    A Gumbel variable is -log of an exponential one; so is the maximum of a group, up to a constant.
    The (b + 1)-th smallest of g + b exponentials is nearly a sum of b + 1 of rate g + b/2.

    Returns: [1] standard deviations above the mean
    Range: exact for b = 0, else within 0.02 of the integral from g = 1.5 b + 1 on; an upper bound
        for fewer groups, at g = 1 by up to 0.13 with b = 2, 0.32 with 8 and 0.56 with 32. 0 where
        the last one awaited is below the mean
    Source: Gumbel 1958, Statistics of Extremes; Renyi 1953, Acta Math. Hung. 4; gamma is Euler's
        constant and H_b is within 2.3 percent
    Example:
        >>> round(float(expected_maximum_gumbel(1000, 125, 0)), 3)
        5.386
    """
    left_out = np.log1p(1.781072417990198 * spares)
    some = spares > 0  # without spares, the number of groups does not matter
    middle = np.maximum(ranks * (1 + where(some, spares / 2 / groups, 0.0)), 1.0)
    return np.maximum(0.7796968012336761 * (np.log(middle) - left_out), 0.0)


def poisson_probability(count, mean) -> Any:
    """Probability that a Poisson variable of positive mean equals a number.

    m^c e^-m / Gamma(c + 1), with Lanczos' gamma function in one exponential

    Returns: [1] probability; 1e-11 relative for c up to 1e5
    Source: Lanczos 1964, SIAM J. Numer. Anal. B 1
    Example:
        >>> round(float(poisson_probability(4, 2.0)), 6)  # e^-2 16/24
        0.090224
    """
    t = count + 7.5
    power = (count + 0.5) * np.log(mean / t) - np.log(mean) / 2 + (t - mean)
    return np.exp(power - 0.9189385332046727) / _lanczos_series(count + 1)


def _gauss_rule() -> Any:
    """Positive half of the symmetric 20-point Gauss-Legendre rule on -1 to 1.

    the positive zeros of the Legendre polynomial of degree 20

    Returns: [1] pairs of node and weight
    Source: Abramowitz & Stegun 1964, table 25.4
    """
    return (
        (0.07652652113349734, 0.15275338713072628),
        (0.22778585114164507, 0.14917298647260424),
        (0.37370608871541955, 0.1420961093183824),
        (0.5108670019508271, 0.1316886384491769),
        (0.636053680726515, 0.1181945319615186),
        (0.7463319064601508, 0.1019301198172407),
        (0.8391169718222188, 0.08327674157670471),
        (0.912234428251326, 0.06267204833410879),
        (0.9639719272779138, 0.040601429800386446),
        (0.993128599185095, 0.017614007139150893),
    )


def _tail_ratio(count, mean) -> Any:
    """Poisson probability of the tail away from the mean, over that of the number itself.

    P(N <= c) / P(N = c) where m >= c + 1, else P(N > c) / P(N = c)

    The first is m times the integral of (1 + t)^c e^(-m t) from 0 on; the second, after six terms
    of its series, m times that of (1 - t)^k e^(m t) up to 1, k = c + 6. Both are cut off where they
    have fallen by e^-26, and integrated by Gauss' rule.

    Returns: [1] ratio; 1e-11 relative
    Source: Abramowitz & Stegun 1964, 6.5.3, 6.5.29 and 26.4.21; Jagerman 1974, BSTJ 53(3)
    """
    low = mean >= count + 1
    k = where(low, count, count + 6)
    rate = where(low, mean - k, k - mean)
    # where rate t + k t^2/2 = 26, and with t^2 / (1 + 2t/3) for the logarithm's slower growth
    square, linear = 2 * rate / 3 + k / 2, rate - 52 / 3
    length = (np.sqrt(linear * linear + 104 * square) - linear) / (2 * square)
    shorter = np.minimum(52 / (rate + np.sqrt(rate * rate + 52 * k)), 1.0)
    step = where(low, length, -shorter)
    total = 0.0
    for node, weight in _gauss_rule():
        for v in ((1 - node) / 2, (1 + node) / 2):  # closer to 0, by t = v (1 + v) / 2
            t = step * (v * (1 + v) / 2)
            total = total + weight * (1 + 2 * v) / 4 * np.exp(k * np.log1p(t) - mean * t)
    ratio = mean * np.abs(step) * total
    series = 1 + ratio
    for term in range(6, 1, -1):
        series = 1 + mean / (count + term) * series
    return where(low, ratio, mean / (count + 1) * series)


def poisson_at_most(count, mean) -> Any:
    """Probability that a Poisson variable is at most a number.

    Q(c + 1, m), the regularised incomplete gamma function; 1 for m = 0

    Parameters: count [1]: number c, at least 0; between whole numbers, by the gamma function
    Returns: [1] probability; 1e-11 relative for c and m up to 1e5
    Source: Abramowitz & Stegun 1964, 26.4.21
    Example:
        >>> round(float(poisson_at_most(5, 10.5)), 4)
        0.0504
    """
    never = mean <= 0
    m = where(never, 1.0, mean)
    tail = poisson_probability(count, m) * _tail_ratio(count, m)
    few = 1 - where(count <= 0, mean, 0.0)  # for the slope at a mean of 0
    return where(never, few, where(m >= count + 1, tail, 1 - tail))


def poisson_below(count, mean) -> Any:
    """Probability that a Poisson variable is less than a number.

    Q(c, m), the regularised incomplete gamma function; 0 for c = 0; 1 for m = 0

    Parameters: count [1]: number c, excluded
    Returns: [1] probability; 1e-11 absolute
    Source: Abramowitz & Stegun 1964, 26.4.21
    Example:
        >>> round(float(poisson_below(4, 2.0)), 3)  # e^-2 (1 + 2 + 2 + 4/3)
        0.857
    """
    never = mean <= 0
    m = where(never, 1.0, mean)
    equal, tail = poisson_probability(count, m), _tail_ratio(count, m)
    below = where(m >= count + 1, equal * (tail - 1), 1 - equal * (tail + 1))
    few = 1 - where(count <= 1, mean, 0.0)  # for the slope at a mean of 0
    return where(count <= 0, 0.0, where(never, few, below))


def poisson_excess(count, mean) -> Any:
    """Expected amount by which a Poisson variable exceeds a number.

    E[max(0, N - c)] = (m - c) P(N > c) + m P(N = c); m for c = 0

    Returns: [1] expected excess; 1e-11 of the mean
    Source: Feeney & Sherbrooke 1966, Management Science 12(5) (expected backorders)
    Example:
        >>> round(float(poisson_excess(1, 2.0)), 3)  # 1 + e^-2
        1.135
    """
    never = mean <= 0
    m = where(never, 1.0, mean)
    equal = poisson_probability(count, m)
    tail = equal * _tail_ratio(count, m)
    above = where(m >= count + 1, 1 - tail, tail)
    few = where(count <= 0, mean, 0.0)  # for the slope at a mean of 0
    return where(never, few, np.maximum((m - count) * above + m * equal, 0.0))


def erlang_carried(servers, load) -> Any:
    """Share of the calls that a loss system carries: 1 - Erlang's B.

    1 - B(n, a) = P(N < n) / P(N <= n), N Poisson of mean a; 1 for a = 0

    Parameters: servers [1]: number n of servers, at least 1
    Returns: [1] share of the calls; 1e-11 relative for n and a up to 1e5
    Source: Erlang 1917, Elektroteknikeren 13; Jagerman 1974, BSTJ 53(3)
    Example:
        >>> round(float(erlang_carried(1, 3.0)), 10)  # 1 / (1 + a)
        0.25
    """
    never = load <= 0
    a = where(never, 1.0, load)
    count = servers - 1
    tail, one_more = _tail_ratio(count, a), a / servers
    low = a >= servers  # then P(N < n) itself may underflow
    below = where(low, tail, 1 - poisson_probability(count, a) * tail)
    more = where(low, one_more, poisson_probability(count, a) * one_more)
    few = 1 - where(servers <= 1, load, 0.0)  # for the slope at a load of 0
    return where(never, few, below / (below + more))


def erlang_blocked(servers, load) -> Any:
    """Share of the calls that a loss system turns away: Erlang's B.

    B(n, a) = P(N = n) / P(N <= n), N Poisson of mean a; 0 for a = 0, 1 without servers

    Parameters: servers [1]: number n of servers
    Returns: [1] share of the calls; 1e-11 relative for n and a up to 1e5
    Source: Erlang 1917, Elektroteknikeren 13; Jagerman 1974, BSTJ 53(3)
    Example:
        >>> round(float(erlang_blocked(1, 3.0)), 10)  # a / (1 + a)
        0.75
    """
    never = load <= 0
    a = where(never, 1.0, load)
    tail, equal = _tail_ratio(servers, a), poisson_probability(servers, a)
    low = a >= servers + 1
    blocked = where(low, 1 / tail, equal / where(low, 1.0, 1 - equal * tail))
    return where(never, where(servers <= 0, 1.0, where(servers <= 1, load, 0.0)), blocked)


def poisson_truncated(count, most, mean) -> Any:
    """Probability that a Poisson variable is at most c, given that it is at most k.

    P(N <= c) / P(N <= k)

    Parameters:
        most [1]: number k, at least c
        mean [1]: mean m of the variable, above 0
    Returns: [1] probability; 1e-9 for numbers up to 1e5
    Source: Abramowitz & Stegun 1964, 26.4.21
    Example:
        >>> round(float(poisson_truncated(1, 2, 2.0)), 6)  # (1 + 2) / (1 + 2 + 2)
        0.6
    """
    low = mean >= most + 1  # then both probabilities may underflow
    t, most_t = count + 7.5, most + 7.5  # P(N = c) / P(N = k), as in poisson_probability
    steps = (count + 0.5) * np.log(mean / t) - (most + 0.5) * np.log(mean / most_t) + (count - most)
    series = _lanczos_series(most + 1) / _lanczos_series(count + 1)
    rare = np.exp(where(low, steps, 0.0)) * series * erlang_blocked(most, mean)
    rare = rare / where(low, erlang_blocked(count, mean), 1.0)
    usual = where(low, 1.0, poisson_at_most(most, mean))
    return where(low, rare, poisson_at_most(count, mean) / usual)
