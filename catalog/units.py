"""Units of inputs: a string such as "400 Gbit/s" becomes a number in SI base units."""

import datetime
import functools
import json
import math
import re
from collections.abc import Mapping
from fractions import Fraction
from importlib.resources import files
from typing import Any

PATH = files(__package__).joinpath("units.txt")
LONGEST = 1000  # digits of a number: Python refuses to convert a few thousand
_DIGITS = r"[0-9]+(?:_[0-9]+)*"
_THOUSANDS = r"[1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9,])"  # 50,000: as numbers are printed
_NUMBER = re.compile(
    rf"\s*([+-]?(?:inf(?:inite)?|(?:(?:{_THOUSANDS}|{_DIGITS})(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})"
    r"(?:[eE][+-]?[0-9]+)?))"
)
_SHORT = re.compile(r"\s*([kKMBT])(?![A-Za-z])")  # of plain numbers and money: 15T tokens, 2M USD
_POWERS = {"k": 10**3, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
_PART = r"[A-Za-zµμ]+(?:\^[2-9])?"
_UNIT = re.compile(rf"(?:1\s*/\s*)?{_PART}(?:\s*[*/]\s*{_PART})*(?:\^0\.5)?")
# How to write a value of a unit, for messages; for any other unit: "5 UNIT"
_HINTS = {
    "s": "30 s, 5 us, 50_000 h or 30 d",
    "B": "2 B, 80 GB or 64 GiB",
    "B/s": "400 Gbit/s (bits) or 50 GB/s (bytes)",
    "FLOP/s": "989 TFLOP/s",
    "FLOP": "1 EFLOP",
    "FLOP/B": "295 FLOP/B",
    "1/s": "10 1/s",
    "W": "700 W",
    "J": "1 GWh",
    "h": "100 h",
    "kg": "5 t",
    "kg/J": "400 g/kWh",
    "USD": "15M USD",
    "USD/J": "0.08 USD/kWh",
    "USD/h": "2.5 USD/h or 1_800 USD/month",
    "s/B": "1e-11 s/B",
    "s/B^0.5": "1e-8 s/B^0.5",
    "1": "8, 0.45 or 15T",
}


# Factors of usual units as pint gives them, which a test compares: importing it takes 0.2 s
USUAL: Mapping[str, Mapping[str, float]] = {
    "s": {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0},
    "B": {"B": 1.0, "MB": 1e6, "GB": 1e9, "TB": 1e12, "GiB": 2.0**30, "TiB": 2.0**40},
    "B/s": {
        **{"MB/s": 1e6, "GB/s": 1e9, "GiB/s": 2.0**30, "TB/s": 1e12},
        **{"Gbit/s": 1.25e8, "Tbit/s": 1.25e11},
    },
    "FLOP/s": {"GFLOP/s": 1e9, "TFLOP/s": 1e12, "PFLOP/s": 1e15},
    "W": {"W": 1.0, "kW": 1e3, "MW": 1e6},
    "kg/J": {"g/kWh": 2.7777777777777777e-10},
    "USD/J": {"USD/kWh": 2.7777777777777776e-07},
    "USD/h": {"USD/h": 1.0},
    "s/B^0.5": {"s/B^0.5": 1.0},
}
_RENTS = {  # of prices to buy: what states a rent, and how
    "node_price": ("gpu_hour_price, a node's rent over its GPUs", "2_500 USD/month"),
    "storage_price": ("storage_rent, of its space", "20 USD/TB/month"),
}
_SHARES = {"%": 0.01, "percent": 0.01}
# Allowed in an attribute `units`: checked before pint, which would evaluate any expression
_STATED = re.compile(r"(?:[A-Za-zµμ1/* ()]|\^0\.5|\^[2-9])+")


class UnitError(ValueError):
    """A value whose unit is missing, unknown or of another kind."""


def spelling(base: str) -> str:
    """Example of how to write values of a base unit."""
    return _HINTS.get(base, f"5 {base}")


def carried(value: Any) -> tuple[Any, str] | None:
    """Number and unit of a pint, astropy or unyt quantity; None for anything else."""
    number = getattr(value, "magnitude", getattr(value, "value", None))
    unit = getattr(value, "units", getattr(value, "unit", None))
    dated = isinstance(value, datetime.timedelta | datetime.date)  # pandas gives its own a unit
    return None if number is None or unit is None or dated else (number, str(unit))


def converted(number: float, unit: str, base: str) -> float:
    """A number of some unit in the base unit, rounded once. Raises UnitError with the rule."""
    return _times(repr(number), number, _exact(factor(unit, base)))


def factor(unit: str, base: str) -> float:
    if base == "1" and unit in _SHARES:
        return _SHARES[unit]
    if (usual := USUAL.get(base, {}).get(unit)) is not None:
        return usual
    try:
        return _factor(unit, base)
    except Exception as error:  # pint passes on whatever its parser raises
        unknown = type(error).__name__ == "UndefinedUnitError"
        rule = f"has an unknown unit {unit!r}" if unknown else f"is not in {base}"
        raise UnitError(rule) from None


def ratio(unit: str, base: str) -> Fraction:
    """The ratio of one unit to another, both given as external text.

    Raises UnitError with the rule alone. If one is a whole multiple of the other, the ratio is that
    number or its inverse, without the digits that floating-point factors add.
    """
    shares = {"1": 1.0, **_SHARES}
    if unit in shares and base in shares:
        quotient = shares[unit] / shares[base]
    else:
        for text in (unit, base):
            if len(text) > 40 or not _STATED.fullmatch(text):
                raise UnitError(f"has no known unit ({text[:40]!r})")
        quotient = factor(unit, base)
    larger = max(quotient, 1 / quotient)
    if not math.isclose(larger, round(larger), rel_tol=1e-14):
        return Fraction(quotient)
    return Fraction(round(larger)) if quotient >= 1 else Fraction(1, round(larger))


@functools.cache
def unit_registry() -> Any:
    """A `pint.UnitRegistry` of the units in attributes, which it writes in the same spelling.

    For pint-xarray: `dataset.pint.quantify(unit_registry=...)`, and `.pint.dequantify()` back.
    """
    import pint

    def written(unit: Any, registry: Any, **_: Any) -> str:
        plain = "dimensionless" in unit
        return "1" if plain else format(registry.Unit(unit), "~C").replace("**", "^")

    pint.register_unit_format("fleetcube")(written)
    registry = _new_registry(force_ndarray_like=True)  # points stay arrays, as xarray requires
    registry.formatter.default_format = "fleetcube"
    return registry


@functools.cache
def _registry() -> Any:
    return _new_registry(non_int_type=Fraction)  # so that 1 cm^3 is 1e-06 m^3


def _new_registry(**how: Any) -> Any:
    import pint  # slow to import: only for strings with a unit

    lines = PATH.read_text("utf-8").splitlines()
    return pint.UnitRegistry(lines, autoconvert_to_preferred=False, **how)


@functools.cache
def _factor(unit: str, base: str) -> float:
    return float(_registry().Quantity(Fraction(1), unit).to(base).magnitude)


def parse(text: str, base: str, name: str, example: str = "") -> float:
    """Read a number with a unit as a number in the base unit.

    `name`, and an `example` better than the unit's, are for the message. Commas may separate
    thousands. Plain numbers may end in %, k, M, B or T; so may money, before its unit, and a dollar
    sign may replace USD. A mean time to failure may be a count of failures. Raises UnitError in one
    line with value, rule and a correct spelling.
    """
    if base == "s" and (mean_time := counted_failures(text, name)) is not None:
        return float(mean_time)
    priced = base.startswith("USD")
    dollars = priced and text.lstrip().startswith("$")
    written = text.lstrip()[1:] if dollars else text
    match = _NUMBER.match(written)

    def refused(
        rule: str, action: str = "write", hint: str = example or spelling(base)
    ) -> UnitError:
        shown = json.dumps(text if len(text) <= 60 else f"{text[:57]}...", ensure_ascii=False)
        return UnitError(f'{name} = {shown} {rule}; {action} for example "{hint}"')

    if match is None:
        raise refused("does not start with a number")
    digits = re.sub("[_,]|inite", "", match.group(1))
    if len(digits) > LONGEST:
        raise refused(f"has more than {LONGEST:,} digits")
    rest = written[match.end() :]
    if rest.startswith(","):
        raise refused("has a comma that does not separate thousands")
    power = 1
    if (priced or base == "1") and (short := _SHORT.match(rest)):
        power, rest = _POWERS[short.group(1)], rest[short.end() :]
    number, unit = float(digits), rest.strip()
    if base == "1":
        if unit == "%" and power == 1:
            return _times(digits, number, Fraction(1, 100))
        if unit:
            raise refused("is a plain number and takes no unit but %, k, M, B or T")
        return _times(digits, number, Fraction(power))
    if dollars and not unit.startswith("USD"):
        unit = f"USD{unit}"
    if not unit and "inf" in digits:
        return number
    if not unit:
        raise refused("has no unit")
    # before pint, which would evaluate any expression
    if unit != base and (len(unit) > 40 or not _UNIT.fullmatch(unit)):
        raise refused(f"has no known unit ({unit[:40]!r})")
    if unit.startswith("USD/") and name in _RENTS:
        rent, hint = _RENTS[name]
        raise refused("is a rent, and this a price to buy", f"give {rent},", hint)
    try:
        scale = factor(unit, base)
    except UnitError as error:
        raise refused(str(error)) from None
    value = number * scale * power
    if math.isinf(value) and "inf" not in digits:
        raise refused("is too large for a floating-point number")
    return _times(digits, number, _exact(scale, power))


@functools.cache
def _exact(scale: float, power: int = 1) -> Fraction:
    """A factor exactly as written in decimals, times a power of ten."""
    return Fraction(repr(scale)) * power


def _times(digits: str, number: float, factor: Fraction) -> float:
    """The product, rounded once: "5 us" is 5e-06, not 4.9999999999999996e-06."""
    # outside, fractions grow long, and overflow with an error where a float is inf
    if 1e-30 < abs(number) < 1e30:
        return float(Fraction(digits) * factor)
    return number * float(factor)


# Failures as a fleet counts them
_GPUS, _NODES = ("GPU", "accelerator", "chip", "TPU"), ("node", "host", "server", "machine")
_PARTS = {  # what an input is the mean time to failure of; of others, in the first word
    **{"interruption": _GPUS, "gpu": _GPUS, "silent_corruption": _GPUS},
    **{"node": _NODES, "host": _NODES, "software": _NODES},
    **{"nic": ("network card", "NIC"), "psu": ("power supply", "power supplie", "PSU")},
}
_COUNT, _FAILED = r"([0-9][0-9_,]*(?:\.[0-9]+)?)", r"(?:\s+(?:failures?|interruptions?))?"
_A_TIME = re.compile(
    rf"{_COUNT}{_FAILED} of {_COUNT} ([A-Za-z ]+?) (?:an?|per|every(?: {_COUNT})?) ?(\w+)"
)
_IN_TIME = re.compile(rf"{_COUNT}{_FAILED} in {_COUNT} ?(\w+) on {_COUNT} ([A-Za-z ]+)")
_COUNTED = (
    'write "1 of 256 nodes a day", "1 of 128 nodes every 2 days", or '
    '"419 in 54 days on 16,384 GPUs"'
)


def counted_failures(text: str, name: str) -> Fraction | None:
    """The mean time of one part between failures, in seconds and exact; None for other texts.
    Raises UnitError where the input is not of such parts."""
    part = name.partition("__")[0].removesuffix("_mttf")
    if part == name or not re.search(" (of|in) ", text):
        return None

    def refused(rule: str) -> UnitError:
        return UnitError(f"{name} = {json.dumps(text[:60], ensure_ascii=False)} {rule}")

    if match := _A_TIME.fullmatch(text.strip()):
        failures, parts, things, span, unit = match.groups("1")
    elif match := _IN_TIME.fullmatch(text.strip()):
        failures, span, unit, parts, things = match.groups()
    else:
        raise refused(f"is no count of failures; {_COUNTED}")
    words = _PARTS.get(part, (part,))
    if things.lower() not in {word.lower() + end for word in words for end in ("", "s", "es")}:
        remedy = "node_mttf is of nodes, interruption_mttf of GPUs and all causes"
        raise refused(f"counts {things}, and {name} is of a {words[0]}; {remedy}")
    if parts.strip("0_,.") == "" or "." in parts:
        raise refused(f"counts failures of {parts} {things}, not of a whole number; {_COUNTED}")
    number, size, time = (Fraction(re.sub("[_,]", "", each)) for each in (failures, parts, span))
    try:
        mean_time = 1 / (number / (size * time * Fraction(repr(factor(unit, "s")))))
        if not float(mean_time):
            raise ZeroDivisionError
        return mean_time
    except (UnitError, ArithmeticError):
        raise refused(f"has no time of failures; {_COUNTED}") from None
