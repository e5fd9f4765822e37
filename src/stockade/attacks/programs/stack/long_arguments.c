// /// attack
// guarantee = "stack"
// summary = "Executes itself with arguments longer than a quarter of the allowed stack."
// reference = "execve(2): arguments may take a quarter of the stack's limit"
// success = "1 MiB of arguments is there"
// policy = { limits = { stack = "1MiB" } }
// refusal = { default = "errno" }
// ///

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **words) {
    if (count > 16)
        return 42;
    static char *many[18];
    char *word = malloc(65537);
    memset(word, 'x', 65536);
    word[65536] = 0;
    for (int i = 0; i < 17; i++)
        many[i] = word;
    execv(words[0], many);
    if (errno != E2BIG)
        return 44;
    puts("REFUSED E2BIG");
    return 43;
}
