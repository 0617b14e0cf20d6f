"""Pictures, by matplotlib, which is imported where one is drawn.

May be imported by the command line only.
"""
