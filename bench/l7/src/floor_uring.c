/* floor_uring: the forwarder of floor_epoll on io_uring. Multishot accept, multishot receive into a
 * ring of provided buffers, sends straight from those buffers; one thread with DEFER_TASKRUN.
 * usage: floor_uring LISTENPORT BACKENDPORT[,BACKENDPORT...] */
#define _GNU_SOURCE
#include "common.h"
#include <errno.h>
#include <liburing.h>

enum { BUFFERS = 4096, BUFFER_SIZE = 2048, SQ_ENTRIES = 4096, CQ_ENTRIES = 16384, QUEUE_START = 8 };

/* The low two bits of user_data give the operation; the rest is the `struct side`. */
enum { OP_ACCEPT = 0, OP_RECV = 1, OP_SEND = 2, OP_MASK = 3 };

struct segment {
    unsigned short buffer;
    int len;
};

/* One end of a forwarded connection; `queue` is a ring of buffers to be sent TO this end. */
struct side {
    int fd;
    struct side *peer;
    char eof, dead, sending;
    int in_flight; /* requests of this side the kernel still holds */
    struct segment *queue;
    unsigned head, tail, capacity;
};

static struct io_uring ring;
static struct io_uring_buf_ring *buffer_ring;
static char *memory;

static char *buffer_at(unsigned short id)
{
    return memory + (size_t)id * BUFFER_SIZE;
}

static void give_back(unsigned short id)
{
    io_uring_buf_ring_add(buffer_ring, buffer_at(id), BUFFER_SIZE, id,
                          io_uring_buf_ring_mask(BUFFERS), 0);
    io_uring_buf_ring_advance(buffer_ring, 1);
}

static struct io_uring_sqe *next_sqe(void)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
    if (!sqe) {
        io_uring_submit(&ring);
        sqe = io_uring_get_sqe(&ring);
    }
    return sqe;
}

static void arm_accept(int listener)
{
    struct io_uring_sqe *sqe = next_sqe();
    io_uring_prep_multishot_accept(sqe, listener, NULL, NULL, 0);
    io_uring_sqe_set_data64(sqe, OP_ACCEPT);
}

static void arm_recv(struct side *s)
{
    struct io_uring_sqe *sqe = next_sqe();
    io_uring_prep_recv_multishot(sqe, s->fd, NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = 0;
    sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
    io_uring_sqe_set_data64(sqe, (uintptr_t)s | OP_RECV);
    s->in_flight++;
}

static void send_front(struct side *s)
{
    struct segment *seg = &s->queue[s->head % s->capacity];
    struct io_uring_sqe *sqe = next_sqe();
    io_uring_prep_send(sqe, s->fd, buffer_at(seg->buffer), (size_t)seg->len,
                       MSG_NOSIGNAL | MSG_WAITALL);
    io_uring_sqe_set_data64(sqe, (uintptr_t)s | OP_SEND);
    s->sending = 1;
    s->in_flight++;
}

static void enqueue(struct side *s, struct segment seg)
{
    if (s->tail - s->head == s->capacity) {
        struct segment *bigger = calloc(s->capacity * 2, sizeof *bigger);
        unsigned n = 0;
        for (unsigned i = s->head; i != s->tail; i++)
            bigger[n++] = s->queue[i % s->capacity];
        free(s->queue);
        s->queue = bigger;
        s->capacity *= 2;
        s->head = 0;
        s->tail = n;
    }
    s->queue[s->tail++ % s->capacity] = seg;
    if (!s->sending)
        send_front(s);
}

static void kill_pair(struct side *s)
{
    if (s->dead)
        return;
    s->dead = s->peer->dead = 1;
    shutdown(s->fd, SHUT_RDWR);
    shutdown(s->peer->fd, SHUT_RDWR);
}

static void release(struct side *s)
{
    close(s->fd);
    while (s->head != s->tail)
        give_back(s->queue[s->head++ % s->capacity].buffer);
    free(s->queue);
    free(s);
}

/* Frees a dead pair once the kernel holds none of its requests. */
static void reap(struct side *s)
{
    struct side *peer = s->peer;
    if (s->in_flight || peer->in_flight)
        return;
    release(s);
    release(peer);
}

/* The sender of the bytes for `to` has ended and everything was sent. */
static void finish(struct side *to)
{
    if (to->eof && !to->peer->sending)
        kill_pair(to);
    else
        shutdown(to->fd, SHUT_WR);
}

static struct side *new_side(int fd)
{
    struct side *s = calloc(1, sizeof *s);
    s->fd = fd;
    s->capacity = QUEUE_START;
    s->queue = calloc(QUEUE_START, sizeof *s->queue);
    set_nodelay(fd);
    return s;
}

static void on_accept(int fd, int backend_port)
{
    struct sockaddr_in addr = loopback(backend_port);
    int out = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(out, (struct sockaddr *)&addr, sizeof addr)) {
        close(fd);
        close(out);
        return;
    }
    struct side *client = new_side(fd), *backend = new_side(out);
    client->peer = backend;
    backend->peer = client;
    arm_recv(client);
    arm_recv(backend);
}

static void on_recv(struct side *s, struct io_uring_cqe *cqe)
{
    int more = cqe->flags & IORING_CQE_F_MORE;
    if (!more)
        s->in_flight--;
    if (cqe->res > 0) {
        unsigned short id = (unsigned short)(cqe->flags >> IORING_CQE_BUFFER_SHIFT);
        if (s->dead) {
            give_back(id);
        } else {
            enqueue(s->peer, (struct segment){id, cqe->res});
            if (!more)
                arm_recv(s);
        }
    } else if (cqe->res == -ENOBUFS && !s->dead) {
        arm_recv(s);
    } else if (!s->dead) {
        s->eof = 1;
        if (cqe->res < 0)
            kill_pair(s);
        else if (!s->peer->sending)
            finish(s->peer);
    }
    if (s->dead)
        reap(s);
}

static void on_send(struct side *s, struct io_uring_cqe *cqe)
{
    struct segment seg = s->queue[s->head++ % s->capacity];
    s->in_flight--;
    s->sending = 0;
    give_back(seg.buffer);
    if (!s->dead) {
        if (cqe->res != seg.len)
            kill_pair(s);
        else if (s->head != s->tail)
            send_front(s);
        else if (s->peer->eof)
            finish(s);
    }
    if (s->dead)
        reap(s);
}

static void set_up_ring(void)
{
    struct io_uring_params params = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
        .cq_entries = CQ_ENTRIES,
    };
    if (io_uring_queue_init_params(SQ_ENTRIES, &ring, &params))
        die("io_uring_queue_init_params");
    io_uring_register_ring_fd(&ring);

    memory = aligned_alloc(4096, (size_t)BUFFERS * BUFFER_SIZE);
    buffer_ring = aligned_alloc(4096, BUFFERS * sizeof(struct io_uring_buf));
    io_uring_buf_ring_init(buffer_ring);
    struct io_uring_buf_reg reg = {.ring_addr = (uintptr_t)buffer_ring, .ring_entries = BUFFERS};
    if (io_uring_register_buf_ring(&ring, &reg, 0))
        die("io_uring_register_buf_ring");
    for (int i = 0; i < BUFFERS; i++)
        give_back((unsigned short)i);
}

int main(int argc, char **argv)
{
    int backends[MAX_BACKENDS], turn = 0;
    if (argc < 3)
        return 2;
    raise_fd_limit();
    int count = parse_ports(argv[2], backends);
    int listener = listen_on(atoi(argv[1]), 0);
    set_up_ring();
    arm_accept(listener);

    for (;;) {
        struct io_uring_cqe *cqe;
        unsigned head, seen = 0;
        io_uring_submit_and_wait(&ring, 1);
        io_uring_for_each_cqe(&ring, head, cqe) {
            struct side *s = (struct side *)(uintptr_t)(cqe->user_data & ~(uint64_t)OP_MASK);
            seen++;
            switch (cqe->user_data & OP_MASK) {
            case OP_ACCEPT:
                if (!(cqe->flags & IORING_CQE_F_MORE))
                    arm_accept(listener);
                if (cqe->res >= 0)
                    on_accept(cqe->res, backends[turn++ % count]);
                break;
            case OP_RECV:
                on_recv(s, cqe);
                break;
            default:
                on_send(s, cqe);
            }
        }
        io_uring_cq_advance(&ring, seen);
    }
}
