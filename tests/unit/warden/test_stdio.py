"""The standard streams of a guest, as the warden holds them."""

import os

from stockade.warden.stdio import Ends


def test_ends_closed_twice_leave_other_descriptors_alone() -> None:
    read, write = os.pipe()
    ends = Ends((write, -1, -1, -1))
    ends.close()
    other = os.dup(read)
    assert other == write  # a descriptor of somebody else has the number now
    ends.close()
    os.fstat(other)
    os.close(other)
    os.close(read)
