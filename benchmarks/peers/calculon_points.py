"""calculon's results for configurations read as JSON: one object of numbers for each.

Runs in an environment of its own. `--checkout` is a checkout of calculon's repository; standard
input holds a system and a list of configurations, each an application and an execution in
calculon's own form. The numbers are calculon's statistics, and sums over the operations of one
block that it does not report: those of matrix products, those that it marks to be recomputed, and
the latter as running totals.
"""

import argparse
import json
import logging
import sys
from typing import Any


def evaluate(system: Any, application: Any, execution: Any) -> dict[str, float]:
    """All numbers of one configuration."""
    from calculon.llm import Llm
    from calculon.system import System

    machine = System(system)
    model = Llm(Llm.Application(application), logging.getLogger("calculon"))
    model.compile(machine, Llm.Execution.from_json(execution))
    model.run(machine)
    numbers = model.get_stats_json(False)
    block = model._llm_block
    matrix = [layer for layer in block if layer.use_matrix_engine()]
    weighted = [layer for layer in matrix if layer.get_weight()]
    numbers["weight_flops"] = sum(layer.get_fw_flops() for layer in weighted)
    numbers["forward_flops"] = sum(layer.get_fw_flops() for layer in matrix)
    numbers["backward_flops"] = sum(
        layer.get_agrad_flops() + layer.get_wgrad_flops() for layer in matrix
    )
    numbers["matrix_recompute_flops"] = sum(
        layer.get_fw_flops() for layer in matrix if layer.get_recompute_flag()
    )
    total = numbers["running_recompute_flops"] = numbers["recompute_flops"] = 0.0
    for layer in block:
        total += layer.get_fw_flops()
        if layer.get_recompute_flag():
            numbers["running_recompute_flops"] += total
            numbers["recompute_flops"] += layer.get_fw_flops()
    return numbers


def main() -> None:
    parser = argparse.ArgumentParser(description="calculon's numbers at given configurations.")
    parser.add_argument("--checkout", required=True)
    sys.path.insert(0, parser.parse_args().checkout)
    question = json.load(sys.stdin)
    answers = [
        evaluate(question["system"], *configuration) for configuration in question["configurations"]
    ]
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
