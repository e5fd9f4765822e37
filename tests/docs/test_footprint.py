"""The page of places names those that the source uses."""

from pathlib import Path

from stockade.api import start_costs
from stockade.api.packages import store
from stockade.api.snapshots import store as snapshot_store
from stockade.backends.microvm import image
from stockade.cli.eval_places import BESIDE
from stockade.linux import places, uids
from stockade.linux.cgroups.places import PREFIX
from stockade.policy.ceiling_file import SYSTEM

PAGE = (Path(__file__).parents[2] / "docs" / "footprint.md").read_text()


def test_footprint_page_names_every_place(monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/home/ann/.cache")
    cache = str(start_costs._file()).replace("/home/ann", "~")
    runs = f"{places.FOLDER}/{places.PREFIX}PIDS-PID-TOKEN"
    packages = str(store.default_place()).replace("/home/ann", "~")
    machines = str(image.folder()).replace("/home/ann", "~")
    monkeypatch.setenv("XDG_DATA_HOME", "/home/ann/.local/share")
    snapshots = str(snapshot_store.default_folder()).replace("/home/ann", "~")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    for place in (
        str(store.default_place()),
        packages,
        str(image.folder()),
        machines,
        snapshots,
        str(snapshot_store.default_folder()),
        f"{places.STATE}/uids",
        runs,
        f"/{PREFIX}TOKEN",
        SYSTEM,
        cache,
        uids._VARIABLE,
        *BESIDE,
    ):
        assert f"`{place}`" in PAGE or f"{place}`" in PAGE, place
