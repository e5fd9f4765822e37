// /// attack
// guarantee = "stack"
// summary = "Recurses until the stack takes four times the limit."
// reference = "setrlimit(2), RLIMIT_STACK"
// success = "4 MiB of stack are in use"
// policy = { limits = { stack = "1MiB" } }
// refusal = { default = "crash SIGSEGV" }
// ///

#include <string.h>

static volatile int depth;

static int deeper(int left) {
    volatile char frame[4096];
    memset((char *)frame, left, sizeof frame);
    depth++;
    return left == 0 ? frame[0] : deeper(left - 1) + frame[1];
}

int main(void) {
    deeper(1024);
    return depth == 1025 ? 42 : 44;
}
