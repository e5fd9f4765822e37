"""Warm Ruby looks to a program like a fresh Ruby, except for the documented differences."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.support.warm import seen

import stockade
from stockade.languages import python

pytestmark = [pytest.mark.needs("namespaces", "ruby")]

PROGRAMS = {
    "nothing": "",
    "value": "1 + 1",
    "value of text": "\"a\\\"b\\\\c\\n\\u00e9\\u20ac\\u0001\"",
    "value in value": "{ 'a' => [1, 2.5, nil, true], b: :c, 'd' => {} }",
    "value with no JSON": "[Object, 1..2, 1r]",
    "value that is no number": "[Float::NAN, 1]",
    "value with itself in it": "a = []; a << a; a",
    "value with deep brackets": "a = []; 5000.times { a = [a] }; a",
    "value that cannot be told": "class A; def inspect = raise('no'); end; A.new",
    "output": "puts 'one'; print 'two'",
    "to stderr": "warn 'no'",
    "bytes": "$stdout.binmode; print \"\\xff\\x00\".b",
    "input": "p gets, $stdin.read",
    "arguments": "p ARGV, $0, $PROGRAM_NAME, __FILE__, __dir__, __method__.inspect",
    "its own name": "$0 = 'x' * 9; p $0",
    "environment": "p ENV.to_h.sort",
    "environment that is changed": "ENV['A'] = 'b'; ENV.delete('PATH'); puts `echo $A`",
    "exit 3": "exit 3",
    "exit false": "exit false",
    "exit!": "at_exit { puts 'never' }; exit! 4",
    "abort": "abort 'that was it'",
    "error": "def f(x) = 1 / x\nf(0)",
    "error that the agent must not catch": "raise Exception, 'all'",
    "error with a cause": "begin; raise 'a'; rescue => e; raise ArgumentError, 'b'; end",
    "error with a hint": "colour = 1; color",
    "error that is frozen": "raise RuntimeError.new('x').freeze",
    "no such method": "nil.foo(1)",
    "syntax error": "def f(",
    "name that is no constant": "NoSuch",
    "what went wrong before": "p $!, $@, $~, $_",
    "stop": "Process.kill(:TERM, $$); sleep 5",
    "kill": "Process.kill(:KILL, $$); sleep 5",
    "interrupt": "raise Interrupt",
    "trap": "trap(:TERM) { puts 'caught'; exit 0 }; Process.kill(:TERM, $$); sleep 5",
    "trap of USR1": "trap(:USR1) { puts 'caught' }; Process.kill(:USR1, $$); sleep 0.1; p trap(:USR1, 'DEFAULT').class",
    "traps that are there": "Signal.list.keys.reject { |n| %w[EXIT KILL STOP VTALRM].include?(n) }.each { |n| p [n, (trap(n, 'DEFAULT') rescue $!.message)] }",
    "signals that are caught": "puts File.readlines('/proc/self/status').grep(/Sig[^Q]|Shd/)",
    "segmentation fault of a child": "fork { $stderr.reopen('/dev/null'); Process.kill(:SEGV, $$); sleep 1 }; Process.wait; p $?.signaled?",
    "broken pipe": "r, w = IO.pipe; r.close; begin; w << 'x'; w.flush; rescue => e; p e.class; end",
    "at exit": "at_exit { puts 'bye' }; puts 'first'; END { puts 'END' }",
    "finalizer": "ObjectSpace.define_finalizer(Object.new, proc { puts 'gone' }); puts 'there'",
    "thread": "Thread.new { sleep 0.05; puts 'late' }.join; puts Thread.list.size",
    "thread left behind": "Thread.new { sleep 60 }; puts 'main'",
    "thread that fails": "t = Thread.new { raise 'in it' }; t.report_on_exception = true; t.join",
    "many threads": "q = Queue.new; 9.times { |n| Thread.new { q << n } }; p 9.times.map { q.pop }.sort",
    "timeout": "require 'timeout'\nbegin; Timeout.timeout(0.05) { sleep 5 }; rescue Timeout::Error => e; p e.class; end",
    "endless loop that is interrupted": "t = Thread.new { loop {} }; sleep 0.05; t.kill; t.join; p t.alive?",
    "fiber": "f = Fiber.new { Fiber.yield 1; 2 }; p f.resume, f.resume",
    "enumerator": "e = [1, 2].each; p e.next, e.next; begin; e.next; rescue StopIteration; p :end; end",
    "ractor": "p Ractor.new { 1 + 2 }.take",
    "fork": "pid = fork { puts 'child' }; Process.wait(pid); puts 'parent'; p $?.exitstatus",
    "fork that falls through": "pid = fork; Process.wait(pid) if pid; puts(pid ? 'parent' : 'child')",
    "fork that fails": "fork { raise 'child' }; Process.wait; p $?.exitstatus",
    "fork that exits": "fork { at_exit { puts 'of the child' }; exit 3 }; Process.wait; p $?.exitstatus",
    "shell": "puts `echo hello`; p $?.success?; system('exit 3'); p $?.exitstatus",
    "spawn": "pid = spawn('echo', 'x', out: :err); Process.wait pid",
    "popen": "p IO.popen(['cat'], 'r+') { |f| f << 'abc'; f.close_write; f.read }",
    "exec": "exec 'echo', 'another'",
    "orphan": "fork { sleep 60 }; puts 'main'",
    "features": "p $LOADED_FEATURES.map { |f| File.basename(f) }.sort",
    "load path": "p $LOAD_PATH",
    "constants": "p Object.constants.sort",
    "globals": "p global_variables.sort",
    "methods of main": "p self.to_s, self.class, private_methods(false).sort, singleton_methods",
    "gems": "p Gem::VERSION, Gem.path, Gem.loaded_specs.keys.sort",
    "a library": "require 'json'; puts JSON.generate({ 'a' => [1] }); require 'set'; p Set[1]",
    "an extension": "require 'digest'; puts Digest::SHA256.hexdigest('a'); require 'stringio'; p StringIO.new('a').read",
    "encodings": "p Encoding.default_external, Encoding.default_internal, Encoding.find('locale'), __ENCODING__",
    "configuration": "require 'rbconfig'; p RbConfig.ruby, RUBY_VERSION, RUBY_PLATFORM, RUBY_ENGINE",
    "options": "p $VERBOSE, $DEBUG, $-w, $;, $,, $/, $-a, $-l, $-p, $-i",
    "limits": "p %i[STACK NOFILE NPROC CORE FSIZE CPU AS DATA].map { |n| Process.getrlimit(n) }",
    "recursion": "def f(n) = n.zero? ? 0 : 1 + f(n - 1)\np f(5000)",
    "too deep": "def f = f\nbegin; f; rescue SystemStackError => e; p e.message; end",
    "file that is too large": "begin; File.open('/tmp/x', 'w') { |f| 99.times { f << 'x' * 9_999_999 } }; rescue => e; p e.class; end",
    "descriptors": "p Dir.children('/proc/self/fd').map(&:to_i).sort",
    "folder": "p Dir.pwd, Dir.children('.'), Dir.children('/').sort",
    "umask": "p File.umask",
    "ids": "p Process.uid, Process.gid, Process.groups, Process.getsid, Process.getpgrp",
    "pids": "p Process.pid, Process.ppid, Dir.children('/proc').grep(/\\A\\d+\\z/).map(&:to_i).sort",
    "capabilities": "puts File.readlines('/proc/self/status').grep(/Cap|NoNew|Seccomp|Threads|Groups|Name/)",
    "sockets": "require 'socket'; s = TCPServer.new('127.0.0.1', 0); TCPSocket.new('127.0.0.1', s.addr[1]); p s.accept.class",
    "writes": "%w[/tmp/a /dev/shm/a a /a /job/a /etc/a /usr/a].each { |n| p [n, (File.write(n, 'x') rescue $!.class)] }",
    "own source": "puts File.read($0)",
    "data": "p DATA.read\n__END__\nafter the end\n",
    "where it is": "p caller.size, caller_locations.size",
    "time": "p Time.at(0).hour, Time.now.year > 2000, ENV['TZ'] = 'Asia/Tokyo', Time.at(0).hour",
    "collector": "p GC.stress, GC.enable, GC.measure_total_time; GC.start; GC.compact; p 'x' * 3",
    "much memory": "a = Array.new(200_000) { |n| n.to_s }; GC.start; p a.sum(&:size)",
    "eval": "p eval('1 + 1'), binding.local_variables, instance_eval { 5 }",
    "tracing": "n = 0; t = TracePoint.new(:call) { n += 1 }; def f = 1\nt.enable { f; f }; p n",
    "refinement": "module M; refine(Integer) { def twice = self * 2 }; end\nusing M\np 4.twice",
    "C stream": "require 'fiddle'; Fiddle::Function.new(Fiddle.dlopen(nil)['puts'], [Fiddle::TYPE_VOIDP], Fiddle::TYPE_INT).call('from C')",
}  # fmt: skip


@pytest.fixture(scope="module")
def fresh():
    return stockade.Runner(backend="native", warm=False)


@pytest.fixture(scope="module")
def warm():
    if not python.of_the_system():
        pytest.skip("no Python below /usr is there that could keep a Ruby warm")
    return stockade.Runner(backend="native", warm=True)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_runs_as_in_fresh_interpreter(name, fresh, warm):
    options = {"language": "ruby", "stdin": "first\nrest", "arguments": ["a", "b"]}
    one, other = (box.run(PROGRAMS[name], **options) for box in (warm, fresh))
    assert seen(one) == seen(other)
    assert (one.shared != "", other.shared) == (True, "")


_AT_ONCE = """
import stockade
box = stockade.Runner(backend="native", warm=True)
for _ in range(14):
    result = box.run("6 * 7", language="ruby")
    print(result.exit_code, result.signal, result.value)
"""


@pytest.mark.parametrize("_time", range(6))
def test_concurrent_ruby_runs_end_in_order(_time: int) -> None:
    """The overwritten memory showed in only half of the rounds, so there are several."""
    done = subprocess.run([sys.executable, "-c", _AT_ONCE], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["0 None 42"] * 14
