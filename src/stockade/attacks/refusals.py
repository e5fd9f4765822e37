"""The kinds of refusals, and whether a run met one.

``errno [NAME]``        the program got this errno, and exited with the sentinel for a refusal
``denied NAME``         the program got this errno where it expected none, and failed
``proxy TEXT``          the program exited with the sentinel for a refusal, and the run's proxy refused with this text
``limit GUARANTEE``     the run ended before the program could report success, and the verdict names this limit
``crash SIGNAL``        the program died of this signal
``cut STREAM``          the program wrote all its output, and exactly the limit was kept
``prompt SECONDS``      the run completed within this time
``verdict TEXT``        the outcome, then the limit, the exit code or the signal if there is one
``says TEXT``           the program failed, and its output contains this text
``A | B``               either of the two
``admitted WORD``       the attack succeeds, and the receipt says so: the guarantee's note contains this word
"""

from __future__ import annotations

import errno
import signal

from stockade.attacks.corpus import COULD_NOT_RUN, REFUSED, SUCCEEDED, Attack
from stockade.attacks.policies import WALL_SECONDS
from stockade.policy.guarantees import Guarantee
from stockade.policy.model import Policy
from stockade.runs.result import Outcome, Result


def met(refusals: str, result: Result, seconds: float, attack: Attack) -> tuple[str, str]:
    """Return the one of ``refusals`` that the run met, or how its result differs from all of them."""
    differences = []
    for refusal in refusals.split(" | "):
        difference = _unlike(refusal, result, seconds, attack)
        if not difference:
            return refusal, ""
        differences.append(difference)
    return "", "; ".join(differences)


def has_succeeded(result: Result, seconds: float, attack: Attack) -> bool:
    """Return whether the confined run shows the same success as the control run must show."""
    kind, *rest = attack.control.get("success", "exit").split()
    done = result.exit_code == SUCCEEDED or _reports_success(result)
    if kind == "alive":
        return seconds >= WALL_SECONDS - 1
    if kind == "delayed":
        return done and seconds >= float(rest[0])
    if kind == "bytes":
        return done and len(getattr(result, f"{rest[0]}_bytes", b"")) >= int(rest[1])
    if kind in {"status", "signal"}:
        return result.limit is None and result.ok
    return done


def _unlike(refusal: str, result: Result, seconds: float, attack: Attack) -> str:
    """Return how the result differs from ``refusal``, or an empty text."""
    kind, *rest = refusal.split()
    outcome = result.outcome
    if kind == "errno":
        refused_line = next((line for line in result.stdout.splitlines() if line.startswith("REFUSED")), "")
        good = (
            outcome is Outcome.FAILED
            and result.exit_code == REFUSED
            and refused_line != ""
            and all(x in refused_line for x in rest)
        )
    elif kind == "denied":
        good = outcome is Outcome.FAILED and _failed_with(result, rest[0])
    elif kind == "says":
        good = outcome is Outcome.FAILED and refusal.partition(" ")[2] in f"{result.stdout}{result.stderr}"
    elif kind == "proxy":
        text, use = refusal.partition(" ")[2], result.network
        refused = use is not None and any(text in each.reason for each in use.refusals)
        good = outcome is Outcome.FAILED and result.exit_code == REFUSED and refused
    elif kind == "limit":
        good = outcome is Outcome.LIMIT_EXCEEDED and result.limit == rest[0] and not _reports_success(result)
    elif kind == "crash":
        good = outcome is Outcome.CRASHED and result.signal == signal.Signals[rest[0]] and result.limit is None
    elif kind == "cut":
        good = _is_cut(result, rest[0], attack)
    elif kind == "prompt":
        good = outcome is Outcome.FAILED and result.exit_code == SUCCEEDED and seconds < float(rest[0])
    elif kind == "verdict":
        return "" if _verdict(result) == rest else f"the verdict is {' '.join(_verdict(result))}"
    elif kind == "admitted":
        held = result.enforcement[Guarantee(attack.guarantee)]
        good = result.exit_code == SUCCEEDED and rest[0] in held.note
        return "" if good else f"not admitted in the note: {held.note!r}"
    else:
        raise ValueError(f"{attack.id}: unknown refusal: {refusal}")
    return "" if good else f"exit {result.exit_code}, {seconds:.2f} s"


def _reports_success(result: Result) -> bool:
    """Return whether the program reported success: a limit that ends a run only afterwards has held nothing."""
    return "ATTACK SUCCEEDED" in result.stdout


def _failed_with(result: Result, name: str) -> bool:
    if result.exit_code == COULD_NOT_RUN:
        return f"unexpected {name}" in result.stdout
    if result.error is not None and f"[Errno {getattr(errno, name)}]" in result.error.message:
        return True
    return result.exit_code == 1 and (f"[Errno {getattr(errno, name)}]" in result.stderr or name in result.stderr)


def _is_cut(result: Result, stream: str, attack: Attack) -> bool:
    kept, omitted = getattr(result, f"{stream}_bytes"), getattr(result, f"{stream}_omitted")
    limit = Policy.parse(dict(attack.policy)).limits.output
    return len(kept) == limit and omitted > 0 and result.exit_code == SUCCEEDED


def _verdict(result: Result) -> list[str]:
    parts = [result.outcome.value]
    if result.limit is not None:
        parts.append(result.limit.value)
    elif result.signal is not None:
        parts.append(signal.Signals(result.signal).name)
    elif result.exit_code:
        parts.append(str(result.exit_code))
    return parts
