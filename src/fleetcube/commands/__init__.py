"""Commands that answer questions about a spec or a cluster, one module each."""

import click

from fleetcube.commands.calibrate import calibrate
from fleetcube.commands.calibrations import calibrations
from fleetcube.commands.compare import compare
from fleetcube.commands.explore import explore
from fleetcube.commands.optimize import optimize
from fleetcube.commands.plan import plan
from fleetcube.commands.plot import plot
from fleetcube.commands.reduce import reduce
from fleetcube.commands.schema import schema
from fleetcube.commands.sensitivity import sensitivity
from fleetcube.commands.solve import solve
from fleetcube.commands.uncertainty import uncertainty
from fleetcube.commands.validate import validate
from fleetcube.commands.wall import wall

COMMANDS: tuple[click.Command, ...] = (
    *(calibrate, calibrations, compare, explore, optimize, plan, plot),
    *(reduce, schema, sensitivity, solve, uncertainty, validate, wall),
)
