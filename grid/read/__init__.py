"""Cubes that are read without being stored: computed where they are sliced, looked up in between.

May be imported by what is above; knows neither `reduce` nor `store`.
"""
