"""The keys of a service. The database has only their digests, so a key is shown once."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from dataclasses import dataclass

from sqlalchemy import bindparam, delete, func, insert, select
from sqlalchemy.exc import IntegrityError

from stockade.core.errors import JobError
from stockade.service.database import KEYS, Database, Statement

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_KEY = re.compile(r"e2b_[0-9a-f]{40}")
_BYTES = 20
_FIND = Statement(select(KEYS.c.id, KEYS.c.name, KEYS.c.operator).where(KEYS.c.digest == bindparam("given")))


@dataclass(frozen=True)
class Key:
    """A key as the service knows it. An operator may also read the metrics and use the kill switch."""

    id: int
    name: str
    operator: bool


class Keys:
    """The keys in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, name: str, *, operator: bool = False) -> str:
        """Make a key and return it. Raises ``JobError`` for a name that is invalid or taken."""
        if not _NAME.fullmatch(name):
            raise JobError(f"key {name!r:.80}: a name has 1 to 64 of the characters A-Z a-z 0-9 _ . -")
        key = f"e2b_{secrets.token_hex(_BYTES)}"
        with self._database.writing() as db:
            # A new key begins at the turn of the others: it must not be served alone until it has caught up.
            turn = db.execute(select(func.coalesce(func.max(KEYS.c.turn), 0))).scalar_one()
            values = {"name": name, "digest": _digest(key), "operator": operator, "created": time.time(), "turn": turn}
            try:
                db.execute(insert(KEYS).values(**values))
            except IntegrityError:
                raise JobError(f"key {name!r}: there is one of this name; remove it, or choose another") from None
        return key

    def remove(self, name: str) -> None:
        """Remove a key with all its runs. Raises ``JobError`` for an unknown name."""
        with self._database.writing() as db:
            if not db.execute(delete(KEYS).where(KEYS.c.name == name)).rowcount:
                raise JobError(f"key {name!r:.80}: no key has this name")

    def list(self) -> list[Key]:
        """Return all keys by age."""
        with self._database.reading() as db:
            found = db.execute(select(KEYS.c.id, KEYS.c.name, KEYS.c.operator).order_by(KEYS.c.id))
            return [Key(*row) for row in found]

    def find(self, key: str) -> Key | None:
        """Return what the service knows of ``key``; ``None`` if nobody made it.

        A digest is looked up, so the time that this takes says nothing about any key. A key has 160 random bits, so one
        round of SHA-256 is enough.
        """
        if not _KEY.fullmatch(key):
            return None
        with self._database.reading() as db:
            rows = _FIND(db, given=_digest(key))
        return Key(*rows[0]) if rows else None


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
