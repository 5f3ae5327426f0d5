/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reverse lane: when a stream reaches work on the program's memory or functions, the worker
 * asks the program over this lane. Any thread may ask; one thread reads the answers.
 */
#include <semaphore.h>

#include "remote/worker.h"

struct asked {
	struct asked *next;
	uint64_t token;
	uint8_t *to; /* destination of the answer's bytes */
	size_t bytes;
	sem_t is_there;
};

/*
 * `lock` protects the questions in `asked`, and `down_lock` the ring down. With one lock, a thread
 * that waits for room in the ring would keep another thread from the answers that make the room.
 */
static struct {
	pthread_mutex_t lock, down_lock;
	struct ring up, down;
	struct asked *asked;
	uint64_t token;
	_Atomic uint32_t n;
} reverse = {.lock = PTHREAD_MUTEX_INITIALIZER, .down_lock = PTHREAD_MUTEX_INITIALIZER};

uint32_t reverse_asked(void)
{
	return atomic_load_explicit(&reverse.n, memory_order_acquire);
}

/* The head is a struct remote_reverse or remote_done. */
static void reverse_send_frame(
	unsigned op, const void *head, size_t head_bytes, const void *data, size_t n)
{
	const size_t bytes = sizeof(struct remote_frame) + head_bytes + n;
	struct remote_frame *frame;

	pthread_mutex_lock(&reverse.down_lock);
	frame = ring_reserve(&reverse.down, bytes, &worker_watch);
	if (frame) {
		*frame = (struct remote_frame){
			.size = (uint32_t)((bytes + 15) & ~(size_t)15), .op = (uint16_t)op};
		memcpy(frame + 1, head, head_bytes);
		if (n)
			memcpy((uint8_t *)(frame + 1) + head_bytes, data, n);
		ring_publish(&reverse.down, bytes);
		atomic_fetch_add_explicit(&reverse.n, 1, memory_order_release);
	}
	pthread_mutex_unlock(&reverse.down_lock);
}

void reverse_push(const struct remote_reverse *head, const void *data, size_t n)
{
	reverse_send_frame(REMOTE_PUSH, head, sizeof(*head), data, n);
}

void reverse_send_done(const struct remote_done *done)
{
	reverse_send_frame(REMOTE_DONE, done, sizeof(*done), NULL, 0);
}

void reverse_cancel(uint64_t work)
{
	reverse_push(&(struct remote_reverse){.work = work, .is_last = 1, .is_free = 1}, NULL, 0);
}

void reverse_ask(unsigned op, struct remote_reverse *head, uint8_t *to, size_t n)
{
	struct asked mine = {.to = to, .bytes = n}, **at;

	sem_init(&mine.is_there, 0, 0);
	pthread_mutex_lock(&reverse.lock);
	mine.token = head->token = ++reverse.token;
	mine.next = reverse.asked;
	reverse.asked = &mine;
	pthread_mutex_unlock(&reverse.lock);
	reverse_send_frame(op, head, sizeof(*head), NULL, 0);
	while (sem_wait(&mine.is_there) < 0)
		;
	pthread_mutex_lock(&reverse.lock);
	for (at = &reverse.asked; *at != &mine; at = &(*at)->next)
		;
	*at = mine.next;
	pthread_mutex_unlock(&reverse.lock);
	sem_destroy(&mine.is_there);
}

static void reverse_take_answer(const struct remote_frame *head, const uint8_t *frame)
{
	struct remote_reverse answer;
	struct asked *a;
	size_t n;

	if (head->size < sizeof(*head) + sizeof(answer))
		return;
	memcpy(&answer, frame + sizeof(*head), sizeof(answer));
	n = head->size - sizeof(*head) - sizeof(answer);
	pthread_mutex_lock(&reverse.lock);
	for (a = reverse.asked; a && a->token != answer.token; a = a->next)
		;
	if (a) {
		if (a->bytes)
			memcpy(a->to, frame + sizeof(*head) + sizeof(answer),
				a->bytes < n ? a->bytes : n);
		a->token = 0; /* a second answer finds no question */
		sem_post(&a->is_there);
	}
	pthread_mutex_unlock(&reverse.lock);
}

static void *reverse_thread_main(void *unused)
{
	struct remote_frame head;
	const void *frame;

	while (ring_next(&reverse.up, &worker_watch, &head, &frame) > 0) {
		reverse_take_answer(&head, frame);
		ring_consume(&reverse.up, head.size);
	}
	return NULL;
}

int reverse_start(struct remote_session *session)
{
	pthread_t thread;
	int failed;

	ring_attach_producer(&reverse.down, session, 0, RING_DOWN);
	ring_attach_consumer(&reverse.up, session, 0, RING_UP);
	failed = pthread_create(&thread, NULL, reverse_thread_main, NULL);
	if (!failed)
		pthread_detach(thread);
	return -failed;
}
