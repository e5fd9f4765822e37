"""The conformance suite for backends. A test class that inherits it holds your backend to the same promises.

In a test module of your project, with pytest installed::

    from stockade.testing import BackendContract

    class TestMine(BackendContract):
        backend = "mine"                       # a name, or the object itself
        accept = {"disk": "absent"}            # a guarantee that the backend cannot hold, as its page says

Change an attribute of ``Expectations`` from its default for each promise that the backend does not make.
"""

from stockade.testing.base import Expectations
from stockade.testing.concurrency import ConcurrencyContract
from stockade.testing.feeding import FeedingContract
from stockade.testing.files import FilesContract
from stockade.testing.inside import InsideContract
from stockade.testing.interpreters import InterpretersContract
from stockade.testing.languages import LanguagesContract
from stockade.testing.limits import LimitsContract
from stockade.testing.outcomes import OutcomesContract
from stockade.testing.receipts import ReceiptsContract
from stockade.testing.steering import SteeringContract
from stockade.testing.streaming import StreamingContract
from stockade.testing.streams import StreamsContract
from stockade.testing.workspaces import WorkspacesContract

__all__ = ["BackendContract", "Expectations"]


class BackendContract(
    OutcomesContract,
    LimitsContract,
    LanguagesContract,
    InterpretersContract,
    StreamsContract,
    StreamingContract,
    SteeringContract,
    FeedingContract,
    FilesContract,
    InsideContract,
    WorkspacesContract,
    ConcurrencyContract,
    ReceiptsContract,
):
    """All tests of the suite: the promises of a run on any backend."""
