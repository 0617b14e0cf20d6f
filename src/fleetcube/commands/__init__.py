"""Commands that answer questions about a spec or a cluster, one module each."""

import click

from fleetcube.commands.best import best
from fleetcube.commands.calibrate import calibrate
from fleetcube.commands.calibrations import calibrations
from fleetcube.commands.compare import compare
from fleetcube.commands.diagnose import diagnose
from fleetcube.commands.explore import explore
from fleetcube.commands.init import init
from fleetcube.commands.plan import plan
from fleetcube.commands.plot import plot
from fleetcube.commands.probe import probe
from fleetcube.commands.record import record
from fleetcube.commands.reduce import reduce
from fleetcube.commands.scaling_limit import scaling_limit
from fleetcube.commands.schema import schema
from fleetcube.commands.sensitivity import dominant_inputs, global_sensitivity, sensitivity
from fleetcube.commands.solve import solve
from fleetcube.commands.uncertainty import uncertainty
from fleetcube.commands.validate import validate

COMMANDS: tuple[click.Command, ...] = (
    *(
        best,
        calibrate,
        calibrations,
        compare,
        diagnose,
        dominant_inputs,
        explore,
        global_sensitivity,
        init,
    ),
    *(plan, plot, probe, record, reduce, scaling_limit, schema, sensitivity, solve, uncertainty),
    validate,
)
