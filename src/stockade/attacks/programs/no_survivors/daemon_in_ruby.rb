# /// attack
# guarantee = "no_survivors"
# summary = "Becomes a daemon by the library's own call, in Ruby."
# reference = "Process.daemon in Ruby's core documentation"
# success = "it is there when the run is over"
# observe = ["survivors"]
# control = { success = "status 42" }
# refusal = { default = "verdict failed 42" }
# ///

require_relative "kit"

fork do
  Process.daemon(true)
  Process.setproctitle("#{target("MARKER")}-daemon")
  File.write("up", "") rescue nil
  sleep 5
end
sleep 0.5
exit!(42)
