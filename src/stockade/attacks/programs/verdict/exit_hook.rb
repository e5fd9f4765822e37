# /// attack
# guarantee = "verdict"
# summary = "Changes its exit status when it is about to end, in Ruby."
# reference = "Kernel#at_exit in Ruby's core documentation"
# success = "who goes by exit statuses believes that time was up"
# control = { success = "status 124" }
# refusal = { default = "verdict failed 124" }
# ///

at_exit { exit!(124) }
raise "failed"
