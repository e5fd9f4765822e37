# /// attack
# guarantee = "verdict"
# summary = "Exits with the status by which shells say that a program was killed."
# reference = "sh(1)"
# success = "who goes by exit statuses believes that memory was short"
# control = { success = "status 137" }
# refusal = { bubblewrap = "verdict crashed SIGKILL", oci = "verdict crashed SIGKILL", default = "verdict failed 137" }
# ///

exit 137
