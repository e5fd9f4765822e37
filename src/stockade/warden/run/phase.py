"""The phases of a run, in their order."""

from __future__ import annotations


class Phase:
    """How far a run has come. A run moves forward only, and may skip phases. The one way back is a second start.

    Plain numbers, not an ``enum.IntEnum``: the module ``enum`` alone takes 10 to 20 ms of the warden's start.
    """

    IDLE = 0
    """The socket is open, and no launch has come."""
    QUEUED = 1
    """The launch has come, and the run waits for its turn or for an instance."""
    SETTING_UP = 2
    """The run has an instance, which may not be ready yet."""
    HANDED_OVER = 3
    """The guest's process gets the launch, so the program may begin at any moment."""
    RUNNING = 4
    """The program has begun."""
    ENDED = 5
    """No process of the guest is left, or its only one was killed and is being reaped."""
    CONCLUDING = 6
    """The outcome is fixed. A collector may still read files."""
    ANSWERED = 7
    """The caller has its answer, or needs none."""
