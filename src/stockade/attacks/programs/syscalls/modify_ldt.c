// /// attack
// guarantee = "syscalls"
// summary = "Makes a segment of its own in the table that only old 16-bit programs need."
// reference = "modify_ldt(2); CVE-2015-5157"
// success = "the segment is there"
// needs = ["seccomp", "x86_64", "ldt"]
// refusal = { default = "errno" }
// ///

#include <asm/ldt.h>
#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void) {
    struct user_desc segment = {.entry_number = 0, .limit = 0xfff, .seg_32bit = 1, .limit_in_pages = 1};
    if (syscall(SYS_modify_ldt, 1, &segment, sizeof segment) == 0)
        return 42;
    printf("REFUSED %d\n", errno);
    return errno == EPERM || errno == ENOSYS ? 43 : 44;
}
