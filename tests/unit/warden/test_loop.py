"""The warden's loop: no event of a closed descriptor reaches the next owner of its number."""

import os

from stockade.warden.loop import READ, Loop


def test_event_of_closed_descriptor_is_dropped():
    loop, called = Loop(), []
    pipes = [os.pipe() for _ in range(2)]
    for number, (_, writing) in enumerate(pipes):
        os.write(writing, b"x")
        loop.watch(pipes[number][0], READ, lambda _events, number=number: replace(number))

    def replace(number):
        other = pipes[1 - number][0]
        called.append(f"pipe {number}")
        loop.forget(other)
        os.close(other)
        fresh, _ = os.pipe()  # gets the lowest free number, which is the one just closed
        assert fresh == other
        loop.watch(fresh, READ, lambda _events: called.append("new owner"))

    loop.turn(0.0)
    loop.turn(0.0)
    assert len(called) == 2
    assert "new owner" not in called


def test_replaced_callback_runs_next_turn():
    loop, called = Loop(), []
    reading, writing = os.pipe()
    os.write(writing, b"x")
    loop.watch(reading, READ, lambda _events: loop.watch(reading, READ, lambda _events: called.append("second")))
    loop.turn(0.0)
    loop.turn(0.0)
    assert called == ["second"]
