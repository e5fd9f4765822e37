# Runs a Ruby job inside the sandbox and reports its value or its error on descriptor 3.
#
# Everything here is in the guest's hands once the guest's code runs: what it reports is the guest's word.
# Called with two figures (the most lines and turns of loops that the job's own code may take, and the seconds that a
# regular expression may take; 0 is none), the script, and its arguments. It reports one JSON object a line.

class StockadeAgent
  LONGEST_TEXT = 64 * 1024
  LONGEST_VALUE = 512 * 1024
  LONGEST_NUMBER = 8192 # bits; whoever reads JSON may take no more digits
  EXHAUSTED = 122 # the exit status of a job that has used up its operations
  OUT_OF_MEMORY = %({"error":{"type":"NoMemoryError","message":"failed to allocate memory","traceback":""}}\n)
  ISEQ = RubyVM::InstructionSequence

  def initialize(most, regexp_seconds, script)
    @most, @script, @count, @pid = Integer(most), script, 0, Process.pid
    @channel = IO.for_fd(3, 'wb', autoclose: false)
    @channel.close_on_exec = true
    @pipe = @channel.stat.ino # a job may close it, and have a file of its own by that number
    Regexp.timeout = Float(regexp_seconds) if Float(regexp_seconds).positive?
  end

  # Runs the script as the interpreter does; relative requires and __dir__ are the workspace's.
  def run
    $0 = @script
    $stdout.sync = true # what was printed survives a kill
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
    say(operations: [@count, @most].min) if @most.positive?
  end

  private

  # What follows __END__ is DATA, as for a script that the interpreter reads itself.
  def give_data(source)
    return unless source =~ /^__END__\r?\n/

    file = File.open(@script)
    file.seek($~.post_match.bytesize * -1, IO::SEEK_END)
    Object.const_set(:DATA, file)
  end

  # -- what the job came to ---------------------------------------------------------------------------------------

  # Reports the value of the last expression: its inspect, and the value itself where JSON can hold it.
  def succeed(value)
    return if value.nil?

    text = begin
      text_of(value.inspect)
    rescue StandardError => error
      text_of("<inspect failed: #{error.class}: #{error.message}>")
    end
    told = { repr: text }
    told[:value] = value if plain?(value) && spell(value).bytesize <= LONGEST_VALUE
    say(told)
  rescue StandardError, SystemStackError
    say(repr: text)
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

  # Reports an error with the frames of the job's own code, and leaves it to the interpreter to print.
  def fail_with(error)
    frames = (error.backtrace || []).reject { |frame| frame.start_with?(__FILE__, '<internal:') }
    error.set_backtrace(frames.empty? ? [@script] : frames) unless error.frozen?
    trace = text_of(error.full_message(highlight: false, order: :top))
    say(error: { type: error.class.name.to_s, message: text_of(error.message), traceback: trace })
  rescue StandardError, SystemStackError
    say(error: { type: error.class.name.to_s, message: '', traceback: '' })
  rescue NoMemoryError
    @channel.syswrite(OUT_OF_MEMORY) rescue nil # the reader may have stopped listening
  end

  def text_of(text)
    text = text.to_s.dup
    text.force_encoding(Encoding::UTF_8) if [Encoding::BINARY, Encoding::US_ASCII].include?(text.encoding)
    text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace).scrub[0, LONGEST_TEXT]
  end

  # JSON of what is plain; to load the library for it would take longer than many a job.
  def spell(value)
    case value
    when nil then 'null'
    when true, false, Integer, Float then value.to_s
    when Array then "[#{value.map { |each| spell(each) }.join(',')}]"
    when Hash then "{#{value.map { |key, each| "#{quote(key)}:#{spell(each)}" }.join(',')}}"
    else quote(value)
    end
  end

  def quote(text)
    escaped = text.to_s.encode(Encoding::UTF_8).gsub(/["\\\u0000-\u001f]/) { |char| format('\\u%04x', char.ord) }
    "\"#{escaped}\""
  end

  def say(told)
    return unless @channel.stat.ino == @pipe

    @channel.write("#{spell(told)}\n")
    @channel.flush
  rescue SystemCallError, IOError
    nil # the reader may have stopped listening
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
    nil # the interpreter finds the words for it
  end

  def own?(path)
    !path.start_with?(*@foreign)
  end

  # Ends the process at the line, call or turn after the last that it may take. Nothing is raised, or the job could
  # rescue it. It holds for all threads; a forked copy counts on for itself, and ends alone.
  def count_operations
    own = Hash.new { |known, path| known[path] = own?(path) }
    TracePoint.new(:line, :call, :b_call) do |point|
      next unless own[point.path]

      @count += 1
      finish if @count > @most
    end.enable
  end

  def finish
    say(operations: @most) if Process.pid == @pid
  ensure
    Process.exit!(EXHAUSTED)
  end

  # A turn of `while` on one line is no event of a TracePoint. So what makes a turn is given a block to call, which is one.
  def with_turns(source)
    lines = source.lines.map(&:b)
    turns(RubyVM::AbstractSyntaxTree.parse(source)).sort.reverse_each do |row, column, text|
      lines[row - 1].insert(column, text)
    end
    changed = lines.join.force_encoding(source.encoding)
    RubyVM::AbstractSyntaxTree.parse(changed)
    changed
  rescue SyntaxError, StandardError
    source # the interpreter finds the words for what is wrong with it
  end

  # Returns what to insert where: row, column in bytes, text.
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
