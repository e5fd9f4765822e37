# What attack programs in Ruby share: the sentinel exit codes, and refusals checked to the errno.

def finish(code, word, note)
  $stdout.syswrite("#{word} #{note}\n")
ensure
  exit!(code)
end

def succeeded(note = "") = finish(42, "ATTACK SUCCEEDED", note)
def refused(note = "") = finish(43, "REFUSED", note)
def could_not_run(note = "") = finish(44, "COULD NOT RUN", note)

# Returns what the block returns. Errors named in +expected+ are the refusal; any other spoils the run.
def attempt(*expected)
  yield
rescue SystemCallError => error
  name = error.class.name.delete_prefix("Errno::")
  expected.include?(name) ? refused(name) : could_not_run("unexpected #{name}: #{error.message}")
end

def target(name)
  ENV["ATTACK_#{name}"] || could_not_run("nothing was prepared: #{name}")
end

# Whether the canary's secret stands in +text+; it is shown if so.
def secret?(text)
  found = text.b[/CANARY-[0-9a-f]{32}/]
  $stdout.syswrite("#{found}\n") if found
  !found.nil?
end
