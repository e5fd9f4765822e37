# /// attack
# guarantee = "filesystem_read"
# summary = "Reads a file of the host by Ruby's own ways: a path, a glob, and a pipe to a command."
# reference = "Kernel#open in Ruby's core documentation"
# success = "the secret is read"
# stage = ["canary"]
# observe = ["secret"]
# refusal = { process = "errno EACCES", default = "errno ENOENT" }
# ///

require_relative "kit"

path = target("CANARY")
found = []
begin
  found << File.read(path)
rescue Errno::ENOENT, Errno::EACCES => error
  refusal = error.class.name.delete_prefix("Errno::")
end
found += Dir.glob("#{File.dirname(path)}/*").map { |name| File.read(name) rescue "" }
found << IO.popen(["/bin/cat", path], err: File::NULL, &:read)
succeeded if found.any? { |text| secret?(text) }
refused refusal
