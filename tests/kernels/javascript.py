"""Run JavaScript in node over rows of numbers, passed as files of plain float64."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

NODE = shutil.which("node") or shutil.which("nodejs")


def run(source: str, inputs: Any, outputs: int, folder: Path) -> Any:
    """Call the source's `evaluate`, from array to array, for each row of the inputs."""
    inputs = np.ascontiguousarray(inputs, np.float64)
    given, found, program = folder / "given", folder / "found", folder / "program.js"
    given.write_bytes(inputs.tobytes())
    program.write_text(
        source
        + f"""
const fs = require("fs"), rows = {len(inputs)}, width = {inputs.shape[1]};
const bytes = fs.readFileSync("{given}");
const given = new Float64Array(new Uint8Array(bytes).buffer);
const found = new Float64Array(rows * {outputs});
for (let row = 0; row < rows; row++)
  found.set(evaluate(given.subarray(row * width, (row + 1) * width)), row * {outputs});
fs.writeFileSync("{found}", found);
"""
    )
    assert NODE
    subprocess.run([NODE, program], check=True, timeout=120)
    return np.frombuffer(found.read_bytes()).reshape(len(inputs), outputs)
