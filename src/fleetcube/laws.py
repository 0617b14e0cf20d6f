"""The laws as plain formulas, for scalars and arrays: `from fleetcube.laws import checkpoint`."""

from fleetcube.kernels.laws import checkpoint as checkpoint
from fleetcube.kernels.laws import checkpoint_tiers as checkpoint_tiers
from fleetcube.kernels.laws import collectives as collectives
from fleetcube.kernels.laws import layer as layer
from fleetcube.kernels.laws import learning as learning
from fleetcube.kernels.laws import ownership as ownership
from fleetcube.kernels.laws import pipeline as pipeline
from fleetcube.kernels.laws import reduce_scatter as reduce_scatter
from fleetcube.kernels.laws import reliability as reliability
from fleetcube.kernels.laws import repair as repair
from fleetcube.kernels.laws import roofline as roofline
from fleetcube.kernels.laws import scaling as scaling
from fleetcube.kernels.laws import stages as stages
from fleetcube.kernels.laws import statistics as statistics
from fleetcube.kernels.laws import stragglers as stragglers
from fleetcube.kernels.laws import topology as topology
from fleetcube.kernels.laws import torus as torus
