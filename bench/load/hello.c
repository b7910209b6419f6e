/* A minimal CGI program. It needs no interpreter and is linked statically, so nearly all of its
 * cost is starting a process. Build: cc -O3 -static -o hello hello.c */
#include <unistd.h>

int main(void) {
    static const char response[] = "Content-Type: text/plain\n\nhello world!\n";
    return write(1, response, sizeof response - 1) != sizeof response - 1;
}
