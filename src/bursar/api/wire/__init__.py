"""The wire format: typed dictionaries that the API sends and the client reads."""

from bursar.api.wire.cost import *  # noqa: F403
from bursar.api.wire.fleet import *  # noqa: F403
from bursar.api.wire.jobs import *  # noqa: F403
