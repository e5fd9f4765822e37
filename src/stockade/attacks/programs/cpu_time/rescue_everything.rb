# /// attack
# guarantee = "cpu_time"
# summary = "Rescues every exception and goes on, in Ruby."
# reference = "Exception in Ruby's core documentation"
# success = "three times the limit is spent"
# policy = { limits = { cpu_time = 0.5 } }
# refusal = { default = "limit cpu_time" }
# ///

require_relative "kit"

def spent = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)

until spent > 1.5
  begin
    1000.times { |number| number * number }
  rescue Exception # rubocop:disable Lint/RescueException
    retry
  end
end
succeeded
