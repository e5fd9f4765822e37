# /// attack
# guarantee = "syscalls"
# summary = "Makes every page that can be read executable."
# reference = "personality(2), READ_IMPLIES_EXEC"
# success = "it is so"
# needs = ["seccomp"]
# refusal = { default = "errno" }
# ///


from kit import attempt, check, libc, succeeded

attempt(lambda: check(libc().personality(0x0400000)), "EPERM", "ENOSYS")
succeeded()
