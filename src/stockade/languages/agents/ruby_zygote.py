"""Keeps a Ruby interpreter warm: its library in a process that knows how to make copies of itself. Each copy runs one
job, by the same agent as a fresh Ruby, and ends.

Nothing of Python is left for the job but the process itself: it runs in the same main thread, with Ruby's own signal
handlers and descriptors. Called with the library and the command line of a fresh Ruby; see embedding in Ruby's
``doc/extension.rdoc`` and ``include/ruby/internal/interpreter.h``.
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

_PACKAGE = type(sys)("stockade")  # without what it imports for its users
_PACKAGE.__path__ = [os.path.join(os.path.dirname(os.path.dirname(__file__)), ".stockade", "stockade")]
sys.modules["stockade"] = _PACKAGE

from stockade.core import trace  # noqa: E402
from stockade.languages.agents.python_agent import mark_completion, say  # noqa: E402
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
    """The interpreter, started when this is made. All of it happens in the main thread, which is Ruby's as well."""

    descriptors: tuple[int, ...] = (5, 6)
    """Two that it has opened, above ``CONTROL``."""
    of_guests: tuple[int, ...] = (_FIRST, _FIRST + 1)
    """The two that a fork opens in their place, where a fresh one has them."""

    def __init__(self, library: str, words: Sequence[str]) -> None:
        """Start it as ``ruby`` with these ``words``, of which the second is a script that is read, and not yet run."""
        for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)  # as a program finds them that is started afresh
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
        self._ruby.rb_gc_register_mark_object(ctypes.c_void_p(self._script))  # nothing that Ruby sees holds it
        self._ruby.rb_eval_string_protect.restype = ctypes.c_void_p
        self._state = ctypes.c_int()
        self._nil = ctypes.c_void_p(self._ruby.rb_eval_string_protect(b"nil", ctypes.byref(self._state)))
        self.evaluate(b"4.times { GC.start }")  # what is old is not looked at again
        self._own = self._actions()
        self._restore(fresh)  # a handler would be called in what keeps the guests, too
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)

    def _argv(self, words: Sequence[str]) -> Any:
        encoded = [ctypes.create_string_buffer(os.fsencode(word)) for word in words]
        places = [ctypes.cast(each, ctypes.c_char_p) for each in encoded]
        array = (ctypes.c_char_p * (len(words) + 1))(*places, None)
        self._kept += (*encoded, array)  # for good: when $0 is set, its text and a NULL are written to the first ones
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
        """Run some code of ours; what goes wrong in it is of no interest."""
        self._ruby.rb_eval_string_protect(code, ctypes.byref(self._state))
        self._ruby.rb_set_errinfo(self._nil)  # or it would be what the job begins with

    def after_closing(self) -> None:
        """Have what the interpreter believes to have: it takes this process, of the same number, for the one in which
        it was started, but timers are not inherited (timer_create(2)). The first one of a process has the same number.
        """
        event = ctypes.create_string_buffer(struct.pack("qii", 0, 0, _SIGEV_NONE), _EVENT_BYTES)
        _C.timer_create(_CLOCK_MONOTONIC, event, ctypes.byref(ctypes.c_void_p()))
        self._reserve()

    def _reserve(self) -> None:
        """Keep the number free that the first of its descriptors has in a fresh one: a fork opens them anew."""
        os.dup2(self.descriptors[-1], _FIRST)

    def fork(self) -> int:
        """Fork as the interpreter itself does, which has its timers and descriptors made anew."""
        os.close(_FIRST)
        answer: int = self._ruby.rb_eval_string_protect(b"Process.fork", ctypes.byref(self._state))
        if self._state.value:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        if answer == self._nil.value:
            return 0
        self._reserve()
        return answer >> 1  # a small Integer (rb_fix2long)

    def go_on(self) -> None:
        """Have the signal handlers that a fresh one has."""
        self._restore(self._own)

    def run(self, arguments: Sequence[str]) -> int:
        """Run the script with these arguments, to the end of the interpreter; return the exit status."""
        words = self._argv(arguments)
        self._ruby.ruby_set_argv(len(arguments), words)
        status: int = self._ruby.ruby_run_node(self._script)
        return status & 0xFF


def apply_launch(launch: dict[str, Any]) -> None:
    """Give this copy the environment of its job, and its interpreter what belongs to a process."""
    for name in environment.keys() - launch["environment"].keys():
        del os.environ[name]
    for name, value in launch["environment"].items():
        if environment.get(name) != value:
            os.environ[name] = value
    ruby.go_on()


def warm_up(_name: str) -> None:
    """Do what most jobs do; nothing of it is seen."""
    ruby.evaluate(_WARM_UP)


os.environ.pop("LD_BIND_NOW", None)  # it has had its effect
environment = dict(os.environ)
begun = processes.clone(processes.NEW_PID)  # so its number is that of those who keep its copies, and of no copy
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
if os.getpid() == first:  # a forked copy of the job may come here as well
    if number:
        trace.note(number, trace.ENDED)
        trace.note(number, trace.COMPLETED)
        say(trace.encode_notes(trace.take()))
    if mark_completion(status):
        zygote.await_kill()
os._exit(status)
