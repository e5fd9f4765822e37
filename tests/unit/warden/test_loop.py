"""The warden's loop: what happened to a descriptor is never told to who has its number next."""

import os

from stockade.warden.loop import READ, Loop


def test_an_event_of_a_closed_descriptor_does_not_reach_its_numbers_next_owner():
    loop, told = Loop(), []
    pipes = [os.pipe() for _ in range(2)]
    for number, (_, writing) in enumerate(pipes):
        os.write(writing, b"x")
        loop.watch(pipes[number][0], READ, lambda _events, number=number: replace(number))

    def replace(number):
        other = pipes[1 - number][0]
        told.append(f"pipe {number}")
        loop.forget(other)
        os.close(other)
        fresh, _ = os.pipe()  # takes the lowest number that is free: the one just closed
        assert fresh == other
        loop.watch(fresh, READ, lambda _events: told.append("who knows nothing"))

    loop.turn(0.0)
    loop.turn(0.0)
    assert len(told) == 2
    assert "who knows nothing" not in told


def test_who_replaces_a_callback_is_called_the_next_time():
    loop, told = Loop(), []
    reading, writing = os.pipe()
    os.write(writing, b"x")
    loop.watch(reading, READ, lambda _events: loop.watch(reading, READ, lambda _events: told.append("second")))
    loop.turn(0.0)
    loop.turn(0.0)
    assert told == ["second"]
