"""The catalog: hardware, fabrics, models, storage and failure rates, with unit, source, date."""

from .entry import FROM_FILES as FROM_FILES
from .entry import KINDS as KINDS
from .entry import CatalogError as CatalogError
from .entry import Record as Record
from .records import AUTO as AUTO
from .records import CONFIGURED as CONFIGURED
from .records import NONE as NONE
from .records import editions as editions
from .records import from_packages as from_packages
from .records import is_path as is_path
from .records import json_label as json_label
from .records import kind as kind
from .records import linked as linked
from .records import own_labels as own_labels
from .records import record as record
from .units import unit_registry as unit_registry
from .user_records import FileLabel as FileLabel
from .user_records import opened as opened
