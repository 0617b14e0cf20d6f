"""Sweeps that keep the answer only: sums, winners, quantiles, fronts, crossings.

May be imported by `ask` and all that is above; knows neither `store` nor `read`.
"""
