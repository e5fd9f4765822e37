import pytest
from hypothesis import given
from hypothesis import strategies as st

from stockade.warden import protocol

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=9)
    | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
messages = st.lists(
    st.tuples(st.text(max_size=9), st.dictionaries(st.sampled_from("abcde"), values, max_size=3)), max_size=4
)


@given(messages, st.data())
def test_messages_survive_any_cut(sent, data):
    raw = b"".join(protocol.encode(kind, **fields) for kind, fields in sent)
    decoder = protocol.Decoder()
    received = []
    while raw:
        cut = data.draw(st.integers(1, len(raw)))
        received += decoder.feed(raw[:cut])
        raw = raw[cut:]
    assert received == sent


@given(st.binary(min_size=5, max_size=200))
def test_random_bytes_raise_wire_error_or_wait(raw):
    decoder = protocol.Decoder()
    try:
        for kind, fields in decoder.feed(raw):
            assert isinstance(kind, str) and isinstance(fields, dict)
    except protocol.WireError:
        pass


def test_oversized_frame_is_refused_by_its_header():
    with pytest.raises(protocol.WireError, match="bytes"):
        list(protocol.Decoder().feed((protocol.MAX_FRAME + 1).to_bytes(4, "big")))
