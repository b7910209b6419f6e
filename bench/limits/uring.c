/* A minimal HTTP server on io_uring: multishot accept and receive, provided buffers, and one send
 * for all responses to the requests of one receive.
 * Build: cc -O3 -o uring uring.c -luring   (Debian: liburing-dev)      Run: ./uring PORT [close]
 * With `close` it receives once on each connection, then submits a send and a close, linked. */
#define _GNU_SOURCE
#include <errno.h>
#include <liburing.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1U << 12)
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif

enum {
    BUFFERS = 4096, BUFFER_BYTES = 4096, FDS = 20000, OUT_BYTES = 64 * 1024,
    RECV = 1, SEND = 2, CLOSE = 3
};

#define FIELDS                                                                                     \
    "HTTP/1.1 200 OK\r\nServer: x\r\nContent-Type: text/plain; charset=utf-8\r\n"                  \
    "Cache-Control: public, immutable, max-age=3600\r\nContent-Length: 13\r\n"
static const char keep_alive_response[] = FIELDS "\r\nhello world!\n";
static const char close_response[] = FIELDS "Connection: close\r\n\r\nhello world!\n";

static char *out[FDS];
static struct io_uring ring;
static int closes;

static struct io_uring_sqe *next_sqe(void) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
    if (!sqe) { io_uring_submit(&ring); sqe = io_uring_get_sqe(&ring); }
    return sqe;
}

static void arm_accept(int listener) {
    struct io_uring_sqe *sqe = next_sqe();
    io_uring_prep_multishot_accept(sqe, listener, 0, 0, 0);
    sqe->user_data = 0;
}

static void arm_receive(int fd) {
    struct io_uring_sqe *sqe = next_sqe();
    /* A pending multishot receive would keep the socket open after the close. */
    if (closes) io_uring_prep_recv(sqe, fd, 0, BUFFER_BYTES, 0);
    else io_uring_prep_recv_multishot(sqe, fd, 0, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT, sqe->buf_group = 1;
    sqe->user_data = ((unsigned long)RECV << 32) | fd;
}

static void send_responses(int fd, size_t bytes) {
    if (closes && io_uring_sq_space_left(&ring) < 2) io_uring_submit(&ring);
    struct io_uring_sqe *sqe = next_sqe();
    if (closes) {
        io_uring_prep_send(sqe, fd, close_response, sizeof close_response - 1, MSG_NOSIGNAL);
        sqe->flags |= IOSQE_IO_HARDLINK;
    } else {
        io_uring_prep_send(sqe, fd, out[fd], bytes, MSG_NOSIGNAL);
    }
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    sqe->user_data = ((unsigned long)SEND << 32) | fd;
    if (closes) {
        sqe = next_sqe();
        io_uring_prep_close(sqe, fd);
        sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
        sqe->user_data = ((unsigned long)CLOSE << 32) | fd;
    }
}

int main(int argc, char **argv) {
    int port = argc > 1 ? atoi(argv[1]) : 9002, one = 1;
    closes = argc > 2 && !strcmp(argv[2], "close");
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (void *)&address, sizeof address) || listen(listener, 4096)) return 1;
    struct io_uring_params params = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
        .cq_entries = 16384};
    if (io_uring_queue_init_params(4096, &ring, &params)) { perror("io_uring"); return 1; }
    struct io_uring_buf_ring *buffer_ring;
    size_t ring_bytes = BUFFERS * sizeof(struct io_uring_buf);
    if (posix_memalign((void **)&buffer_ring, 4096, ring_bytes)) return 1;
    io_uring_buf_ring_init(buffer_ring);
    struct io_uring_buf_reg reg = {
        .ring_addr = (unsigned long)buffer_ring, .ring_entries = BUFFERS, .bgid = 1};
    if (io_uring_register_buf_ring(&ring, &reg, 0)) { perror("buffer ring"); return 1; }
    char *in = aligned_alloc(4096, (size_t)BUFFERS * BUFFER_BYTES);
    const int mask = io_uring_buf_ring_mask(BUFFERS);
    for (int i = 0; i < BUFFERS; i++)
        io_uring_buf_ring_add(buffer_ring, in + (size_t)i * BUFFER_BYTES, BUFFER_BYTES, i, mask, i);
    io_uring_buf_ring_advance(buffer_ring, BUFFERS);
    arm_accept(listener);
    const size_t response_bytes = sizeof keep_alive_response - 1;
    for (;;) {
        io_uring_submit_and_wait(&ring, 1);
        struct io_uring_cqe *cqe;
        unsigned head, seen = 0, returned = 0;
        io_uring_for_each_cqe(&ring, head, cqe) {
            seen++;
            int fd = cqe->user_data & 0xffffff;
            if (cqe->user_data == 0) {
                if (cqe->res >= 0 && cqe->res < FDS) {
                    if (!out[cqe->res]) out[cqe->res] = malloc(OUT_BYTES);
                    arm_receive(cqe->res);
                }
                /* The kernel ends the multishot accept if it runs out of descriptors or entries. */
                if (!(cqe->flags & IORING_CQE_F_MORE)) arm_accept(listener);
                continue;
            }
            if (cqe->user_data >> 32 != RECV) continue;
            if (cqe->res <= 0) {
                if (cqe->res == -ENOBUFS) arm_receive(fd); else close(fd);
                continue;
            }
            int id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
            char *from = in + (size_t)id * BUFFER_BYTES, *end;
            size_t pending_bytes = 0;
            for (char *p = from; (end = memmem(p, from + cqe->res - p, "\r\n\r\n", 4));
                 p = end + 4) {
                if (pending_bytes + response_bytes > OUT_BYTES) break;
                memcpy(out[fd] + pending_bytes, keep_alive_response, response_bytes);
                pending_bytes += response_bytes;
            }
            io_uring_buf_ring_add(buffer_ring, from, BUFFER_BYTES, id, mask, returned++);
            if (pending_bytes) send_responses(fd, pending_bytes);
            if (!closes && !(cqe->flags & IORING_CQE_F_MORE)) arm_receive(fd);
        }
        if (returned) io_uring_buf_ring_advance(buffer_ring, returned);
        io_uring_cq_advance(&ring, seen);
    }
}
