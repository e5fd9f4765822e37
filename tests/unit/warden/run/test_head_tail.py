from hypothesis import given
from hypothesis import strategies as st

from stockade.warden.run.head_tail import HeadTail

pieces = st.lists(st.binary(min_size=1, max_size=40), max_size=40)


def kept(keeper, written):
    return b"".join(keeper.take(piece) for piece in written), keeper.tail()


@given(pieces, st.integers(0, 120))
def test_head_and_tail_are_exactly_the_ends_within_the_limit(written, limit):
    keeper = HeadTail(limit, head_only=False)
    whole = b"".join(written)
    head, tail = kept(keeper, written)
    assert keeper.count == len(whole)
    assert keeper.exceeded == (len(whole) > limit)
    assert len(head + tail) == min(len(whole), limit)
    assert whole.startswith(head) and whole.endswith(tail)
    if len(whole) <= limit:
        assert head + tail == whole


@given(pieces, st.integers(0, 120))
def test_head_only_keeps_the_first_bytes(written, limit):
    keeper = HeadTail(limit, head_only=True)
    head, tail = kept(keeper, written)
    assert head == b"".join(written)[:limit]
    assert tail == b""


@given(pieces)
def test_without_a_limit_all_is_head(written):
    assert kept(HeadTail(None, head_only=False), written) == (b"".join(written), b"")


@given(pieces, st.integers(0, 120))
def test_a_live_stream_has_all_up_to_the_limit_and_the_same_ends(written, limit):
    keeper = HeadTail(limit, head_only=False, live=True)
    whole = b"".join(written)
    left, tail = kept(keeper, written)
    assert left == whole[:limit]
    other = HeadTail(limit, head_only=False)
    head, other_tail = kept(other, written)
    assert (left[: len(head)], tail) == (head, other_tail)
