"""The codec between a caller and its worker: what crosses is what was sent, and hostile bytes raise CodecError soon."""

import contextlib
import datetime
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stockade.embedded.worker.codec import MOST_COLLIDING, MOST_DEPTH, MOST_RATIONAL, CodecError, decode, encode

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.complex_numbers(allow_nan=False)
    | st.text(st.characters())
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.fractions()
    | st.dates()
    | st.timedeltas()
    | st.times()
    | st.datetimes(timezones=st.none() | st.just(datetime.timezone(datetime.timedelta(hours=2), "X")))
)
KEYS = st.integers() | st.text() | st.tuples(st.integers(), st.dates())
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(KEYS, inner)
        | st.sets(KEYS)
        | st.frozensets(KEYS)
    ),
    max_leaves=20,
)


def number(value):
    return struct.pack(">I", value)


def shape(value):
    """Types as well as values: 1, True and 1.0 are equal."""
    if isinstance(value, dict):
        return [(shape(key), shape(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [shape(each) for each in value]
    return type(value), value if isinstance(value, set | frozenset) else repr(value)


@given(VALUES)
@settings(max_examples=60, deadline=None)
def test_value_arrives_as_it_was_sent(value):
    assert shape(decode(encode(value))) == shape(value)


@given(VALUES, st.data())
@settings(max_examples=60, deadline=None)
def test_damaged_bytes_are_a_value_or_a_codec_error(value, data):
    message = bytearray(encode(value))
    for _ in range(data.draw(st.integers(1, 3))):
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CodecError):
        decode(bytes(message))


@pytest.mark.parametrize("value", [object(), int, lambda: 1, {"a": [print]}, bytearray(b"x"), range(3), Exception("x")])
def test_only_data_is_encoded(value):
    with pytest.raises(CodecError, match="is not data"):
        encode(value)


def test_time_zone_of_the_host_is_not_data():
    from zoneinfo import ZoneInfo

    with pytest.raises(CodecError, match="ZoneInfo"):
        encode(datetime.datetime(2000, 1, 1, tzinfo=ZoneInfo("UTC")))


def test_value_that_takes_too_many_bytes_is_refused():
    with pytest.raises(CodecError, match="more than 1,000 bytes"):
        encode(["a" * 600, "b" * 600], 1000)


COLLIDING = [each * (2**61 - 1) for each in range(1, MOST_COLLIDING + 2)]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"", "cut off", id="nothing"),
        pytest.param(b"NN", "after", id="rest"),
        pytest.param(b"?", "tag", id="unknown tag"),
        pytest.param(b"s" + number(2**32 - 1) + b"a", "cut off", id="long text"),
        pytest.param(b"l" + number(2**32 - 1) + b"N", "more elements", id="long list"),
        pytest.param(b"d" + number(3) + b"NNNNN", "more elements", id="long dictionary"),
        pytest.param((b"l" + number(1)) * 200_000 + b"N", "nested deeper", id="deep list"),
        pytest.param(b"d" + number(1) + encode([]) + b"N", "TypeError", id="key without a hash"),
        pytest.param(b"S" + number(2) + encode(1) + encode(1), "twice", id="element twice"),
        pytest.param(b"d" + number(2) + (encode("a") + b"N") * 2, "twice", id="key twice"),
        pytest.param(b"s" + number(1) + b"\xff", "UnicodeDecodeError", id="text that is not UTF-8"),
        pytest.param(b"D" + number(3) + b"abc", "InvalidOperation", id="decimal that is none"),
        pytest.param(b"R" + encode((1, 0)), "ZeroDivisionError", id="fraction of zero"),
        pytest.param(b"R" + encode((1.5, 2)), "record", id="fraction of a float"),
        pytest.param(b"R" + encode((1 << MOST_RATIONAL * 20, 3)), "too large", id="large fraction"),
        pytest.param(b"y" + encode((2000, 13, 1)), "ValueError", id="month 13"),
        pytest.param(b"h" + encode((1, 1, 1, 1, 0, 5)), "time zone", id="time zone that is none"),
        pytest.param(b"o" + encode((5,)), "TypeError", id="offset that is none"),
    ],
)
def test_hostile_bytes_are_refused(data, reason):
    with pytest.raises(CodecError, match=reason):
        decode(data)


@pytest.mark.parametrize("value", [set(COLLIDING), dict.fromkeys(COLLIDING)], ids=["set", "dict"])
def test_keys_that_collide_on_purpose_are_refused(value):
    assert decode(encode(type(value)(list(value)[1:] if isinstance(value, set) else list(value.items())[1:])))
    with pytest.raises(CodecError, match="same hash"):
        decode(encode(value))


def test_many_values_are_refused_before_they_take_memory():
    with pytest.raises(CodecError, match="values"):
        decode(b"l" + number(2_200_000) + b"N" * 2_200_000)


def test_nesting_at_the_bound_arrives():
    value = 1
    for _ in range(MOST_DEPTH - 1):
        value = [value]
    assert decode(encode(value)) == value
    for _ in range(2):
        value = [value]
    with pytest.raises(CodecError, match="nested deeper"):
        encode(value)
