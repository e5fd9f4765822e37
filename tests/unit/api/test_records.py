from stockade.api.sessions.records import CellOutcome, CellResult, Display


def test_picture_does_not_fill_the_repr_of_a_result():
    """An agent's maker prints a result to see it."""
    picture = Display({"text/plain": "<Figure>", "image/png": b"\x89PNG" + bytes(100_000)})
    shown = repr(CellResult(CellOutcome.COMPLETED, 1, displays=(picture,)))
    assert len(shown) < 1000 and "<Figure>" in shown and "image/png" in shown
