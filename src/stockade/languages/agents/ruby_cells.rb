# Runs cells of Ruby, one after another in one binding. The session agent starts it as a program of its own.
#
# It shares its process with the guest's code, so nobody may trust what it sends. See session_agent.py for the frames.
require "json"

module Stockade
  LONGEST = 64 * 1024

  class Cells
    def initialize
      @input, @output = IO.for_fd(198, "rb"), IO.for_fd(199, "wb")
      [@input, @output].each { |io| io.close_on_exec = true }
      @output.sync = $stdout.sync = $stderr.sync = true
      @pid, @count, @running = Process.pid, 0, false
      trap("INT") { Thread.main.raise(Interrupt) if @running && Process.pid == @pid }
    end

    def serve
      write("h", JSON.generate(version: RUBY_VERSION))
      loop do
        head = @input.read(5)
        exit! if head.nil?
        request = JSON.parse(@input.read(head[1..].unpack1("N")))
        begin
          cell(request["source"])
        rescue Interrupt => error # it came after the cell's own code
          @running = false
          failure(error)
        end
        exit! if Process.pid != @pid # a child that the cell forked has come to the end of the cell
        [$stdout, $stderr].each { |io| io.flush rescue nil }
        write(".", request["token"])
      end
    end

    private

    def cell(source)
      name = "<cell #{@count += 1}>"
      @running = true
      write("r", "")
      value = TOPLEVEL_BINDING.eval(source, name, 1)
      text = value.nil? ? nil : text_of(value)
      @running = false
      write("v", JSON.generate(repr: text, data: { "text/plain" => text })) unless text.nil?
    rescue Exception => error # rubocop:disable Lint/RescueException
      @running = false
      failure(error)
    end

    def text_of(value)
      value.inspect.to_s.scrub[0, LONGEST]
    rescue StandardError => error
      "<inspect failed: #{error.class}>"
    end

    def failure(error)
      frames = (error.backtrace || []).reject { |line| line.start_with?("-e:") }
      message = error.message.to_s.scrub[0, LONGEST]
      lines = ["#{frames.first || "<cell #{@count}>"}: #{message} (#{error.class})", *frames.drop(1).map { |line| "\tfrom #{line}" }]
      report = { type: error.class.name.to_s, message: message, traceback: lines.join("\n").scrub[0, LONGEST] + "\n" }
      write("x", JSON.generate(report))
    end

    def write(kind, payload)
      @output.write(kind.b + [payload.bytesize].pack("N") + payload.b)
    end
  end
end

Stockade::Cells.new.serve
