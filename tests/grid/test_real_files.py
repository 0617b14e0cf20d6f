"""Files of others, read where they lie: FLEETCUBE_FILES names folders, none is in the repository.

Prints how many were read whole, with fields that are not understood, and refused, by format:

    FLEETCUBE_FILES=~/Megatron-LM:~/maxtext pytest -s tests/grid/test_real_files.py
"""

import os
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from fleetcube import InputError
from fleetcube.formats.read import read_job, spec_of

FOLDERS = [Path(each) for each in os.environ.get("FLEETCUBE_FILES", "").split(":") if each]
ENDINGS = (".sh", ".yaml", ".yml", ".toml", ".json")
OTHER = ("is no file that fleetcube reads", "has no arguments of", "has no trainer with")


@pytest.mark.skipif(not FOLDERS, reason="FLEETCUBE_FILES names no folder of frameworks' files")
def test_every_file_is_read_or_refused_in_one_line() -> None:
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    files = [path for folder in FOLDERS for path in sorted(folder.rglob("*")) if path.is_file()]
    for path in (path for path in files if path.suffix in ENDINGS):
        try:
            job = read_job(str(path))
            spec_of(replace(job, open_inputs={}))
            counts[job.table.framework]["with leftovers" if job.unknown else "whole"] += 1
        except InputError as error:
            other = any(words in str(error) for words in OTHER)
            counts["not a job's" if other else path.suffix]["refused"] += 1
    for framework, row in sorted(counts.items()):
        print(f"{framework}: {', '.join(f'{count} {what}' for what, count in row.items())}")
    assert sum(row["whole"] + row["with leftovers"] for row in counts.values())
