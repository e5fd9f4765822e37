"""The tables of a service, and transactions over SQLite.

A commit is in the operating system's hands when it returns, so it outlives any process; ``synchronous=NORMAL`` means
that a loss of power may take the last commits along.
"""

from __future__ import annotations

import sqlite3
from collections import namedtuple
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import (
    URL,
    Boolean,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Insert,
    Integer,
    MetaData,
    Select,
    String,
    Table,
    Text,
    UniqueConstraint,
    Update,
    create_engine,
    event,
    literal_column,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError

from stockade.core.errors import JobError

FILE = "service.db"
QUEUED, LEASED, FINISHED = "queued", "leased", "finished"
Row: TypeAlias = Any
"""A row that a statement returns: its columns are attributes."""
_VERSION = 3
_BUSY_SECONDS = 10
_META = MetaData()
_DIALECT = sqlite.dialect(paramstyle="named")

KEYS = Table(
    "keys",
    _META,
    Column("id", Integer, primary_key=True),
    Column("name", String, nullable=False, unique=True),
    Column("digest", String, nullable=False, unique=True),
    Column("operator", Boolean, nullable=False),
    Column("created", Float, nullable=False),
    Column("turn", Integer, nullable=False, default=0),  # rises with each lease: the key with the lowest is next
    sqlite_autoincrement=True,  # the number of a removed key never comes back, nor do its runs
)
RUNS = Table(
    "runs",
    _META,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("key_id", ForeignKey("keys.id", ondelete="CASCADE"), nullable=False),
    Column("repeat", String),  # the client's Idempotency-Key
    Column("state", String, nullable=False),
    Column("labels", Text, nullable=False),
    Column("request", Text),
    Column("bytes", Integer, nullable=False),
    Column("created", Float, nullable=False),
    Column("started", Float),
    Column("finished", Float),
    Column("attempts", Integer, nullable=False, default=0),
    Column("cancelled", Boolean, nullable=False, default=False),
    Column("holder", String),
    Column("lease", String),
    Column("expires", Float),  # by CLOCK_MONOTONIC: nobody can set it back
    Column("outcome", String),
    Column("result", Text),
    Column("asked", Text),  # what the API of the request must know of it after the run's end; null for most
    Column("batch", String),  # the id of the batch that it came with
    UniqueConstraint("key_id", "repeat"),
    sqlite_autoincrement=True,
)
SANDBOXES = Table(
    "sandboxes",
    _META,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("key_id", ForeignKey("keys.id", ondelete="CASCADE"), nullable=False),
    Column("holder", String, nullable=False),
    Column("state", String, nullable=False),
    Column("reason", String),
    Column("labels", Text, nullable=False),
    Column("idle_timeout", Float, nullable=False),
    Column("created", Float, nullable=False),
    Column("expires", Float, nullable=False),
    Column("ended", Float),
    Index("sandboxes_of_key", "key_id", "number"),
    sqlite_autoincrement=True,
)
IS_QUEUED, IS_LEASED, IS_FINISHED = (
    RUNS.c.state == literal_column(f"'{state}'") for state in (QUEUED, LEASED, FINISHED)
)
"""Written without parameters, so that SQLite sees at once that the indexes below serve."""
_BATCHES = Index("runs_of_batch", RUNS.c.batch, RUNS.c.number, sqlite_where=RUNS.c.batch.is_not(None))
Index("runs_of_key", RUNS.c.key_id, RUNS.c.number)
Index("waiting", RUNS.c.key_id, RUNS.c.number, RUNS.c.bytes, sqlite_where=IS_QUEUED)
Index("held", RUNS.c.holder, RUNS.c.expires, sqlite_where=IS_LEASED)
Index("over", RUNS.c.finished, RUNS.c.bytes, sqlite_where=IS_FINISHED)


class Statement:
    """A statement of every run. SQLAlchemy compiles it once, and SQLite's own connection executes it.

    Executing it through SQLAlchemy takes some eight times as long.
    """

    def __init__(self, statement: Select[Any] | Insert | Update) -> None:
        """``statement`` has a ``bindparam`` for each value that a call gives."""
        made, columns = statement.compile(dialect=_DIALECT), statement.exported_columns
        self._text, self._fixed = str(made), {name: value for name, value in made.params.items() if value is not None}
        self._row: Any = namedtuple("Row", [column.name for column in columns])  # type: ignore[misc]
        self._flags = [at for at, column in enumerate(columns) if isinstance(column.type, Boolean)]

    def __call__(self, db: Connection, **values: Any) -> list[Any]:
        """Execute it in the transaction of ``db`` and return its rows. Raises ``DBAPIError``."""
        rows = _execute(db, self._text, self._fixed | values)
        return [self._row(*self._flagged(row)) for row in rows]

    def _flagged(self, row: tuple[Any, ...]) -> Iterator[Any]:
        """Return the values of a row, with the flags that SQLite stores as numbers."""
        return (bool(value) if at in self._flags else value for at, value in enumerate(row))


class Database:
    """The database in a folder. Threads and processes may share it."""

    def __init__(self, folder: Path, connections: int | None = None) -> None:
        """Open it, and create its tables. Raises ``JobError`` for a database of a later version.

        ``connections`` opens as many of each kind now, and no others later: they outlive the right to open the file.
        """
        url = URL.create("sqlite", database=str(folder / FILE))
        options: dict[str, Any] = {"connect_args": {"timeout": _BUSY_SECONDS}}
        if connections is not None:
            options |= {"pool_size": connections, "max_overflow": 0}
        self._reading = create_engine(url, isolation_level="AUTOCOMMIT", **options)
        self._writing = create_engine(url, **options)
        for engine in (self._reading, self._writing):
            event.listen(engine, "connect", _connected)
        event.listen(self._writing, "begin", _begin)
        with self.writing() as db:
            found = db.exec_driver_sql("PRAGMA user_version").scalar_one()
            if found > _VERSION:
                raise JobError(
                    f"{folder / FILE}: has version {found}, and this stockade knows {_VERSION}: use a later stockade"
                )
            if found == 1:
                db.exec_driver_sql("ALTER TABLE runs ADD COLUMN asked TEXT")
            if found in (1, 2):
                db.exec_driver_sql("ALTER TABLE runs ADD COLUMN batch TEXT")
                _BATCHES.create(db)
            _META.create_all(db)
            db.exec_driver_sql(f"PRAGMA user_version = {_VERSION}")
        for engine in (self._reading, self._writing):
            opened = [engine.connect() for _ in range(connections or 0)]
            for connection in opened:
                connection.exec_driver_sql("SELECT count(*) FROM keys").close()  # opens the log, and reads the schema
                connection.close()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Return a connection for statements that each stand alone."""
        with self._reading.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Return a connection with the database's one lock for writers. All of it is committed, or nothing."""
        with self._writing.begin() as connection:
            yield connection

    def close(self) -> None:
        """Close all connections."""
        self._reading.dispose()
        self._writing.dispose()


def _connected(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # _begin decides when a transaction begins
    for setting in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON", "temp_store = MEMORY"):
        connection.execute(f"PRAGMA {setting}").close()


def _begin(connection: Connection) -> None:
    _execute(connection, "BEGIN IMMEDIATE", {})


def _execute(db: Connection, text: str, values: dict[str, Any]) -> list[Any]:
    driver: Any = db.connection.driver_connection
    try:
        rows: list[Any] = driver.execute(text, values).fetchall()
    except sqlite3.Error as error:
        raise DBAPIError(text, None, error) from None
    return rows
