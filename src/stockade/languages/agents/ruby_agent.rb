# Runs a Ruby job inside the sandbox and reports its value or its error on descriptor 3.
#
# Once the guest's code runs, it controls everything in this process, so nobody may trust the report.
# Arguments: the most operations (lines and loop iterations) of the job's own code; the most seconds of one regular
# expression (0 means no limit for both); the script; its arguments. The report is one JSON object a line.

class StockadeAgent
  LONGEST_TEXT = 64 * 1024
  LONGEST_VALUE = 512 * 1024
  LONGEST_NUMBER = 8192 # bits; JSON parsers may refuse longer numbers
  EXHAUSTED = 122 # the exit status of a job that has used up its operations
  OUT_OF_MEMORY = %({"error":{"type":"NoMemoryError","message":"failed to allocate memory","traceback":""}}\n)
  ISEQ = RubyVM::InstructionSequence

  def initialize(most, regexp_seconds, script)
    @most, @script, @count, @pid = Integer(most), script, 0, Process.pid
    @channel = IO.for_fd(3, 'wb', autoclose: false)
    @channel.close_on_exec = true
    @pipe = @channel.stat.ino # shows later whether descriptor 3 is still this pipe: a job may have replaced it
    Regexp.timeout = Float(regexp_seconds) if Float(regexp_seconds).positive?
  end

  # Runs the script as the interpreter does. Relative requires and __dir__ refer to the workspace.
  def run
    $0 = @script
    $stdout.sync = true # a kill must not lose output
    $LOAD_PATH.unshift(Dir.pwd)
    source = File.read(@script, encoding: Encoding::UTF_8)
    give_data(source)
    place = File.join(Dir.pwd, File.basename(@script))
    succeed(compiled(source, @script, place).eval)
  rescue SystemExit, SignalException
    raise
  rescue Exception => error # rubocop:disable Lint/RescueException
    fail_with(error)
    raise error
  ensure
    write_line(operations: [@count, @most].min) if @most.positive?
  end

  private

  # Makes the text after __END__ available as DATA, as for a script that the interpreter reads itself.
  def give_data(source)
    return unless source =~ /^__END__\r?\n/

    file = File.open(@script)
    file.seek($~.post_match.bytesize * -1, IO::SEEK_END)
    Object.const_set(:DATA, file)
  end

  # -- the job's value or error ------------------------------------------------------------------------------------

  # Reports the value of the last expression: its inspect, and the value itself if JSON can represent it.
  def succeed(value)
    return if value.nil?

    text = begin
      text_of(value.inspect)
    rescue StandardError => error
      text_of("<inspect failed: #{error.class}: #{error.message}>")
    end
    report = { repr: text }
    report[:value] = value if plain?(value) && encode(value).bytesize <= LONGEST_VALUE
    write_line(report)
  rescue StandardError, SystemStackError
    write_line(repr: text)
  end

  def plain?(value)
    case value
    when nil, true, false then true
    when Integer then value.bit_length <= LONGEST_NUMBER
    when Symbol then plain?(value.name)
    when Float then value.finite?
    when String then value.ascii_only? || (value.encoding == Encoding::UTF_8 && value.valid_encoding?)
    when Array then value.all? { |each| plain?(each) }
    when Hash then value.all? { |key, each| (String === key || Symbol === key) && plain?(key) && plain?(each) }
    else false
    end
  end

  # Reports an error with the frames of the job's own code. The interpreter prints it.
  def fail_with(error)
    frames = (error.backtrace || []).reject { |frame| frame.start_with?(__FILE__, '<internal:') }
    error.set_backtrace(frames.empty? ? [@script] : frames) unless error.frozen?
    trace = text_of(error.full_message(highlight: false, order: :top))
    write_line(error: { type: error.class.name.to_s, message: text_of(error.message), traceback: trace })
  rescue StandardError, SystemStackError
    write_line(error: { type: error.class.name.to_s, message: '', traceback: '' })
  rescue NoMemoryError
    @channel.syswrite(OUT_OF_MEMORY) rescue nil # the reader may have closed the channel
  end

  def text_of(text)
    text = text.to_s.dup
    text.force_encoding(Encoding::UTF_8) if [Encoding::BINARY, Encoding::US_ASCII].include?(text.encoding)
    text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace).scrub[0, LONGEST_TEXT]
  end

  # Encodes a plain value as JSON. To load the json library would take longer than many jobs.
  def encode(value)
    case value
    when nil then 'null'
    when true, false, Integer, Float then value.to_s
    when Array then "[#{value.map { |each| encode(each) }.join(',')}]"
    when Hash then "{#{value.map { |key, each| "#{quote(key)}:#{encode(each)}" }.join(',')}}"
    else quote(value)
    end
  end

  def quote(text)
    escaped = text.to_s.encode(Encoding::UTF_8).gsub(/["\\\u0000-\u001f]/) { |char| format('\\u%04x', char.ord) }
    "\"#{escaped}\""
  end

  def write_line(report)
    return unless @channel.stat.ino == @pipe

    @channel.write("#{encode(report)}\n")
    @channel.flush
  rescue SystemCallError, IOError
    nil # the reader may have closed the channel
  end

  # -- operations -------------------------------------------------------------------------------------------------

  def compiled(source, path, place)
    return ISEQ.compile(source, path, place) unless @most.positive?

    rubys = RbConfig::CONFIG.values_at('rubylibprefix', 'rubylibdir', 'sitedir', 'vendordir') + Gem.path
    @foreign = [__FILE__, '<internal:', *rubys.compact.map { |folder| "#{folder}/" }]
    agent = self
    ISEQ.define_singleton_method(:load_iseq) { |file| agent.send(:own_file, file) } # files that the job requires
    result = ISEQ.compile(with_turns(source), path, place)
    count_operations
    result
  end

  def own_file(file)
    ISEQ.compile(with_turns(File.read(file, encoding: Encoding::UTF_8)), file, file) if own?(file)
  rescue SyntaxError, SystemCallError
    nil # let the interpreter report the error
  end

  def own?(path)
    !path.start_with?(*@foreign)
  end

  # Ends the process after the last allowed operation. An exception is no use, because the job could rescue it.
  # The count includes all threads. A forked child of the job has a count of its own, and ends alone.
  def count_operations
    own = Hash.new { |known, path| known[path] = own?(path) }
    TracePoint.new(:line, :call, :b_call) do |point|
      next unless own[point.path]

      @count += 1
      finish if @count > @most
    end.enable
  end

  def finish
    write_line(operations: @most) if Process.pid == @pid
  ensure
    Process.exit!(EXHAUSTED)
  end

  # TracePoint has no event for an iteration of `while` on one line. So each condition calls a block, which is an event.
  def with_turns(source)
    lines = source.lines.map(&:b)
    turns(RubyVM::AbstractSyntaxTree.parse(source)).sort.reverse_each do |row, column, text|
      lines[row - 1].insert(column, text)
    end
    changed = lines.join.force_encoding(source.encoding)
    RubyVM::AbstractSyntaxTree.parse(changed)
    changed
  rescue SyntaxError, StandardError
    source # let the interpreter report the error
  end

  # Returns the texts to insert, each with row and column, in bytes.
  def turns(node)
    return [] unless node.is_a?(RubyVM::AbstractSyntaxTree::Node)

    found = node.children.flat_map { |child| turns(child) }
    turn = { WHILE: node.children.first, UNTIL: node.children.first, REDO: node, RETRY: node }[node.type]
    return found unless turn.is_a?(RubyVM::AbstractSyntaxTree::Node)

    found << [turn.first_lineno, turn.first_column, '(->{}.();'] << [turn.last_lineno, turn.last_column, ')']
  end
end

agent = StockadeAgent.new(ARGV.shift, ARGV.shift, ARGV.shift)
Object.__send__(:remove_const, :StockadeAgent)
agent.run
