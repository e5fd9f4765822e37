"""The queue over a real SQLite file: leases, attempts, turns, bounds."""

import json
import threading
import time
from dataclasses import replace

import pytest
from sqlalchemy import bindparam, insert, select
from sqlalchemy.exc import DBAPIError

from stockade import JobError, Outcome, Result
from stockade.service.database import KEYS, RUNS, Database, Statement
from stockade.service.keys import Keys
from stockade.service.living.register import Register
from stockade.service.queue import NewRun, Queue, QueueFull
from stockade.service.settings import Settings

DONE = Result(Outcome.COMPLETED, exit_code=0)
ANY = NewRun("{}", "{}")


class Service:
    def __init__(self, folder, **settings):
        self.settings = replace(Settings(folder), **settings)
        self.database = Database(folder)
        self.keys = Keys(self.database)
        self.queue = Queue(self.database, self.settings)
        for name in ("ann", "bob"):
            self.keys.add(name)
        self.ann, self.bob = (each.id for each in self.keys.list())

    def submit(self, key, **fields):
        return self.queue.submit(key, replace(ANY, **fields))[0].id

    def run(self, key, run):
        return self.queue.find(key, run)


@pytest.fixture
def serve(tmp_path):
    """Return a function that makes a queue with settings of its own."""
    made = []

    def with_settings(**settings):
        made.append(Service(tmp_path, **settings))
        return made[-1]

    yield with_settings
    for each in made:
        each.database.close()


@pytest.fixture
def service(serve):
    return serve(attempts=2, queued_runs=4, queued_runs_of_a_key=3, queued_bytes=100)


def test_statement_gives_flags_and_the_library_s_errors(service):
    given = {"name": bindparam("name"), "digest": "x", "operator": True, "created": 0.0, "turn": 0}
    add = Statement(insert(KEYS).values(given).returning(KEYS.c.name, KEYS.c.operator))
    with service.database.writing() as db:
        (row,) = add(db, name="eve")
        assert (row.name, row.operator) == ("eve", True)
        assert row.operator is True
    with pytest.raises(DBAPIError, match="UNIQUE"), service.database.writing() as db:
        add(db, name="dan")
    assert [key.name for key in service.keys.list()] == ["ann", "bob", "eve"]


def test_lease_takes_keys_in_turns(service):
    of_ann = [service.submit(service.ann) for _ in range(3)]
    of_bob = service.submit(service.bob)
    order = [leased.id for _ in range(4) for leased in service.queue.lease("w", 1)]
    assert order == [of_ann[0], of_bob, of_ann[1], of_ann[2]]
    assert service.queue.lease("w", 1) == []


def test_result_is_written_once_by_the_lease_that_holds(service):
    run = service.submit(service.ann)
    (first,) = service.queue.lease("a", 5)
    assert service.queue.release("a") == []
    (second,) = service.queue.lease("b", 5)
    assert (first.id, second.id) == (run, run)
    assert not service.queue.finish(first, replace(DONE, exit_code=1))
    assert service.queue.finish(second, DONE)
    assert not service.queue.finish(second, replace(DONE, exit_code=2))
    assert json.loads(service.run(service.ann, run).result) == DONE.to_dict()


def test_run_ends_after_its_last_attempt(service):
    run = service.submit(service.ann)
    service.queue.lease("a", 1)
    assert service.queue.release("a", counted=False) == []  # the worker stopped in good order
    for expected in ([], [run]):
        service.queue.lease("a", 1)
        assert service.queue.release("a") == expected
    result = Result.from_dict(json.loads(service.run(service.ann, run).result))
    assert (result.outcome, result.error.type) == (Outcome.SANDBOX_FAILED, "WorkerLost")
    assert "2 attempts" in result.error.message


def test_lease_ends_without_a_heartbeat(service):
    service.submit(service.ann)
    (leased,) = service.queue.lease("a", 1)

    def pass_time():
        with service.database.writing() as db:
            db.execute(RUNS.update().values(expires=time.monotonic() - 1))

    pass_time()
    assert service.queue.renew([leased.lease]) == ({leased.lease}, set())  # late, but nobody has taken the run
    service.queue.expire()
    assert service.queue.lease("b", 1) == []
    pass_time()
    service.queue.expire()
    assert service.queue.renew([leased.lease]) == (set(), set())
    assert len(service.queue.lease("b", 1)) == 1


def test_cancelled_run_never_starts_again(service):
    waiting, held = service.submit(service.ann), service.submit(service.bob)
    assert service.queue.cancel(service.bob, run=waiting) == []  # another key's
    assert service.queue.cancel(service.ann, run=waiting)[0].outcome == "cancelled"
    (leased,) = service.queue.lease("a", 5)
    assert leased.id == held
    service.queue.cancel(service.bob, run=held)
    assert service.queue.renew([leased.lease]) == ({leased.lease}, {leased.lease})
    assert service.queue.release("a") == [held]
    assert service.run(service.bob, held).outcome == "cancelled"


def test_queue_is_bounded_for_a_key_for_all_and_in_bytes(service):
    first = service.submit(service.ann, repeat="x")
    service.submit(service.ann, request="{" + "x" * 90)
    with pytest.raises(QueueFull, match="bytes") as full:
        service.submit(service.ann, request="y" * 20)
    assert not full.value.own
    service.submit(service.ann)
    with pytest.raises(QueueFull, match="3 runs of this key") as full:
        service.submit(service.ann)
    assert full.value.own
    service.submit(service.bob)
    with pytest.raises(QueueFull, match="4 runs wait"):
        service.submit(service.bob)
    assert service.submit(service.ann, repeat="x") == first  # the same request again gives the same run


def test_batch_is_accepted_whole_or_not_at_all(service):
    three = [replace(ANY, batch="b", repeat=f"w {at}") for at in range(3)]
    first = service.submit(service.ann)
    with pytest.raises(QueueFull, match="3 runs of this key"):
        service.queue.submit(service.ann, *three)
    assert service.queue.batch(service.ann, "b", 9, 0) == ({}, [])
    service.queue.cancel(service.ann, run=first)
    rows = service.queue.submit(service.ann, *three)
    again = service.queue.submit(service.ann, *(replace(each, batch="c") for each in three))
    assert [row.id for row in again] == [row.id for row in rows]
    (leased,) = service.queue.lease("w", 1)
    with pytest.raises(JobError, match="the same word, and other runs"):
        service.queue.submit(service.ann, replace(ANY, batch="d", repeat="w 0"), replace(ANY, batch="d", repeat="w 9"))
    assert service.queue.batch(service.ann, "b", 2, rows[0].number)[1][-1].id == rows[2].id
    assert service.queue.batch(service.bob, "b", 9, 0) == ({}, [])
    assert service.queue.cancel(service.bob, batch="b") == []
    assert [row.state for row in service.queue.cancel(service.ann, batch="b")] == ["leased", "finished", "finished"]
    assert service.queue.renew([leased.lease])[1] == {leased.lease}
    assert service.queue.batch(service.ann, "b", 1, 0)[0] == {"leased": 1, "finished": 2}


def test_finished_runs_are_forgotten_by_age_and_by_size(serve):
    service = serve(keep=3600, kept_bytes=len(json.dumps(DONE.to_dict())) * 3)
    runs = [service.submit(service.ann) for _ in range(6)]
    for leased in service.queue.lease("a", 5):
        service.queue.finish(leased, DONE)
    with service.database.writing() as db:
        db.execute(RUNS.update().where(RUNS.c.id == runs[4]).values(finished=time.time() - 4000))
    replaced = Queue(service.database, replace(service.settings, kept_bytes=1 << 30))
    replaced.forget()
    assert [service.run(service.ann, run) is None for run in runs] == [False] * 4 + [True, False]
    service.queue.forget()
    assert service.run(service.ann, runs[0]) is None
    assert service.run(service.ann, runs[5]).state == "queued"


def test_two_workers_never_hold_one_run(tmp_path, serve):
    service = serve()
    runs = {service.submit(service.ann) for _ in range(60)}
    found, failures = [], []

    def work(holder):
        database = Database(tmp_path)
        queue = Queue(database, service.settings)
        try:
            while batch := queue.lease(holder, 3):
                found.extend(each.id for each in batch if queue.finish(each, DONE))
        except Exception as error:
            failures.append(error)
        database.close()

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failures
    assert (len(found), set(found)) == (60, runs)
    with service.database.reading() as db:
        assert db.execute(select(RUNS.c.attempts).distinct()).scalars().all() == [1]


def test_keys_are_digests_and_names_are_unique(service):
    key = service.keys.add("eve", operator=True)
    assert service.keys.find(key).operator
    assert service.keys.find(key[:-1] + "x") is service.keys.find("") is service.keys.find(key.upper()) is None
    with service.database.reading() as db:
        assert key[4:] not in str(db.exec_driver_sql("SELECT * FROM keys").all())
    with pytest.raises(JobError, match="'eve'"):
        service.keys.add("eve")
    run = service.submit(service.keys.find(key).id)
    service.keys.remove("eve")
    assert service.keys.find(key) is None
    assert service.run(3, run) is None


def test_runs_are_accepted_together_or_not_at_all(service):
    with pytest.raises(QueueFull):
        service.queue.submit(service.ann, *[ANY] * 4)
    assert service.queue.counts()["queued"] == 0
    assert len(service.queue.submit(service.ann, *[ANY] * 3)) == 3


def test_asked_fields_are_kept_and_counted(service):
    run = service.submit(service.ann, asked="x" * 50)
    with pytest.raises(QueueFull):
        service.submit(service.ann, asked="x" * 50)
    (leased,) = service.queue.lease("w", 1)
    assert service.queue.finish(leased, DONE)
    found = service.run(service.ann, run)
    assert (found.asked, found.bytes) == ("x" * 50, 50 + len(found.result))


@pytest.mark.parametrize(("version", "later_columns"), [(1, ("batch", "asked")), (2, ("batch",))])
def test_database_of_an_earlier_version_is_brought_up_to_date(tmp_path, serve, version, later_columns):
    service = serve()
    run = service.submit(service.ann)
    with service.database.writing() as db:
        db.exec_driver_sql("DROP TABLE sandboxes")
        db.exec_driver_sql("DROP INDEX runs_of_batch")
        for column in later_columns:
            db.exec_driver_sql(f"ALTER TABLE runs DROP COLUMN {column}")
        db.exec_driver_sql(f"PRAGMA user_version = {version}")
    service.database.close()
    database = Database(tmp_path)
    later = Queue(database, service.settings)
    assert Register(database).count() == 0
    assert later.find(service.ann, run).asked is None
    assert later.submit(service.ann, replace(ANY, asked="x", batch="b"))[0].batch == "b"
