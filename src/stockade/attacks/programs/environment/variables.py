# /// attack
# guarantee = "environment"
# summary = "Looks for the caller's secrets in its own environment."
# reference = "environ(7)"
# success = "the secret is there"
# stage = ["caller_secret"]
# observe = ["secret"]
# refusal = { bubblewrap = "says more than was given: {'PWD'}", oci = "says more than was given: {'PWD'}", default = "errno" }
# ///

import os

from kit import could_not_run, has_secret, refused, succeeded

if has_secret(repr(sorted(os.environ.items()))):
    succeeded()
GIVEN = {"PATH", "HOME", "TMPDIR", "LANG", "LC_CTYPE", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"}
GIVEN |= {"GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0"}
names = {name for name in os.environ if not name.startswith("ATTACK_")} - GIVEN
if names:
    could_not_run(f"more than was given: {names}")
refused("PATH, HOME, TMPDIR, LANG, three numbers of threads and four settings of git are all there is")
