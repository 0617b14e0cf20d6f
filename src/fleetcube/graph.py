"""What a module of formulas is made of: declared inputs, plain functions, this `np` and `where`."""

from fleetcube.kernels.alternatives import alternative as alternative
from fleetcube.kernels.declare import count as count
from fleetcube.kernels.declare import option as option
from fleetcube.kernels.declare import real as real
from fleetcube.kernels.declare import share as share
from fleetcube.kernels.declare import switch as switch
from fleetcube.kernels.graph.formulas import Graph as Graph
from fleetcube.kernels.graph.modules import quantity as quantity
from fleetcube.kernels.graph.roles import Roles as Roles
from fleetcube.kernels.ops import np as np
from fleetcube.kernels.ops import where as where
