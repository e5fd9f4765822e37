"""Read the account of a run's proxy. The proxy has parsed bytes of the guest, so nothing in it is taken on trust."""

from __future__ import annotations

from stockade.runs.result import NetworkRefusal, NetworkTarget, NetworkUse

_MOST_LINES = 200
_LONGEST = 1000
_MOST_DIGITS = 18
_MALFORMED = "the proxy's account cannot be read"


def read(account: bytes | None, trouble: str) -> NetworkUse | None:
    """Return the use that ``account`` describes, or ``None`` for a run without a way out.

    ``trouble`` is the reason why the account is missing or ends early.
    """
    if account is None:
        return None
    if not account:
        return NetworkUse(error=trouble or None)
    try:
        return _parse(account.decode("ascii"), trouble)
    except ValueError:
        return NetworkUse(error=trouble or _MALFORMED)


def counted(use: NetworkUse | None) -> dict[str, int]:
    """Return the fields of ``Usage`` that ``use`` fills in; none where figures are missing."""
    if use is None or use.error is not None:
        return {}
    return {"network_requests": use.requests, "network_sent": use.sent, "network_received": use.received}


def _parse(text: str, trouble: str) -> NetworkUse:
    lines = [line.split("\t") for line in text.split("\n", _MOST_LINES)]
    totals, *named, unnamed, end = lines
    kind, more = unnamed
    if end != ["end"] or totals[0] != "all" or kind != "unnamed":
        raise ValueError(_MALFORMED)
    requests, refused, sent, received = map(_number, totals[1:])
    targets, refusals = [], []
    for kind, name, *rest in named:
        if kind == "to":
            count, out, back = map(_number, rest)
            targets.append(NetworkTarget(_text(name), count, out, back))
        elif kind == "refused":
            count_text, reason = rest
            refusals.append(NetworkRefusal(_text(name), _text(reason), _number(count_text)))
        else:
            raise ValueError(_MALFORMED)
    return NetworkUse(
        requests=requests,
        refused=refused,
        sent=sent,
        received=received,
        targets=tuple(targets),
        refusals=tuple(refusals),
        unnamed=_number(more),
        error=trouble or None,
    )


def _number(text: str) -> int:
    if not text.isdigit() or len(text) > _MOST_DIGITS:
        raise ValueError(_MALFORMED)
    return int(text)


def _text(text: str) -> str:
    if len(text) > _LONGEST or not text.isprintable():
        raise ValueError(_MALFORMED)
    return text
