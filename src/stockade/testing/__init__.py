"""The conformance suite: inherit it, and a backend of your own is held to what the built-in ones are.

In a test module of your project, with pytest installed::

    from stockade.testing import BackendContract

    class TestMine(BackendContract):
        backend = "mine"                       # a name, or the object itself
        accept = {"disk": "absent"}            # what it cannot hold, and says so on its page

Each attribute of ``Expectations`` that differs from its default is a promise that the backend does not make.
"""

from stockade.testing.base import Expectations
from stockade.testing.concurrency import ConcurrencyContract
from stockade.testing.feeding import FeedingContract
from stockade.testing.files import FilesContract
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
    WorkspacesContract,
    ConcurrencyContract,
    ReceiptsContract,
):
    """Everything that a run promises, whatever the backend."""
