/* A minimal HTTP server on epoll: one thread that sends a fixed response to every request head.
 * It parses nothing but the blank line, so nearly all of its time is spent in the kernel.
 * Build: cc -O3 -o epoll epoll.c      Run: ./epoll PORT [close | BYTES]
 * With `close` it closes each connection after one response. With BYTES its responses have a body
 * of that many bytes. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define FIELDS                                                                                     \
    "HTTP/1.1 200 OK\r\nServer: x\r\nContent-Type: text/plain; charset=utf-8\r\n"                  \
    "Cache-Control: public, immutable, max-age=3600\r\nContent-Length: 13\r\n"
static const char keep_alive_response[] = FIELDS "\r\nhello world!\n";
static const char close_response[] = FIELDS "Connection: close\r\n\r\nhello world!\n";

int main(int argc, char **argv) {
    int port = argc > 1 ? atoi(argv[1]) : 9001, one = 1;
    int closes = argc > 2 && !strcmp(argv[2], "close");
    const char *response = closes ? close_response : keep_alive_response;
    size_t response_bytes =
        closes ? sizeof close_response - 1 : sizeof keep_alive_response - 1;
    int body_bytes = argc > 2 && !closes ? atoi(argv[2]) : 0;
    if (body_bytes > 0) {
        char *large_response = calloc(1, body_bytes + 256);
        int head_bytes = sprintf(large_response, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
                                                 "Content-Length: %d\r\n\r\n", body_bytes);
        memset(large_response + head_bytes, '-', body_bytes);
        response = large_response, response_bytes = head_bytes + body_bytes;
    }
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (void *)&address, sizeof address) || listen(listener, 4096)) return 1;
    int events = epoll_create1(0);
    struct epoll_event interest = {.events = EPOLLIN, .data.fd = listener}, ready[512];
    epoll_ctl(events, EPOLL_CTL_ADD, listener, &interest);
    static char in[65536], out[1 << 20];
    for (;;) {
        int count = epoll_wait(events, ready, 512, -1);
        for (int i = 0; i < count; i++) {
            int fd = ready[i].data.fd;
            if (fd == listener) {
                int peer;
                while ((peer = accept4(listener, 0, 0, SOCK_NONBLOCK)) >= 0) {
                    setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                    interest.events = EPOLLIN, interest.data.fd = peer;
                    epoll_ctl(events, EPOLL_CTL_ADD, peer, &interest);
                }
                continue;
            }
            ssize_t received = recv(fd, in, sizeof in, 0);
            if (received <= 0) { close(fd); continue; }
            size_t pending_bytes = 0;
            char *limit = in + received;
            for (char *p = in, *end; (end = memmem(p, limit - p, "\r\n\r\n", 4)); p = end + 4) {
                if (pending_bytes + response_bytes > sizeof out) break;
                memcpy(out + pending_bytes, response, response_bytes);
                pending_bytes += response_bytes;
            }
            for (size_t sent = 0; sent < pending_bytes;) {
                ssize_t written = send(fd, out + sent, pending_bytes - sent, MSG_NOSIGNAL);
                struct pollfd writable = {.fd = fd, .events = POLLOUT};
                if (written > 0) sent += written;
                else if (poll(&writable, 1, 1000) <= 0) break;
            }
            if (closes) close(fd);
        }
    }
}
