"""The queue of runs: nothing that was accepted is lost, and every run gets one result.

A worker holds a run by a lease with a random token, which it renews by a heartbeat. Only the statement that names the
token of the present lease writes a result, so a worker that lost its lease writes none.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from sqlalchemy import ColumnElement, Connection, bindparam, delete, func, insert, select, update

from stockade.core.errors import JobError
from stockade.core.strict_json import dumps
from stockade.runs.result import GuestError, Outcome, Result
from stockade.service.database import (
    FINISHED,
    IS_FINISHED,
    IS_LEASED,
    IS_QUEUED,
    KEYS,
    LEASED,
    QUEUED,
    RUNS,
    Database,
    Row,
    Statement,
)
from stockade.service.settings import Settings

CANCELLED = Result(Outcome.CANCELLED, error=GuestError("Cancelled", "the owner of the run cancelled it"))
_SHOWN = tuple(column for column in RUNS.c if column.name not in ("request", "result", "asked"))
_FIND = Statement(
    select(*_SHOWN, RUNS.c.result, RUNS.c.asked).where(RUNS.c.key_id == bindparam("key"), RUNS.c.id == bindparam("run"))
)
_REPEATED = Statement(select(*_SHOWN).where(RUNS.c.key_id == bindparam("key"), RUNS.c.repeat == bindparam("again")))
_NEW = ("id", "key_id", "repeat", "asked", "batch", "labels", "request", "bytes", "created")
_INSERT = Statement(
    insert(RUNS)
    .values({name: bindparam(name) for name in _NEW} | {"state": QUEUED, "attempts": 0, "cancelled": False})
    .returning(*_SHOWN)
)
_WAITING = Statement(
    select(
        func.count().label("runs"),
        func.coalesce(func.sum(RUNS.c.bytes), 0).label("held"),
        func.count().filter(RUNS.c.key_id == bindparam("key")).label("own"),
    ).where(IS_QUEUED)
)
_FIRST = select(func.min(RUNS.c.number)).where(RUNS.c.key_id == KEYS.c.id, IS_QUEUED).scalar_subquery()
_HEADS = select(KEYS.c.id.label("key_id"), KEYS.c.name, KEYS.c.turn, _FIRST.label("first")).subquery()
_NEXT = Statement(select(_HEADS).where(_HEADS.c.first.is_not(None)).order_by(_HEADS.c.turn, _HEADS.c.key_id).limit(1))
"""The next run: the first one of the key that was served longest ago."""
_TURN = Statement(
    update(KEYS).where(KEYS.c.id == bindparam("key")).values(turn=select(func.max(KEYS.c.turn) + 1).scalar_subquery())
)
_LEASE = Statement(
    update(RUNS)
    .where(RUNS.c.number == bindparam("the_number"))
    .values(
        state=LEASED,
        attempts=RUNS.c.attempts + 1,
        **{name: bindparam(name) for name in ("holder", "lease", "expires", "started")},
    )
    .returning(RUNS.c.id, RUNS.c.request)
)
_ENDED = ("state", "finished", "outcome", "result", "bytes", "request", "holder", "lease", "expires")
_ASKED: Any = func.coalesce(func.length(RUNS.c.asked), 0)
_FINISH = Statement(
    update(RUNS)
    .where(RUNS.c.id == bindparam("the_run"), IS_LEASED, RUNS.c.lease == bindparam("the_lease"))
    .values({name: bindparam(f"new_{name}") for name in _ENDED} | {"bytes": _ASKED + bindparam("new_bytes")})
    .returning(RUNS.c.id)
)
_MOST_DELETED = 500
"""Runs that one statement deletes: others wait for it."""


class QueueFull(Exception):
    """The queue takes no more runs. ``own`` tells that the runs of this key alone are too many."""

    def __init__(self, message: str, *, own: bool) -> None:
        super().__init__(message)
        self.own = own


@dataclass(frozen=True)
class NewRun:
    """The record that a request becomes: all that the queue must know of a run."""

    request: str
    labels: str
    repeat: str | None = None
    """The client's word for this request. A second one with the same word is the same run."""
    batch: str | None = None
    """The id of the batch that it comes with."""
    asked: str | None = None
    """What the API of the request must know of it when the run has ended: the queue forgets the request then."""

    @property
    def size(self) -> int:
        """The bytes that it takes in the queue."""
        return len(self.request) + len(self.asked or "")


@dataclass(frozen=True)
class Leased:
    """A run as its worker gets it. ``lease`` is the right to write its result."""

    id: str
    lease: str
    request: str
    key: str
    """The name of its key."""
    key_id: int


class Queue:
    """The runs in a database."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    def submit(self, key: int, *news: NewRun) -> list[Row]:
        """Accept runs, all or none, and return them.

        Raises ``QueueFull``, and ``JobError`` if the client's word is known, but not for these runs.
        """
        rows = []
        with self._database.writing() as db:
            ((runs, held, own),) = _WAITING(db, key=key)
            for new in news:
                known = _REPEATED(db, key=key, again=new.repeat) if new.repeat is not None else ()
                if not known:
                    self._check_space(runs, held, own, new.size)
                    runs, held, own = runs + 1, held + new.size, own + 1
                rows.append(known[0] if known else _inserted(db, key, new))
            if len({row.batch for row in rows}) > 1:
                raise JobError("Idempotency-Key: an earlier batch has the same word, and other runs")
        return rows

    def _check_space(self, runs: int, held: int, own: int, size: int) -> None:
        if own >= self._settings.queued_runs_of_a_key:
            raise QueueFull(f"{own} runs of this key wait, which is the most", own=True)
        if runs >= self._settings.queued_runs:
            raise QueueFull(f"{runs} runs wait, which is the most", own=False)
        if held + size > self._settings.queued_bytes:
            raise QueueFull(f"the runs that wait have {held} bytes, and this one {size} more", own=False)

    def find(self, key: int, run: str) -> Row | None:
        """Return a run of this key, with its result if it has ended."""
        with self._database.reading() as db:
            return next(iter(_FIND(db, key=key, run=run)), None)

    def page(self, key: int, most: int, before: int | None, state: str | None) -> Sequence[Row]:
        """Return runs of this key without their results, newest first, from those with a number below ``before``."""
        wanted = _of(key).order_by(RUNS.c.number.desc()).limit(most)
        if before is not None:
            wanted = wanted.where(RUNS.c.number < before)
        if state is not None:
            wanted = wanted.where(RUNS.c.state == state)
        with self._database.reading() as db:
            return db.execute(wanted).all()

    def batch(self, key: int, batch: str, most: int, after: int) -> tuple[dict[str, int], Sequence[Row]]:
        """Return how many runs of a batch are in which state, and some without results, from those above ``after``."""
        mine = (RUNS.c.key_id == key, RUNS.c.batch == batch)
        with self._database.reading() as db:
            counts = db.execute(
                select(RUNS.c.state, func.count().label("number")).where(*mine).group_by(RUNS.c.state)
            ).all()
            wanted = select(*_SHOWN).where(*mine, RUNS.c.number > after).order_by(RUNS.c.number).limit(most)
            return {row.state: row.number for row in counts}, db.execute(wanted).all()

    def cancel(self, key: int, *, run: str | None = None, batch: str | None = None) -> Sequence[Row]:
        """End a run, or those of a batch, that wait. Mark those that are held: their worker ends them. Return them."""
        mine = (RUNS.c.key_id == key, RUNS.c.id == run if batch is None else RUNS.c.batch == batch)
        with self._database.writing() as db:
            db.execute(update(RUNS).where(*mine, IS_LEASED).values(cancelled=True))
            db.execute(update(RUNS).where(*mine, IS_QUEUED).values(cancelled=True, **_ended(CANCELLED)))
            return db.execute(select(*_SHOWN).where(*mine)).all()

    def lease(self, holder: str, most: int) -> list[Leased]:
        """Give ``holder`` up to ``most`` runs: the keys take turns, and each key's oldest run is first."""
        found: list[Leased] = []
        with self._database.reading() as db:
            if not _NEXT(db):
                return found  # the usual answer, which needs no lock
        with self._database.writing() as db:
            while len(found) < most and (heads := _NEXT(db)):
                row = heads[0]
                _TURN(db, key=row.key_id)
                token, expires = secrets.token_hex(16), time.monotonic() + self._settings.lease
                held = {"holder": holder, "lease": token, "expires": expires, "started": time.time()}
                run = _LEASE(db, the_number=row.first, **held)[0]
                found.append(Leased(run.id, token, run.request, row.name, row.key_id))
        return found

    def renew(self, leases: Sequence[str]) -> tuple[set[str], set[str]]:
        """Prolong leases. Return those that still hold, and those of them whose run was cancelled."""
        with self._database.writing() as db:
            mine = RUNS.c.lease.in_(leases)
            expires = time.monotonic() + self._settings.lease
            db.execute(update(RUNS).where(mine, IS_LEASED).values(expires=expires))
            rows = db.execute(select(RUNS.c.lease, RUNS.c.cancelled).where(mine, IS_LEASED)).all()
        return {row.lease for row in rows}, {row.lease for row in rows if row.cancelled}

    def finish(self, leased: Leased, result: Result) -> bool:
        """Write the result of a run. Return false, and write nothing, if the lease no longer holds."""
        values = {f"new_{name}": value for name, value in _result(result).items()}
        with self._database.writing() as db:
            return len(_FINISH(db, the_run=leased.id, the_lease=leased.lease, **values)) == 1

    def release(self, holder: str | None = None, *, counted: bool = True) -> list[str]:
        """Put the runs of ``holder``, or all that are held, back into the queue; return those that ended instead.

        A run ends if it was cancelled, or if it was begun as often as allowed. ``counted=False`` forgets the attempt.
        """
        return self._release(RUNS.c.holder == holder if holder is not None else IS_LEASED, counted)

    def expire(self) -> list[str]:
        """Release the runs whose lease has ended."""
        return self._release(RUNS.c.expires < time.monotonic(), counted=True)

    def _release(self, which: ColumnElement[bool], counted: bool) -> list[str]:
        ended = []
        with self._database.writing() as db:
            held = select(RUNS.c.id, RUNS.c.attempts, RUNS.c.cancelled).where(IS_LEASED, which)
            for row in db.execute(held).all():
                attempts = row.attempts if counted else row.attempts - 1
                values: dict[str, Any] = {"attempts": attempts}
                if row.cancelled:
                    values |= _ended(CANCELLED)
                elif attempts >= self._settings.attempts:
                    values |= _ended(_lost(attempts))
                else:
                    values |= {"state": QUEUED, "holder": None, "lease": None, "expires": None}
                ended += [row.id] if values["state"] == FINISHED else []
                db.execute(update(RUNS).where(RUNS.c.id == row.id).values(**values))
        return ended

    def forget(self) -> None:
        """Delete finished runs that are too old, and the oldest of those that take too much space."""
        over = IS_FINISHED
        oldest = select(RUNS.c.number).where(over).order_by(RUNS.c.finished).limit(_MOST_DELETED)
        old = oldest.where(RUNS.c.finished < time.time() - self._settings.keep)
        while self._delete(old):
            pass
        while self._kept_bytes() > self._settings.kept_bytes and self._delete(oldest):
            pass

    def _delete(self, which: Any) -> int:
        with self._database.writing() as db:
            return db.execute(delete(RUNS).where(RUNS.c.number.in_(which))).rowcount

    def _kept_bytes(self) -> int:
        with self._database.reading() as db:
            kept = select(func.coalesce(func.sum(RUNS.c.bytes), 0)).where(IS_FINISHED)
            return int(db.execute(kept).scalar_one())

    def counts(self) -> dict[str, int]:
        """Return how many runs are queued, and how many are leased."""
        with self._database.reading() as db:
            number = select(func.count()).select_from(RUNS)
            return {
                QUEUED: db.execute(number.where(IS_QUEUED)).scalar_one(),
                LEASED: db.execute(number.where(IS_LEASED)).scalar_one(),
            }


def _inserted(db: Connection, key: int, new: NewRun) -> Row:
    values = {"id": f"run_{uuid4().hex}", "key_id": key, "repeat": new.repeat, "batch": new.batch, "asked": new.asked}
    contents = {"labels": new.labels, "request": new.request, "bytes": new.size, "created": time.time()}
    return _INSERT(db, **values, **contents)[0]


def _of(key: int) -> Any:
    return select(*_SHOWN).where(RUNS.c.key_id == key)


def _result(result: Result) -> dict[str, Any]:
    """Return the columns of a run that has ended. The request is no longer needed."""
    text = dumps(result.to_dict(), compact=True)
    ended = {"state": FINISHED, "finished": time.time(), "outcome": result.outcome.value, "result": text}
    return {**ended, "bytes": len(text), "request": None, "holder": None, "lease": None, "expires": None}


def _ended(result: Result) -> dict[str, Any]:
    values = _result(result)
    return values | {"bytes": _ASKED + values["bytes"]}


def _lost(attempts: int) -> Result:
    message = f"the worker process ended in each of {attempts} attempts, so the run is not tried again"
    return Result(Outcome.SANDBOX_FAILED, error=GuestError("WorkerLost", message))
