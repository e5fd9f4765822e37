from hypothesis import given
from hypothesis import strategies as st

from stockade.warden.run.head_tail import HeadTail

pieces = st.lists(st.binary(min_size=1, max_size=40), max_size=40)


def kept(buffer, written):
    return b"".join(buffer.take(piece) for piece in written), buffer.tail()


@given(pieces, st.integers(0, 120))
def test_head_and_tail_are_the_ends_of_a_stream(written, limit):
    buffer = HeadTail(limit, head_only=False)
    whole = b"".join(written)
    head, tail = kept(buffer, written)
    assert buffer.count == len(whole)
    assert buffer.exceeded == (len(whole) > limit)
    assert len(head + tail) == min(len(whole), limit)
    assert whole.startswith(head) and whole.endswith(tail)
    if len(whole) <= limit:
        assert head + tail == whole


@given(pieces, st.integers(0, 120))
def test_head_only_keeps_the_first_bytes(written, limit):
    buffer = HeadTail(limit, head_only=True)
    head, tail = kept(buffer, written)
    assert head == b"".join(written)[:limit]
    assert tail == b""


@given(pieces)
def test_head_without_limit_is_everything(written):
    assert kept(HeadTail(None, head_only=False), written) == (b"".join(written), b"")


@given(pieces, st.integers(0, 120))
def test_live_stream_forwards_up_to_limit(written, limit):
    buffer = HeadTail(limit, head_only=False, live=True)
    whole = b"".join(written)
    left, tail = kept(buffer, written)
    assert left == whole[:limit]
    other = HeadTail(limit, head_only=False)
    head, other_tail = kept(other, written)
    assert (left[: len(head)], tail) == (head, other_tail)
