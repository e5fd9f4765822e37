/* Linked into a C or C++ program that is judged: reports that the stack is used up. The kernel only sends SIGSEGV. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static char stockade_own_stack[64 * 1024];
static char *stockade_top;

static void stockade_at_fault(int number, siginfo_t *info, void *context) {
  struct rlimit limit;
  char *at = (char *)info->si_addr, text[64];
  (void)number, (void)context;
  if (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur == RLIM_INFINITY || at >= stockade_top) return;
  size_t used = (size_t)(stockade_top - at), size = (size_t)limit.rlim_cur;
  if (used + (256 << 10) < size || used > size + (256u << 20)) return; /* not a stack overflow */
  int whole = size % (1 << 20) == 0;
  int length = snprintf(text, sizeof text, "the stack of %zu %s is used up\n", size >> (whole ? 20 : 10), whole ? "MiB" : "KiB");
  if (write(2, text, (size_t)length) < 0) return;
} /* SA_RESETHAND: the same instruction faults again, and this time ends the program */

__attribute__((constructor)) static void stockade_watch_stack(void) {
  stack_t own;
  struct sigaction action;
  memset(&own, 0, sizeof own);
  memset(&action, 0, sizeof action);
  stockade_top = (char *)__builtin_frame_address(0);
  own.ss_sp = stockade_own_stack;
  own.ss_size = sizeof stockade_own_stack;
  action.sa_sigaction = stockade_at_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | (int)SA_RESETHAND;
  if (!sigaltstack(&own, NULL)) sigaction(SIGSEGV, &action, NULL);
}
