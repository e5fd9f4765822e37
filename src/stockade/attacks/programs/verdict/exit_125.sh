# /// attack
# guarantee = "verdict"
# summary = "Exits with the status by which the command line says that the sandbox failed."
# reference = "docker-run(1)"
# success = "who goes by exit statuses believes it"
# control = { success = "status 125" }
# refusal = { default = "verdict failed 125" }
# ///

exit 125
