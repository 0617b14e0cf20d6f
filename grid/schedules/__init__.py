"""Pipeline schedules: one played pass by pass, that of a job, and its picture.

May be imported by the rooms above and the command line.
"""
