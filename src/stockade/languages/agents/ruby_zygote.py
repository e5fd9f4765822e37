"""The Ruby zygote: a Python process that has loaded Ruby as a library and is forked. Each guest runs one job and ends.

The agent is the same as in a fresh Ruby. The job finds no trace of Python but the process itself: it runs in the main
thread, with Ruby's own signal handlers and descriptors. Arguments: the library, and the command line of a fresh Ruby.
See embedding in Ruby's ``doc/extension.rdoc`` and ``include/ruby/internal/interpreter.h``.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_PACKAGE = type(sys)("stockade")  # without the package's own ``__init__`` and its imports
_PACKAGE.__path__ = [os.path.join(os.path.dirname(os.path.dirname(__file__)), ".stockade", "stockade")]
sys.modules["stockade"] = _PACKAGE

from stockade.core import trace  # noqa: E402
from stockade.languages.agents.python_agent import mark_completion, write_line  # noqa: E402
from stockade.linux import processes  # noqa: E402
from stockade.warden.warm import zygote  # noqa: E402

_SIGNALS = [each for each in range(1, 32) if each not in (signal.SIGKILL, signal.SIGSTOP)]
_ACTION_BYTES = 256  # no struct sigaction (sigaction(2)) is larger
_WARM_UP = b"""
begin
  text = RubyVM::InstructionSequence.compile('x = [1, 2].map { |n| n + 1 }; "#{x} #{x.sum}"', 'a', 'a').eval
  File.read('/etc/passwd')
  raise ArgumentError, text
rescue StandardError => error
  error.full_message(highlight: false, order: :top)
end
nil
"""
_PR_SET_NAME = 15
_CLOCK_MONOTONIC, _SIGEV_NONE, _EVENT_BYTES = 1, 1, 64  # of struct sigevent
_FIRST = 4
_C = ctypes.CDLL(None)


class Ruby:
    """The Ruby interpreter, started by the constructor. All calls come from the main thread, which is also Ruby's."""

    descriptors: tuple[int, ...] = (5, 6)
    """Two descriptors that Ruby has opened, above ``CONTROL``."""
    of_guests: tuple[int, ...] = (_FIRST, _FIRST + 1)
    """Two descriptors that Ruby opens again in a fork, at the numbers that a fresh Ruby has for them."""

    def __init__(self, library: str, words: Sequence[str]) -> None:
        """Start Ruby with the command line ``words``. Ruby reads the script, the second word, but does not run it."""
        for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)  # as in a freshly started program
        fresh = self._actions()
        self._kept: list[Any] = []
        self._ruby = ctypes.PyDLL(library, mode=ctypes.RTLD_GLOBAL)
        self._ruby.ruby_process_options.restype = ctypes.c_void_p
        self._ruby.ruby_run_node.argtypes = (ctypes.c_void_p,)
        count, pointer = ctypes.c_int(len(words)), ctypes.pointer(self._argv(words))
        self._ruby.ruby_sysinit(ctypes.byref(count), ctypes.byref(pointer))
        self._ruby.ruby_init_stack(ctypes.byref(count))
        if self._ruby.ruby_setup():
            raise OSError("Ruby could not be set up")
        self._script = self._ruby.ruby_process_options(count, pointer)
        self._ruby.rb_gc_register_mark_object(ctypes.c_void_p(self._script))  # Ruby itself has no reference to it
        self._ruby.rb_eval_string_protect.restype = ctypes.c_void_p
        self._state = ctypes.c_int()
        self._nil = ctypes.c_void_p(self._ruby.rb_eval_string_protect(b"nil", ctypes.byref(self._state)))
        self.evaluate(b"4.times { GC.start }")  # old objects are not scanned again
        self._own = self._actions()
        self._restore(fresh)  # else Ruby's handlers would run in the worker, too
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)

    def _argv(self, words: Sequence[str]) -> Any:
        encoded = [ctypes.create_string_buffer(os.fsencode(word)) for word in words]
        pointers = [ctypes.cast(each, ctypes.c_char_p) for each in encoded]
        array = (ctypes.c_char_p * (len(words) + 1))(*pointers, None)
        self._kept += (*encoded, array)  # for good: setting $0 writes to the memory of the first words
        return array

    def _actions(self) -> list[Any]:
        found = []
        for number in _SIGNALS:
            found.append(ctypes.create_string_buffer(_ACTION_BYTES))
            _C.sigaction(number, None, found[-1])
        return found

    def _restore(self, actions: list[Any]) -> None:
        for number, action in zip(_SIGNALS, actions, strict=True):
            _C.sigaction(number, action, None)

    def evaluate(self, code: bytes) -> None:
        """Run code of ours; its errors do not matter."""
        self._ruby.rb_eval_string_protect(code, ctypes.byref(self._state))
        self._ruby.rb_set_errinfo(self._nil)  # else the job would begin with this error in $!

    def after_closing(self) -> None:
        """Make a timer again. Ruby believes that it is still in the process where it started, which had the same pid.

        A fork inherits no timer (timer_create(2)). The first timer of a process always has the same number.
        """
        event = ctypes.create_string_buffer(struct.pack("qii", 0, 0, _SIGEV_NONE), _EVENT_BYTES)
        _C.timer_create(_CLOCK_MONOTONIC, event, ctypes.byref(ctypes.c_void_p()))
        self._reserve()

    def _reserve(self) -> None:
        """Keep the number occupied where a fork of Ruby must open its first descriptor."""
        os.dup2(self.descriptors[-1], _FIRST)

    def fork(self) -> int:
        """Fork through Ruby, which then makes its timers and descriptors again."""
        os.close(_FIRST)
        answer: int = self._ruby.rb_eval_string_protect(b"Process.fork", ctypes.byref(self._state))
        if self._state.value:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        if answer == self._nil.value:
            return 0
        self._reserve()
        return answer >> 1  # a small Integer (rb_fix2long)

    def restore_handlers(self) -> None:
        """Install Ruby's own signal handlers, as in a fresh Ruby."""
        self._restore(self._own)

    def run(self, arguments: Sequence[str]) -> int:
        """Run the script with these arguments until Ruby has ended; return the exit status."""
        words = self._argv(arguments)
        self._ruby.ruby_set_argv(len(arguments), words)
        status: int = self._ruby.ruby_run_node(self._script)
        return status & 0xFF


def apply_launch(launch: dict[str, Any]) -> None:
    """Give this process the environment of its job and Ruby's signal handlers."""
    for name in environment.keys() - launch["environment"].keys():
        del os.environ[name]
    for name, value in launch["environment"].items():
        if environment.get(name) != value:
            os.environ[name] = value
    ruby.restore_handlers()


def warm_up(_name: str) -> None:
    """Do what most jobs do, without any output."""
    ruby.evaluate(_WARM_UP)


os.environ.pop("LD_BIND_NOW", None)  # only needed at the start
environment = dict(os.environ)
begun = processes.clone(processes.NEW_PID)  # Ruby gets pid 1, as in each worker; no guest has that pid
if begun:
    os._exit(os.waitstatus_to_exitcode(os.waitpid(begun, 0)[1]) & 0xFF)
_C.prctl(_PR_SET_NAME, os.path.basename(sys.argv[2]).encode())
ruby = Ruby(sys.argv[1], sys.argv[2:])
launch = zygote.wait((b"", warm_up), ruby)
apply_launch(launch)
first, number = os.getpid(), launch["trace"]
trace.note(number, trace.BEGUN)
status = ruby.run(launch["argv"][2:])
zygote.flush()
if os.getpid() == first:  # a forked child of the job may come here as well
    if number:
        trace.note(number, trace.ENDED)
        trace.note(number, trace.COMPLETED)
        write_line(trace.encode_notes(trace.take()))
    if mark_completion(status):
        zygote.await_kill()
os._exit(status)
