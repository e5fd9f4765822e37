"""What a refusal may be, and whether a run met it.

``errno [NAME]``        the program met the errno that it names, and said so by its sentinel
``denied NAME``         the program met that errno where it expected none, and fell over
``limit GUARANTEE``     the run was ended before the program could say that it succeeded; the verdict names it
``crash SIGNAL``        the program died of that signal
``cut STREAM``          the program wrote all it wanted, and exactly the limit was kept
``prompt SECONDS``      the verdict is there by then, completed
``verdict WORDS``       the outcome is this, and the limit, exit code or signal that may follow
``says WORDS``          the program could not go on, and these words tell why
``A | B``               either of the two
``admitted WORD``       it is not refused, and the receipt says so: the enforcement's note has that word in it
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
    """Return the refusal that was met out of ``refusals``, or how the result differs from all of them."""
    differences = []
    for refusal in refusals.split(" | "):
        difference = _unlike(refusal, result, seconds, attack)
        if not difference:
            return refusal, ""
        differences.append(difference)
    return "", "; ".join(differences)


def has_succeeded(result: Result, seconds: float, attack: Attack) -> bool:
    """Return whether the confined run shows what the control's success looks like."""
    word, *rest = attack.control.get("success", "exit").split()
    done = result.exit_code == SUCCEEDED or _says_so(result)
    if word == "alive":
        return seconds >= WALL_SECONDS - 1
    if word == "delayed":
        return done and seconds >= float(rest[0])
    if word == "bytes":
        return done and len(getattr(result, f"{rest[0]}_bytes", b"")) >= int(rest[1])
    if word in {"status", "signal"}:
        return result.limit is None and result.ok
    return done


def _unlike(refusal: str, result: Result, seconds: float, attack: Attack) -> str:
    """Return how the result differs from one refusal; an empty text where it does not."""
    word, *rest = refusal.split()
    outcome = result.outcome
    if word == "errno":
        refused_line = next((line for line in result.stdout.splitlines() if line.startswith("REFUSED")), "")
        good = (
            outcome is Outcome.FAILED
            and result.exit_code == REFUSED
            and refused_line != ""
            and all(x in refused_line for x in rest)
        )
    elif word == "denied":
        good = outcome is Outcome.FAILED and _fell_over(result, rest[0])
    elif word == "says":
        good = outcome is Outcome.FAILED and refusal.partition(" ")[2] in f"{result.stdout}{result.stderr}"
    elif word == "limit":
        good = outcome is Outcome.LIMIT_EXCEEDED and result.limit == rest[0] and not _says_so(result)
    elif word == "crash":
        good = outcome is Outcome.CRASHED and result.signal == signal.Signals[rest[0]] and result.limit is None
    elif word == "cut":
        good = _is_cut(result, rest[0], attack)
    elif word == "prompt":
        good = outcome is Outcome.FAILED and result.exit_code == SUCCEEDED and seconds < float(rest[0])
    elif word == "verdict":
        return "" if _words(result) == rest else f"the verdict is {' '.join(_words(result))}"
    elif word == "admitted":
        held = result.enforcement[Guarantee(attack.guarantee)]
        good = result.exit_code == SUCCEEDED and rest[0] in held.note
        return "" if good else f"not admitted in the note: {held.note!r}"
    else:
        raise ValueError(f"{attack.id}: no such refusal: {refusal}")
    return "" if good else f"exit {result.exit_code}, {seconds:.2f} s"


def _says_so(result: Result) -> bool:
    """Return whether the program got to its end: a limit that is told of afterwards has held nothing."""
    return "ATTACK SUCCEEDED" in result.stdout


def _fell_over(result: Result, name: str) -> bool:
    if result.exit_code == COULD_NOT_RUN:
        return f"unexpected {name}" in result.stdout
    if result.error is not None and f"[Errno {getattr(errno, name)}]" in result.error.message:
        return True
    return result.exit_code == 1 and (f"[Errno {getattr(errno, name)}]" in result.stderr or name in result.stderr)


def _is_cut(result: Result, stream: str, attack: Attack) -> bool:
    kept, omitted = getattr(result, f"{stream}_bytes"), getattr(result, f"{stream}_omitted")
    limit = Policy.parse(dict(attack.policy)).limits.output
    return len(kept) == limit and omitted > 0 and result.exit_code == SUCCEEDED


def _words(result: Result) -> list[str]:
    words = [result.outcome.value]
    if result.limit is not None:
        words.append(result.limit.value)
    elif result.signal is not None:
        words.append(signal.Signals(result.signal).name)
    elif result.exit_code:
        words.append(str(result.exit_code))
    return words
