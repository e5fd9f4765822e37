// /// attack
// guarantee = "syscalls"
// summary = "Calls by the numbers of the third door, x32, where the same call has another one."
// reference = "seccomp(2): a filter must look at the bit __X32_SYSCALL_BIT"
// success = "getpid answers there"
// needs = ["seccomp", "x86_64", "x32"]
// refusal = { default = "crash SIGSYS | errno" }
// ///

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

int main(void) {
    long result = syscall(0x40000000 | 39);
    if (result > 0)
        return 42;
    printf("REFUSED %d\n", errno);
    return errno == EPERM || errno == ENOSYS ? 43 : 44;
}
