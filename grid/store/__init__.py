"""Cubes on a disk or in a store: written, resumed, appended to, opened, verified.

May be imported by what is above; knows neither `reduce` nor `read`. `places` is where bytes lie.
"""
