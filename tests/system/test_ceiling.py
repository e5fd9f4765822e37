"""The administrator's ceiling in its real file, /etc/stockade/policy.toml, seen by one process only.

The test has a mount namespace with an overlay over /etc, so the ceiling bounds nobody else on this machine.
"""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.needs("root")

STOCKADE = f'"{sys.executable}" -m stockade'
SETUP = """
set -e
mount -t tmpfs none "$0"
mkdir "$0/upper" "$0/work"
mount -t overlay none -o "lowerdir=/etc,upperdir=$0/upper,workdir=$0/work" /etc
mkdir -m 755 /etc/stockade
printf '%s' "$1" > /etc/stockade/policy.toml
chmod 644 /etc/stockade/policy.toml
"""
CEILING = '[limits]\nmemory = "64MiB"\nwall_time = 20\n[filesystem]\nwrite = []\n'
LIBRARY = """
import stockade
for policy in (stockade.Policy(limits={"memory": "1GiB", "processes": 5}), "generous", None):
    limits = stockade.plan(policy).policy.limits if policy != "generous" else stockade.resolve(profile=policy).policy.limits
    print(limits.memory, limits.wall_time)
print(stockade.plan(stockade.Policy(limits={"memory": "1GiB"}), backend="native").policy.limits.memory)
result = stockade.run("x = bytearray(100 << 20)", policy=stockade.Policy(limits={"memory": "1GiB"}))
print(result.outcome, result.limit)
try:
    stockade.run("1", policy=stockade.Policy(filesystem={"write": ["/srv"]}, accept={"disk": "absent"}))
except stockade.PolicyError as error:
    print(error)
"""


@pytest.fixture
def under(tmp_path):
    """Run a shell command on a machine with this ceiling."""

    def run(command, ceiling=CEILING):
        words = ["unshare", "--mount", "bash", "-c", SETUP + command, str(tmp_path), ceiling]
        return subprocess.run(words, capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL)

    return run


def test_ceiling_bounds_library_policies(under):
    done = under(f'exec "{sys.executable}" - <<"END"\n{LIBRARY}\nEND')
    assert done.returncode == 0, done.stderr
    *limits, named, outcome, refused = done.stdout.splitlines()
    assert limits == ["67108864 20.0"] * 3
    assert named == "67108864"
    assert outcome == "limit_exceeded memory"
    assert "'/srv' is not allowed: the ceiling has filesystem.write = []" in refused
    assert "(ceiling /etc/stockade/policy.toml)" in refused


def test_same_code_without_ceiling_runs(tmp_path):
    import stockade

    assert stockade.run("x = bytearray(100 << 20)", policy=stockade.Policy(limits={"memory": "1GiB"})).ok


def test_ceiling_bounds_command_line_and_says_so(under):
    done = under(f"{STOCKADE} policy show --limit memory=unlimited --json")
    data = json.loads(done.stdout)
    assert data["policy"]["limits"]["memory"] == 2**26
    assert data["origins"]["limits.memory"] == "ceiling /etc/stockade/policy.toml"
    done = under(f"{STOCKADE} run --write /srv --accept disk=absent -- true")
    assert (done.returncode, "filesystem.write = []" in done.stderr) == (2, True)
    done = under(f"{STOCKADE} run --limit memory=1GiB -c 'x = bytearray(100 << 20)'")
    assert (done.returncode, "its limit on memory" in done.stderr) == (137, True)
    done = under(f"{STOCKADE} plan --json --backend native --limit memory=1GiB")
    assert json.loads(done.stdout)["limits"]["memory"] == 2**26


@pytest.mark.parametrize(
    ("break_it", "word"),
    [
        ("echo '[limits' > /etc/stockade/policy.toml", "nothing runs until it is corrected"),
        ("echo 'limits = 3' > /etc/stockade/policy.toml", "(ceiling /etc/stockade/policy.toml)"),
        ("chmod 666 /etc/stockade/policy.toml", "can be written by others (mode 0666): chmod go-w"),
        (
            "chown 65534 /etc/stockade/policy.toml",
            "belongs to uid 65534, and only root may be able to change a ceiling",
        ),
        ("chmod 777 /etc/stockade", "/etc/stockade can be written by others"),
        ("rm /etc/stockade/policy.toml; ln -s gone /etc/stockade/policy.toml", "No such file"),
        ("rm /etc/stockade/policy.toml; mkdir /etc/stockade/policy.toml", "Is a directory"),
    ],
)
def test_untrusted_ceiling_file_stops_every_run(under, break_it, word):
    done = under(f"{break_it}\n{STOCKADE} run -- echo ran")
    assert (done.returncode, done.stdout) == (2, "")
    assert word in done.stderr


def test_doctor_reports_ceiling(under):
    done = under(f"{STOCKADE} doctor")
    assert "/etc/stockade/policy.toml bounds limits.wall_time, limits.memory, filesystem.write." in " ".join(
        done.stdout.split()
    )
    done = under(f"chmod 666 /etc/stockade/policy.toml; {STOCKADE} doctor --json")
    assert "can be written by others" in json.loads(done.stdout)["ceiling"]["error"]
