// /// attack
// guarantee = "wall_time"
// summary = "Ends the main thread alone and goes on in another: the process looks like a zombie and is none."
// reference = "pthread_exit(3), proc(5)"
// success = "three times the limit goes by"
// policy = { limits = { wall_time = 0.5 } }
// refusal = { default = "limit wall_time" }
// ///

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static void *stay(void *unused) {
    (void)unused;
    usleep(1500000);
    exit(42);
}

int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, stay, NULL) != 0)
        return 44;
    pthread_exit(NULL);
}
