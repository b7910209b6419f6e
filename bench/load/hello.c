/* The smallest CGI script there is: without an interpreter, and linked statically, so that starting
 * it is nearly all that it costs. Build: cc -O3 -static -o hello hello.c */
#include <unistd.h>

int main(void) {
    static const char response[] = "Content-Type: text/plain\n\nhello world!\n";
    return write(1, response, sizeof response - 1) != sizeof response - 1;
}
