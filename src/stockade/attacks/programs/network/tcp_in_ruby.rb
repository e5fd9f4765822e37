# /// attack
# guarantee = "network"
# summary = "Connects to a service on the host's loopback, in Ruby."
# reference = "TCPSocket in Ruby's library documentation"
# success = "the service answers"
# stage = ["tcp"]
# observe = ["heard"]
# refusal = { process = "denied EACCES", default = "errno ECONNREFUSED" }
# ///

require "socket"
require_relative "kit"

connection = attempt("ECONNREFUSED") { TCPSocket.new("127.0.0.1", target("PORT").to_i) }
succeeded if connection.read(5) == "heard"
