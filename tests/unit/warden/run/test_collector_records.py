import pytest
from hypothesis import given
from hypothesis import strategies as st

from stockade.client.collected_files import CollectedFiles
from stockade.core.launch import Collect
from stockade.warden.run import collector_records

RECORDS = st.lists(
    st.tuples(
        st.sampled_from(
            [collector_records.FILE, collector_records.LINK, collector_records.FOLDER, collector_records.REFUSED]
        ),
        st.binary(max_size=20),
        st.integers(0, 0o777),
        st.binary(max_size=50),
    ),
    max_size=6,
)


@given(RECORDS, st.data())
def test_records_survive_any_cut(records, data):
    raw = b"".join(collector_records.pack(*record) for record in records)
    unpacker = collector_records.Unpacker(100, 1000)
    got = []
    while raw:
        cut = data.draw(st.integers(1, len(raw)))
        got += unpacker.feed(raw[:cut])
        raw = raw[cut:]
    assert got == records


@given(st.binary(max_size=300))
def test_random_bytes_yield_files_or_error(raw):
    collected = CollectedFiles(Collect(files=10, file_bytes=100, total_bytes=100))
    collected.feed(raw)
    collected.close("")
    assert collected.error or raw.startswith(collector_records.END)
    assert all(not path.startswith("/") and ".." not in path.split("/") for path in collected.files)


def test_oversized_file_is_refused_by_its_header():
    collected = CollectedFiles(Collect(file_bytes=10, total_bytes=10))
    collected.feed(collector_records.pack(collector_records.FILE, b"a", 0, b"x" * 11)[:20])
    collected.close("")
    assert "malformed" in collected.error


@pytest.mark.parametrize("path", [b"/etc/x", b"../x", b"a/../b", b"a//b", b"a\0b", b""])
def test_path_that_leads_out_is_malformed(path):
    collected = CollectedFiles(Collect())
    collected.feed(collector_records.pack(collector_records.FILE, path) + collector_records.pack(collector_records.END))
    collected.close("")
    assert "malformed" in collected.error and not collected.files


def test_early_end_of_collector_is_an_error():
    collected = CollectedFiles(Collect())
    collected.feed(collector_records.pack(collector_records.FILE, b"a", 0o644, b"x"))
    collected.close("")
    assert collected.error == "the collector ended early"
