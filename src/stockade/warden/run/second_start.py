"""A second start: a run whose sandbox died from outside before the program began gets another sandbox, once."""

from __future__ import annotations

from stockade.warden.run.phase import Phase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stockade.warden.run.supervision import Supervision


def start_again(supervision: Supervision) -> bool:
    """Start the run once more if its program has certainly not begun. Return whether it starts again.

    Call this when all processes of the guest are dead and all of their reports are read. The process that becomes the
    guest reports ``exec`` before any code of the guest runs, so a missing report proves that none has run.
    """
    run, execution = supervision.run, supervision.execution
    failed = run.gone or run.cause is not None or run.failure is not None or supervision.ran_out_of_memory()
    begun = run.phase >= Phase.RUNNING or supervision.completed is not None
    if failed or begun or run.begun_again or not execution.may_start_again:
        return False
    run.begun_again = True
    supervision.output.close()
    supervision.denials.close()
    run.stdin.rewind()
    run.supervision, run.phase = None, Phase.QUEUED
    execution.release()
    run.owner.begin(run, supervision.launch)
    return True
