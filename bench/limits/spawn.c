/* A minimal CGI gateway: it repeatedly starts a program with posix_spawn, reads its standard output
 * to the end, and waits for it. Nearly all of its time is spent in the kernel and the program.
 * Build: cc -O3 -o spawn spawn.c      Run: ./spawn COUNT PROGRAM */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    char *arguments[] = {argv[2], 0}, *variables[] = {"GATEWAY_INTERFACE=CGI/1.1", 0};
    for (long remaining = atol(argv[1]); remaining > 0; remaining--) {
        int output[2], status;
        pid_t child;
        posix_spawn_file_actions_t actions;
        if (pipe2(output, O_CLOEXEC)) return 1;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&actions, output[1], 1);
        if (posix_spawn(&child, argv[2], &actions, 0, arguments, variables)) return 1;
        posix_spawn_file_actions_destroy(&actions);
        close(output[1]);
        char bytes[4096];
        while (read(output[0], bytes, sizeof bytes) > 0) {}
        close(output[0]);
        if (waitpid(child, &status, 0) != child || status) return 1;
    }
    return 0;
}
