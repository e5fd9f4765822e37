# /// attack
# guarantee = "privileges"
# summary = "Opens the ports of the hardware to itself."
# reference = "ioperm(2)"
# success = "the kernel goes on to look at what it was given"
# needs = ["root", "x86_64", "ioperm"]
# refusal = { default = "errno" }
# ///


from kit import could_not_run, refused, succeeded, syscall

number = 173
arguments = (0x80, 1, 1)
try:
    syscall(number, *arguments)
except OSError as error:
    if error.errno in (1, 38):
        refused("EPERM" if error.errno == 1 else "ENOSYS")
    could_not_run(error)
succeeded()
