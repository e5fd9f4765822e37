# /// attack
# guarantee = "verdict"
# summary = "Exits with the status by which shells say that a program crashed."
# reference = "sh(1)"
# success = "who goes by exit statuses believes that it crashed"
# control = { success = "status 139" }
# refusal = { bubblewrap = "verdict crashed SIGSEGV", oci = "verdict crashed SIGSEGV", default = "verdict failed 139" }
# ///

exit 139
