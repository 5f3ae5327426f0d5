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
	enum remote_link_role link_role;
	bool is_end;
	enum diagnostic_kind kind; /* kind of the last message */
	/* a note has room for this text and its prefix */
	char last[REMOTE_VISIBLE - sizeof(DIAGNOSTIC_NO_GPU_TEXT)];
} words = {.lock = PTHREAD_MUTEX_INITIALIZER, .sock = -1};

/* The caller holds the lock. */
static void diagnostic_send(void)
{
	struct remote_note note = {.type = REMOTE_DIAGNOSTIC,
		.abi = REMOTE_ABI,
		.lane = words.is_end,
		.link_role = (uint16_t)words.link_role};

	snprintf(note.text, sizeof(note.text), "%s%s",
		words.kind == DIAGNOSTIC_NO_GPU ? DIAGNOSTIC_NO_GPU_TEXT : "", words.last);
	/* Never waits: a program that does not read gets no message. */
	fd_send(words.sock, &note, sizeof(note), NULL, 0, MSG_NOSIGNAL | MSG_DONTWAIT);
	/* After the worker's end, the program's memory and share are free for other tenants. */
	if (words.is_end)
		_exit(0);
}

static void diagnostic_on_message(const char *text, enum diagnostic_kind kind)
{
	pthread_mutex_lock(&words.lock);
	snprintf(words.last, sizeof(words.last), "%s", text);
	words.kind = kind;
	words.is_end |= kind == DIAGNOSTIC_END;
	if (words.sock >= 0)
		diagnostic_send();
	pthread_mutex_unlock(&words.lock);
}

void diagnostic_begin(void)
{
	diagnostic_listen *const listen = (diagnostic_listen *)dlsym(
		RTLD_DEFAULT, DIAGNOSTIC_LISTEN);

	if (listen)
		listen(diagnostic_on_message);
}

void diagnostic_welcome(int sock, enum remote_link_role link_role)
{
	pthread_mutex_lock(&words.lock);
	words.sock = sock;
	words.link_role = link_role;
	if (words.last[0])
		diagnostic_send();
	pthread_mutex_unlock(&words.lock);
}

void diagnostic_last(char *ret_text, size_t size)
{
	pthread_mutex_lock(&words.lock);
	snprintf(ret_text, size, "%s", words.last);
	pthread_mutex_unlock(&words.lock);
}
