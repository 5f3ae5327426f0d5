/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes the interception library's diagnostic messages on to the program: see worker.h. Any
 * thread.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "remote/worker.h"
#include "wire/diagnostic.h"

static struct {
	pthread_mutex_t lock;
	int sock; /* -1: no WELCOME has been sent yet */
	enum remote_hub hub;
	bool is_end;
	enum words_kind kind;                                  /* kind of the last message */
	char last[REMOTE_VISIBLE - sizeof(WORDS_NO_GPU_TEXT)]; /* a note has room for both */
} words = {.lock = PTHREAD_MUTEX_INITIALIZER, .sock = -1};

/* The caller holds the lock. */
static void tell(void)
{
	struct remote_note note = {.type = REMOTE_SAY,
		.abi = REMOTE_ABI,
		.lane = words.is_end,
		.hub = (uint16_t)words.hub};

	snprintf(note.text, sizeof(note.text), "%s%s",
		words.kind == WORDS_NO_GPU ? WORDS_NO_GPU_TEXT : "", words.last);
	/* Never waits: a program that does not read gets no message. */
	fd_send(words.sock, &note, sizeof(note), NULL, 0, MSG_NOSIGNAL | MSG_DONTWAIT);
	/* The program's memory and share become free for other tenants. */
	if (words.is_end)
		_exit(0);
}

static void heard(const char *text, enum words_kind kind)
{
	pthread_mutex_lock(&words.lock);
	snprintf(words.last, sizeof(words.last), "%s", text);
	words.kind = kind;
	words.is_end |= kind == WORDS_END;
	if (words.sock >= 0)
		tell();
	pthread_mutex_unlock(&words.lock);
}

void words_begin(void)
{
	words_listen *const listen = (words_listen *)dlsym(RTLD_DEFAULT, WORDS_LISTEN);

	if (listen)
		listen(heard);
}

void words_welcome(int sock, enum remote_hub hub)
{
	pthread_mutex_lock(&words.lock);
	words.sock = sock;
	words.hub = hub;
	if (words.last[0])
		tell();
	pthread_mutex_unlock(&words.lock);
}

void words_last(char *ret_text, size_t size)
{
	pthread_mutex_lock(&words.lock);
	snprintf(ret_text, size, "%s", words.last);
	pthread_mutex_unlock(&words.lock);
}
