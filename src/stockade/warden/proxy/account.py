"""The account of a proxy: counts with an upper bound, shared by the threads of all connections."""

from __future__ import annotations

import _thread
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stockade.core.launch import ProxyOrder

SENT, RECEIVED = 0, 1
_MOST_LINES = 64
"""Targets, and refusals, that the account names. It only counts all others."""
_LONGEST = 300


class Refused(Exception):
    """A request that the proxy refuses: an HTTP status, and the reason in a sentence."""

    def __init__(self, status: int, reason: str, target: str = "") -> None:
        super().__init__(reason)
        self.status, self.reason, self.target = status, reason, target


class Account:
    """Counts requests and bytes, and holds them under the order's bounds."""

    def __init__(self, order: ProxyOrder) -> None:
        self._order = order
        self._lock = _thread.allocate_lock()
        self._requests = self._refused = self._unnamed = 0
        self._bytes = [0, 0]
        self._free_at = [0.0, 0.0]
        self._targets: dict[str, list[int]] = {}
        self._refusals: dict[tuple[str, str], int] = {}

    def admit(self) -> None:
        """Count a request. Raises ``Refused`` if the run has made too many, or has no bytes left."""
        order = self._order
        with self._lock:
            self._requests += 1
            if order.requests is not None and self._requests > order.requests:
                raise Refused(403, f"the run has made {order.requests} requests, the most that network.requests allows")
            for name, most, used in self._bounds():
                if most is not None and used >= most:
                    raise Refused(403, f"the run has used the {most} bytes of network.{name}")

    def exhausted(self, more: int) -> bool:
        """Return whether ``more`` requests beyond the bound were made: then the proxy stops answering."""
        return self._order.requests is not None and self._requests >= self._order.requests + more

    def accept(self, target: str) -> str:
        """Count a request to ``target`` that is let through; return the name for its bytes."""
        with self._lock:
            if target not in self._targets and len(self._targets) >= _MOST_LINES:
                target = ""
            self._targets.setdefault(target, [0, 0, 0])[2] += 1
        return target

    def refuse(self, refusal: Refused) -> None:
        """Count a refusal."""
        key = one_line(refusal.target), one_line(refusal.reason)
        with self._lock:
            self._refused += 1
            if key in self._refusals or len(self._refusals) < _MOST_LINES:
                self._refusals[key] = self._refusals.get(key, 0) + 1
            else:
                self._unnamed += 1

    def carry(self, target: str, way: int, count: int) -> float:
        """Count bytes before they move on; return their turn under the rate, by the monotonic clock.

        Raises ``Refused`` if they are more than the run has left.
        """
        rate = self._order.rate
        with self._lock:
            name, most, used = self._bounds()[way]
            if most is not None and used + count > most:
                raise Refused(403, f"the run has used the {most} bytes of network.{name}", target)
            self._bytes[way] += count
            self._targets[target][way] += count
            now = time.monotonic()
            begin = max(self._free_at[way], now)
            if rate is not None:
                self._free_at[way] = begin + count / rate
        return begin

    def _bounds(self) -> tuple[tuple[str, int | None, int], tuple[str, int | None, int]]:
        sent, received = self._bytes
        return ("sent", self._order.sent, sent), ("received", self._order.received, received)

    def encode(self) -> bytes:
        """Return the account as lines of fields with tabs between them."""
        with self._lock:
            lines = ["\t".join(map(str, ("all", self._requests, self._refused, *self._bytes)))]
            lines += [f"to\t{name}\t{each[2]}\t{each[0]}\t{each[1]}" for name, each in self._targets.items()]
            lines += [f"refused\t{name}\t{count}\t{reason}" for (name, reason), count in self._refusals.items()]
            lines += [f"unnamed\t{self._unnamed}", "end"]
        return "\n".join(lines).encode("ascii", "replace")


def one_line(text: str) -> str:
    """Return ``text`` as one field of a line, in printable ASCII."""
    return "".join(each if " " <= each <= "~" else "?" for each in text[:_LONGEST])
