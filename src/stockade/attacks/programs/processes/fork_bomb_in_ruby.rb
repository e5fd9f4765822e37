# /// attack
# guarantee = "processes"
# summary = "Forks as often as it can, in Ruby, which waits and tries again where it is refused."
# reference = "fork(2), RLIMIT_NPROC"
# success = "64 processes stand at one time"
# policy = { limits = { processes = 8, wall_time = 4 } }
# alone = true
# refusal = { default = "errno EAGAIN | limit wall_time" }
# ///

require_relative "kit"

children = []
64.times do
  children << fork { sleep 5 }
rescue Errno::EAGAIN
  could_not_run "refused at #{children.size}" unless [6, 7].include?(children.size)
  refused "EAGAIN after #{children.size}"
end
children.each { |child| Process.kill(:KILL, child) }
succeeded
