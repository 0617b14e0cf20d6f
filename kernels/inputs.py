"""The table of inputs, declared with the physics of their topics."""

import importlib

from . import physics
from .declare import Input

BY_TOPIC: dict[str, tuple[Input, ...]] = {
    topic: importlib.import_module(f"{physics.__name__}.{topic}.inputs").INPUTS
    for topic in physics.TOPICS
    if topic != "feasibility"  # which has no inputs
}
INPUTS: dict[str, Input] = {row.name: row for rows in BY_TOPIC.values() for row in rows}
TOPIC_OF: dict[str, str] = {row.name: topic for topic, rows in BY_TOPIC.items() for row in rows}
