"""Parsing of units: text becomes a number in SI base units, or one clear error line."""

import math

import pytest

from fleetcube.catalog.units import USUAL, UnitError, _factor, parse

from ..table import each

# SI brochure and IEC 80000-13: k, M, G, T, P, E are powers of ten; Ki, Mi, Gi, Ti powers of 1024;
# b and bit are bits, B bytes. A Julian year has 365.25 days.
GOOD = [
    ("400 Gbps", "B/s", 50e9),
    ("400 GBps", "B/s", 400e9),
    ("400 Gbit/s", "B/s", 50e9),
    ("400 Gb/s", "B/s", 50e9),
    ("400Gbit/s", "B/s", 50e9),
    ("50 GB/s", "B/s", 50e9),
    ("1 GiB/s", "B/s", 2.0**30),
    ("3.35 TB/s", "B/s", 3.35e12),
    ("6 GB/min", "B/s", 1e8),
    ("1 bit/s", "B/s", 0.125),
    ("80 GB", "B", 80e9),
    ("80 GiB", "B", 80 * 2.0**30),
    ("64 Gib", "B", 8 * 2.0**30),
    ("3 kB", "B", 3e3),
    ("3 KB", "B", 3e3),
    ("3 KiB", "B", 3072.0),
    ("1.5e3 MB", "B", 1.5e9),
    ("50_000 h", "s", 1.8e8),
    ("inf h", "s", math.inf),
    ("infinite", "s", math.inf),
    ("infinite h", "s", math.inf),
    ("inf", "B", math.inf),
    ("30 d", "s", 2_592_000.0),
    ("2 min", "s", 120.0),
    ("1 week", "s", 604_800.0),
    ("1 yr", "s", 365.25 * 86_400),
    ("5 ms", "s", 5e-3),
    ("5 us", "s", 5e-6),
    ("5 \N{MICRO SIGN}s", "s", 5e-6),
    ("5 \N{GREEK SMALL LETTER MU}s", "s", 5e-6),
    ("5 ns", "s", 5e-9),
    ("  5   hours ", "s", 18_000.0),
    (".5 h", "s", 1800.0),
    ("-5 s", "s", -5.0),
    ("989 TFLOP/s", "FLOP/s", 989e12),
    ("989 TFLOPS", "FLOP/s", 989e12),
    ("2.5 PFLOP/s", "FLOP/s", 2.5e15),
    ("1 EFLOP", "FLOP", 1e18),
    ("295 FLOP/B", "FLOP/B", 295.0),
    ("10 1/s", "1/s", 10.0),
    ("3 1/ms", "1/s", 3000.0),
    ("2 1/USD", "1/USD", 2.0),
    ("3 h", "USD/(USD/h)", 3.0),  # of derivatives
    ("10.2 kW", "W", 10_200.0),
    ("8", "1", 8.0),
    ("1e12", "1", 1e12),
    ("1_024", "1", 1024.0),
    ("1,024", "1", 1024.0),
    ("1,234,567.5", "1", 1_234_567.5),
    ("50,000 h", "s", 1.8e8),
    ("1,000.5 GB/s", "B/s", 1.0005e12),
    ("15T", "1", 15e12),
    ("15 T", "1", 15e12),
    ("1k", "1", 1e3),
    ("1K", "1", 1e3),
    ("2.3M", "1", 2_300_000.0),
    ("70B", "1", 70e9),
    ("1 TB/s", "B/s", 1e12),  # T is tera, B bytes, where there is a unit
    ("5 kB", "B", 5e3),
    ("5 B", "B", 5.0),
    ("1 t", "kg", 1e3),
    ("5 T", "1", 5e12),
    ("45 %", "1", 0.45),
    # 12 months are a year of 365.25 days
    ("730.5 USD/month", "USD/h", 1.0),
    ("$1,461/month", "USD/h", 2.0),
    ("2.5 USD", "USD", 2.5),
    ("15M USD", "USD", 15e6),
    ("15 M USD", "USD", 15e6),
    ("1.2B USD", "USD", 1.2e9),
    ("15 MUSD", "USD", 15e6),
    ("$2.5", "USD", 2.5),
    ("$15M", "USD", 15e6),
    ("$15M USD", "USD", 15e6),
    ("$ 1,500", "USD", 1500.0),
    ("$2.50/h", "USD/h", 2.5),
    ("2.5 USD/h", "USD/h", 2.5),
    ("$0.09/kWh", "USD/J", 0.09 / 3.6e6),
    ("1 cm^3/s", "m^3/s", 1e-6),
    ("3.6 m^3/h", "m^3/s", 1e-3),
    ("1 g/cm^3", "kg/m^3", 1000.0),
    ("0.4 kW/m^2/K", "W/m^2/K", 400.0),
    ("2 L/min", "m^3/s", 2e-3 / 60),
]


@each(("text", "base", "value"), GOOD, ids=[text for text, *_ in GOOD])
def test_a_unit_is_read_to_the_last_digit(text: str, base: str, value: float) -> None:
    assert parse(text, base, "name") == value


BAD = [
    ("50", "B/s", "has no unit"),
    ("50 GB", "B/s", "is not in B/s"),
    ("50 Gbit/s", "s", "is not in s"),
    ("700 J", "W", "is not in W"),
    ("8 GB", "1", "is a plain number and takes no unit"),
    ("5 parsecs", "s", "has an unknown unit 'parsecs'"),
    ("400 gbps", "B/s", "has an unknown unit 'gbps'"),  # case tells bits from bytes
    ("64 gib", "B", "has an unknown unit 'gib'"),
    ("30 m", "s", "is not in s"),  # minutes or metres
    ("fast", "B/s", "does not start with a number"),
    ("", "s", "does not start with a number"),
    ("nan s", "s", "does not start with a number"),
    ("1,00 h", "s", "has a comma that does not separate thousands"),
    ("0,500 h", "s", "has a comma that does not separate thousands"),  # a decimal comma
    ("1,0000", "1", "has a comma that does not separate thousands"),
    ("1,024,5", "1", "has a comma that does not separate thousands"),
    ("1000,000", "1", "has a comma that does not separate thousands"),
    ("15TB", "1", "is a plain number and takes no unit"),
    ("15T%", "1", "is a plain number and takes no unit"),
    ("$5", "1", "does not start with a number"),
    ("5 B", "USD", "has no unit"),
    ("5 Million USD", "USD", "has no known unit ('Million USD')"),
    ("infinitely", "B", "has an unknown unit 'ly'"),
    ("$5", "USD/h", "is not in USD/h"),
    ("5 M", "s", "has an unknown unit 'M'"),
    ("5 k h", "s", "has no known unit ('k h')"),
    ("1.2.3 s", "s", "has no known unit ('.3 s')"),
    ("5 s s", "s", "has no known unit ('s s')"),
    ("5 m^99", "m^3", "has no known unit ('m^99')"),
    ("5 m^3", "m^2", "is not in m^2"),
    ("5 __import__", "s", "has no known unit ('__import__')"),
    ("5 " + "s*" * 1000 + "s", "s", "has no known unit"),
]


@pytest.mark.parametrize(("text", "base", "rule"), BAD, ids=[text[:20] for text, *_ in BAD])
def test_a_refusal_names_the_value_the_rule_and_a_spelling(text: str, base: str, rule: str) -> None:
    with pytest.raises(UnitError) as error:
        parse(text, base, "write_bandwidth")
    message = str(error.value)
    said = text if len(text) <= 60 else f"{text[:57]}..."
    assert message.startswith(f'write_bandwidth = "{said}" ')
    assert rule in message
    assert "; write for example " in message
    assert "\n" not in message
    assert len(message) < 250


@pytest.mark.parametrize("text", ["20_000 USD/month", "$20,000/yr", "30 USD/h"])
def test_a_rent_is_no_price_to_buy(text: str) -> None:
    for name, rent, base in (
        ("node_price", "gpu_hour_price", "USD/h"),
        ("storage_price", "storage_rent", "USD/B/s"),
    ):
        with pytest.raises(UnitError, match=f"^{name} = .* is a rent, .*; give {rent}, ") as error:
            parse(text, "USD", name)
        assert parse(str(error.value).split('"')[-2], base, rent) > 0


@pytest.mark.parametrize("base", ["1/s", "1/USD", "USD/(USD/h)", "FLOP/USD"])
def test_the_spelling_that_a_refusal_suggests_is_read(base: str) -> None:
    with pytest.raises(UnitError) as error:
        parse("fast", base, "name")
    assert parse(str(error.value).split('"')[-2], base, "name") in (5.0, 10.0)


def test_a_value_beyond_floating_point_is_refused() -> None:
    with pytest.raises(UnitError):
        parse("1e300 EB", "B", "name")


def test_a_vast_exponent_does_not_hang() -> None:
    assert parse("1e-9999999 h", "s", "name") == 0
    with pytest.raises(UnitError, match="is too large"):
        parse("1e9999999 h", "s", "name")


@pytest.mark.parametrize("base", USUAL)
def test_usual_factors_are_those_of_the_registry(base: str) -> None:
    for unit, usual in USUAL[base].items():
        assert _factor(unit, base) == usual
