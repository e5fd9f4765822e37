// /// attack
// guarantee = "syscalls"
// summary = "Enters the kernel by the 32-bit door, where calls have other numbers."
// reference = "seccomp(2): a filter must look at the architecture"
// success = "getpid answers there"
// needs = ["seccomp", "x86_64", "ia32"]
// refusal = { default = "crash SIGSYS | errno" }
// ///

#include <stdio.h>

int main(void) {
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
    if (result > 0)
        return 42;
    printf("REFUSED %ld\n", -result);
    return result == -1 || result == -38 ? 43 : 44;
}
