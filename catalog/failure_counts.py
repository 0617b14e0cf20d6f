"""Failures as a fleet counts them: "1 of 256 nodes a day" is a mean time to failure."""

import json
import re
from fractions import Fraction

from .units import UnitError, factor

_GPUS, _NODES = ("GPU", "accelerator", "chip", "TPU"), ("node", "host", "server", "machine")
_PARTS = {  # what an input is the mean time to failure of; of others, in the first word
    **{"interruption": _GPUS, "gpu": _GPUS, "silent_corruption": _GPUS},
    **{"node": _NODES, "host": _NODES, "software": _NODES},
    **{"nic": ("network card", "NIC"), "psu": ("power supply", "power supplie", "PSU")},
}
_NUMBER, _FAILED = r"([0-9][0-9_,]*(?:\.[0-9]+)?)", r"(?:\s+(?:failures?|interruptions?))?"
_A_TIME = re.compile(rf"{_NUMBER}{_FAILED} of {_NUMBER} ([A-Za-z ]+?) (?:an?|per) (\w+)")
_IN_TIME = re.compile(rf"{_NUMBER}{_FAILED} in {_NUMBER} ?(\w+) on {_NUMBER} ([A-Za-z ]+)")
_RULE = 'write for example "1 of 256 nodes a day" or "419 in 54 days on 16,384 GPUs"'


def counted(text: str, name: str) -> Fraction | None:
    """The mean time of one part between failures, in seconds and exact; None for other texts.
    Raises UnitError where the input is not of such parts."""
    part = name.partition("__")[0].removesuffix("_mttf")
    if part == name or not re.search(" (of|in) ", text):
        return None

    def refused(rule: str) -> UnitError:
        return UnitError(f"{name} = {json.dumps(text[:60], ensure_ascii=False)} {rule}")

    if match := _A_TIME.fullmatch(text.strip()):
        failures, parts, things, unit = match.groups()
        span = "1"
    elif match := _IN_TIME.fullmatch(text.strip()):
        failures, span, unit, parts, things = match.groups()
    else:
        raise refused(f"is no count of failures; {_RULE}")
    words = _PARTS.get(part, (part,))
    if things.lower() not in {word.lower() + end for word in words for end in ("", "s", "es")}:
        remedy = "node_mttf is of nodes, interruption_mttf of GPUs and all causes"
        raise refused(f"counts {things}, and {name} is of a {words[0]}; {remedy}")
    number, size, time = (Fraction(re.sub("[_,]", "", each)) for each in (failures, parts, span))
    try:
        second = Fraction(repr(factor(unit, "s")))
        return size * time * second / number
    except (UnitError, ZeroDivisionError):
        raise refused(f"has no time of failures; {_RULE}") from None
