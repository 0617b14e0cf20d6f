"""A heat pump that warms a house: a graph of a dozen formulas."""

from typing import Any

from fleetcube.graph import Roles, alternative, count, np, option, real, where

HOUR = 3600.0
INPUTS = (
    real("outside_temperature", "K", None, "temperature of the outside air"),
    real("supply_temperature", "K", 308.0, "temperature of the water that warms the floor"),
    real("room_temperature", "K", 294.0, "temperature of the rooms"),
    real("heat_loss", "W/K", 200.0, "heat that the house loses for each kelvin of difference"),
    real("carnot_share", "1", 0.45, "share of Carnot's performance that is reached", high=1.0),
    real("rated_heat", "W", 9000.0, "heat that the pump can give"),
    real("electricity_price", "USD/J", 1e-7, "price of electricity"),
    count("heating_hours", 2000, "hours of heating in a year"),
    option("defrost", "none", ("none", "reverse"), "how ice is removed"),
)
ROLES = Roles(
    layout=frozenset({"heat_demand"}),
    counts={"heating_days": 1.0},
    positive=frozenset({"carnot_limit"}),
)


def temperature_lift(supply_temperature: Any, outside_temperature: Any) -> Any:
    """Difference of temperature that the pump overcomes.

    max(T_s - T_o, 1)

    Returns: [K] difference
    Range: from 1 K on; below, the heat pump idles
    Source: by definition
    """
    return np.maximum(supply_temperature - outside_temperature, 1.0)


def carnot_limit(supply_temperature: Any, temperature_lift: Any) -> Any:
    """Heat over work of an ideal pump.

    T_s / lift

    Returns: [1] heat over work
    Source: Carnot 1824
    """
    return supply_temperature / temperature_lift


@alternative("defrost_factor", defrost="none")
def without_defrost() -> Any:
    """Work with defrosting over work without.

    1

    Returns: [1] factor
    Source: by definition
    """
    return 1.0


@alternative("defrost_factor", defrost="reverse")
def reversed_cycle(outside_temperature: Any) -> Any:
    """1.1 below 280 K"""
    return where(outside_temperature < 280.0, 1.1, 1.0)


def performance(carnot_limit: Any, carnot_share: Any, defrost_factor: Any) -> Any:
    """Coefficient of performance.

    share * limit / defrost

    Returns: [1] heat over work
    Source: EN 14511
    """
    return carnot_share * carnot_limit / defrost_factor


def heat_demand(heat_loss: Any, room_temperature: Any, outside_temperature: Any) -> Any:
    """Heat that the house needs.

    L max(T_r - T_o, 0)

    Returns: [W] power
    Source: EN 12831
    """
    return heat_loss * np.maximum(room_temperature - outside_temperature, 0.0)


def electric_power(heat_demand: Any, performance: Any) -> Any:
    """Electric power of the pump.

    demand / performance

    Returns: [W] power
    Source: by definition
    """
    return heat_demand / performance


def heating_days(heating_hours: Any) -> Any:
    """Days of heating in a year.

    ceil(h / 24)

    Returns: [1] days
    Source: by definition
    """
    return np.ceil(heating_hours / 24.0)


def yearly_energy(electric_power: Any, heating_hours: Any) -> Any:
    """Electricity of a year.

    P h

    Returns: [J] energy
    Source: by definition
    """
    return electric_power * heating_hours * HOUR


def yearly_cost(yearly_energy: Any, electricity_price: Any) -> Any:
    """Price of a year's electricity.

    E p

    Returns: [USD] price
    Source: by definition
    """
    return yearly_energy * electricity_price


def infeasible_reason(heat_demand: Any, rated_heat: Any, supply_temperature: Any) -> Any:
    """Why the pump cannot run.

    1 where the house needs more heat than it gives, 2 where the water is too hot for it

    Returns: [flag] code
    Flags: 0 runs, 1 too_small, 2 too_hot
    Source: by definition
    """
    return where(heat_demand > rated_heat, 1.0, where(supply_temperature > 338.0, 2.0, 0.0))
