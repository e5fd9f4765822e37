# /// attack
# guarantee = "verdict"
# summary = "Exits with the status by which timeout(1) says that time was up."
# reference = "timeout(1)"
# success = "who goes by exit statuses believes it"
# control = { success = "status 124" }
# refusal = { default = "verdict failed 124" }
# ///

exit 124
