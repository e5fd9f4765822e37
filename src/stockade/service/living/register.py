"""The register of sandboxes: a row for each, from its start until some time after its end.

The row outlives the sandbox, so that a client learns why its sandbox is gone. The sandbox itself lives in the service
worker that the column ``holder`` names.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row, delete, func, insert, select, update

from stockade.core.strict_json import dumps
from stockade.service.answers import moment
from stockade.service.database import SANDBOXES, Database

OPEN, CLOSED, LOST = "open", "closed", "lost"
OWNER_GONE = "the process of the service that kept the sandbox has ended, and the sandbox with it; create another one"


class Register:
    """The sandboxes in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self, sandbox: str, *, key: int, holder: str, labels: Mapping[str, str], idle: float, lifetime: float
    ) -> Row[Any]:
        """Register a sandbox that has started, and return its row."""
        now = time.time()
        values = {"id": sandbox, "key_id": key, "holder": holder, "state": OPEN, "labels": dumps(dict(labels))}
        times = {"created": now, "expires": now + lifetime, "idle_timeout": idle}
        with self._database.writing() as db:
            return db.execute(insert(SANDBOXES).values(values | times).returning(SANDBOXES)).one()

    def find(self, key: int, sandbox: str) -> Row[Any] | None:
        """Return a sandbox of this key."""
        with self._database.reading() as db:
            wanted = select(SANDBOXES).where(SANDBOXES.c.key_id == key, SANDBOXES.c.id == sandbox)
            return db.execute(wanted).one_or_none()

    def page(self, key: int, most: int, before: int | None, state: str | None) -> Sequence[Row[Any]]:
        """Return sandboxes of this key, newest first, from those with a number below ``before``."""
        wanted = select(SANDBOXES).where(SANDBOXES.c.key_id == key).order_by(SANDBOXES.c.number.desc()).limit(most)
        if before is not None:
            wanted = wanted.where(SANDBOXES.c.number < before)
        if state is not None:
            wanted = wanted.where(SANDBOXES.c.state == state)
        with self._database.reading() as db:
            return db.execute(wanted).all()

    def open_of(self, holder: str) -> set[str]:
        """Return the ids of the open sandboxes of a worker whose keys are still there."""
        with self._database.reading() as db:
            wanted = select(SANDBOXES.c.id).where(SANDBOXES.c.state == OPEN, SANDBOXES.c.holder == holder)
            return {*db.execute(wanted).scalars()}

    def count(self) -> int:
        """Return how many sandboxes are open."""
        with self._database.reading() as db:
            wanted = select(func.count()).select_from(SANDBOXES).where(SANDBOXES.c.state == OPEN)
            return int(db.execute(wanted).scalar_one())

    def end(self, sandbox: str, reason: str) -> Row[Any] | None:
        """Note that a sandbox has ended, and return its row; ``None`` if its key was removed."""
        ended = {"state": CLOSED, "reason": reason, "ended": time.time()}
        with self._database.writing() as db:
            change = update(SANDBOXES).where(SANDBOXES.c.id == sandbox).values(ended).returning(SANDBOXES)
            return db.execute(change).one_or_none()

    def begin(self, holder: str, keep: float) -> None:
        """Note that every open sandbox of an earlier worker is lost, and forget those that ended long ago."""
        lost = {"state": LOST, "reason": OWNER_GONE, "ended": time.time()}
        with self._database.writing() as db:
            db.execute(update(SANDBOXES).where(SANDBOXES.c.state == OPEN, SANDBOXES.c.holder != holder).values(lost))
        self.forget(keep)

    def forget(self, keep: float) -> None:
        """Delete the rows of sandboxes that ended more than ``keep`` seconds ago."""
        with self._database.writing() as db:
            db.execute(delete(SANDBOXES).where(SANDBOXES.c.ended < time.time() - keep))


def shown(row: Row[Any]) -> dict[str, Any]:
    """Return a sandbox as the API shows it."""
    return {
        "id": row.id,
        "state": row.state,
        "reason": row.reason,
        "labels": json.loads(row.labels),
        "created_at": moment(row.created),
        "expires_at": moment(row.expires),
        "ended_at": moment(row.ended),
        "idle_timeout": float(row.idle_timeout),
        "max_lifetime": round(row.expires - row.created, 3),
    }
