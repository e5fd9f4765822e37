// /// attack
// guarantee = "processes"
// summary = "Starts as many threads as it can."
// reference = "pthread_create(3), pids.rst: threads count"
// success = "64 threads stand at one time"
// policy = { limits = { processes = 8 } }
// alone = true
// admitted = { gvisor = "more threads of the host" }
// refusal = { default = "errno" }
// ///

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *stay(void *unused) {
    (void)unused;
    pause();
    return NULL;
}

int main(void) {
    for (int count = 1; count < 64; count++) {
        pthread_t thread;
        int error = pthread_create(&thread, NULL, stay, NULL);
        if (error == EAGAIN && count == 8) {
            printf("REFUSED EAGAIN at %d threads\n", count);
            fflush(stdout);
            _exit(43);
        }
        if (error != 0) {
            printf("COULD NOT RUN error %d at %d\n", error, count);
            fflush(stdout);
            _exit(44);
        }
    }
    _exit(42);
}
