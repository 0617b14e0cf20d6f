"""The table of inputs, declared with the physics of their topics."""

import importlib

from ..declare import Input
from . import TOPICS

BY_TOPIC: dict[str, tuple[Input, ...]] = {
    topic: importlib.import_module(f"{__package__}.{topic}.inputs").INPUTS
    for topic in TOPICS
    if topic != "feasibility"  # which has no inputs
}
INPUTS: dict[str, Input] = {row.name: row for rows in BY_TOPIC.values() for row in rows}
TOPIC_OF: dict[str, str] = {row.name: topic for topic, rows in BY_TOPIC.items() for row in rows}
