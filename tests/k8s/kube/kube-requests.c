/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends many requests to an API server, with up to AT_A_TIME at once: it makes the objects of a
 * large cluster and plays the writes of the daemons on its nodes. It reads commands from stdin, one
 * on a line:
 *
 *   METHOD TYPE FIRST N PATH BODY   sends N requests, for the numbers FIRST, FIRST + 1, ...
 *   renew FIRST N SECONDS PATH BODY sends a merge patch for each number once in SECONDS, evenly
 *                                   spread, until the next `renew`; N 0 ends that
 *   sync                            prints "done N-SENT N-FAILED" when all earlier requests ended
 *
 * METHOD is POST, PATCH or DELETE. TYPE is json, merge or strategic. In PATH and BODY, @i is the
 * number, @g the number divided by GROUP, and @t the present time. The program ends at the end of
 * stdin, also with requests in flight. A request that fails is reported on stderr; an object that
 * exists counts as made.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/loop.h"
#include "kube/kube-client.h"
#include "kube/time.h"

#define AT_A_TIME 128u
#define GROUP 8u
#define LINE_MAX_BYTES (1u << 20)
#define READ_BYTES (64u << 10)

struct command {
	struct command *next;
	enum kube_method method;
	const char *type;
	bool is_sync;
	uint64_t at, end;
	char *path, *body;
};

static struct loop *loop;
static struct kube_client *client;
static struct loop_io in;
static struct loop_timer renewal;
static struct buf line;
static struct command *first, **last = &first;
static struct {
	uint64_t first, n, at, each_ns, next_ns;
	char *path, *body;
} renewed;
static uint32_t n_open, n_renewals;
static uint64_t n_sent, n_failed;

static void fill(void);

static void die(const char *why)
{
	fprintf(stderr, "kube-requests: %s\n", why);
	exit(1);
}

static void note(const struct kube_answer *answer)
{
	if (answer->result < 0 && answer->result != -EEXIST) {
		fprintf(stderr, "%s\n", answer->error.msg);
		n_failed++;
	}
}

static void on_done(void *data, const struct kube_answer *answer)
{
	n_open--;
	note(answer);
	fill();
}

static void on_renewed(void *data, const struct kube_answer *answer)
{
	n_renewals--;
	note(answer);
}

/* Appends `text` with the values of @i, @g and @t. */
static void expand(struct buf *out, const char *text, uint64_t i)
{
	const char *at;

	while ((at = strchr(text, '@'))) {
		buf_add(out, (struct str){text, (size_t)(at - text)});
		text = at + 2;
		if (at[1] == 'i')
			buf_addf(out, "%" PRIu64, i);
		else if (at[1] == 'g')
			buf_addf(out, "%" PRIu64, i / GROUP);
		else if (at[1] == 't')
			buf_add_text(out, kube_time_format_micro(clock_real_ns()).s);
		else
			die("@ is followed by i, g or t");
	}
	buf_add_text(out, text);
}

static void send_one(const struct command *c, uint64_t i, kube_done_fn *done)
{
	_cleanup_buf_ struct buf path = BUF_INIT(KUBE_URL_MAX), body = BUF_INIT(LINE_MAX_BYTES);
	struct kube_request request = {.method = c->method,
		.content_type = c->type,
		.timeout_ns = 600 * NSEC_PER_SEC,
		.retry = RETRY_IDEMPOTENT,
		.done = done};
	struct error err;

	expand(&path, c->path, i);
	expand(&body, c->body, i);
	request.path = buf_text(&path);
	request.body = buf_str(&body);
	if (kube_call_start(client, &request, NULL, &err) < 0)
		die(err.msg);
}

static void command_free(struct command *c)
{
	free(c->path);
	free(c->body);
	free(c);
}

/* Sends further requests while fewer than AT_A_TIME are in flight. */
static void fill(void)
{
	while (first) {
		struct command *c = first;

		if (c->is_sync && n_open)
			return;
		if (c->is_sync) {
			printf("done %" PRIu64 " %" PRIu64 "\n", n_sent, n_failed);
			fflush(stdout);
			n_sent = n_failed = 0;
		}
		for (; c->at < c->end && n_open < AT_A_TIME; c->at++, n_open++, n_sent++)
			send_one(c, c->at, on_done);
		if (c->at < c->end)
			return;
		first = c->next;
		last = first ? last : &first;
		command_free(c);
	}
}

/* ---- renewals ---- */

static void on_renewal(struct loop_timer *timer, uint64_t now_ns)
{
	const struct command c = {.method = KUBE_PATCH,
		.type = "application/merge-patch+json",
		.path = renewed.path,
		.body = renewed.body};

	if (!renewed.n)
		return;
	for (; renewed.next_ns <= now_ns; renewed.next_ns += renewed.each_ns) {
		/* A daemon has one renewal in flight, so a slow server gets no backlog of them. */
		if (n_renewals == AT_A_TIME)
			continue;
		send_one(&c, renewed.first + renewed.at, on_renewed);
		n_renewals++;
		renewed.at = (renewed.at + 1) % renewed.n;
	}
	loop_set_timer(timer, renewed.next_ns);
}

static char *next_word(char **rest)
{
	char *word = strsep(rest, " ");

	if (!word || !*word)
		die("a command has too few words");
	return word;
}

static char *copy(const char *text)
{
	char *copied = str_dup(str_from(text));

	if (!copied)
		die("out of memory");
	return copied;
}

static void renew(char *rest)
{
	double seconds;

	renewed.first = strtoull(next_word(&rest), NULL, 10);
	renewed.n = strtoull(next_word(&rest), NULL, 10);
	seconds = strtod(next_word(&rest), NULL);
	free(renewed.path);
	free(renewed.body);
	renewed.path = copy(next_word(&rest));
	renewed.body = copy(rest ? rest : "");
	renewed.at = 0;
	renewed.next_ns = clock_now_ns();
	if (renewed.n)
		renewed.each_ns = (uint64_t)(seconds * 1e9 / (double)renewed.n) + 1;
	loop_set_timer(&renewal, renewed.next_ns);
}

/* ---- commands ---- */

static enum kube_method method_of(const char *word)
{
	if (!strcmp(word, "POST"))
		return KUBE_POST;
	if (!strcmp(word, "PATCH"))
		return KUBE_PATCH;
	if (strcmp(word, "DELETE") != 0)
		die("METHOD is POST, PATCH or DELETE");
	return KUBE_DELETE;
}

static const char *type_of(const char *word)
{
	if (!strcmp(word, "merge"))
		return "application/merge-patch+json";
	return !strcmp(word, "strategic") ? "application/strategic-merge-patch+json"
					  : "application/json";
}

static void take_command(char *text)
{
	struct command *c;
	char *rest = text, *word = next_word(&rest);

	if (!strcmp(word, "renew")) {
		renew(rest);
		return;
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		die("out of memory");
	c->is_sync = !strcmp(word, "sync");
	if (!c->is_sync) {
		c->method = method_of(word);
		c->type = type_of(next_word(&rest));
		c->at = strtoull(next_word(&rest), NULL, 10);
		c->end = c->at + strtoull(next_word(&rest), NULL, 10);
		c->path = copy(next_word(&rest));
		c->body = copy(rest ? rest : "");
	}
	*last = c;
	last = &c->next;
}

static void take_lines(void)
{
	char *at = line.p, *end = line.p + line.n, *newline;

	while (at < end && (newline = memchr(at, '\n', (size_t)(end - at)))) {
		*newline = '\0';
		take_command(at);
		at = newline + 1;
	}
	memmove(line.p, at, (size_t)(end - at));
	line.n = (size_t)(end - at);
	fill();
}

static void on_input(struct loop_io *io, uint32_t events)
{
	static char bytes[READ_BYTES];
	const ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));

	if (n > 0) {
		if (buf_add(&line, (struct str){bytes, (size_t)n}) < 0)
			die("a command is too long");
		take_lines();
		return;
	}
	loop_remove_io(io);
	loop_stop(loop, 0);
}

int main(void)
{
	const struct kube_client_options options = {.max_in_flight = 2 * AT_A_TIME};
	struct kube_config *config = NULL;
	struct error err;

	line = BUF_INIT(4 * LINE_MAX_BYTES);
	if (loop_new(&loop) < 0 || kube_config_load(NULL, &config, &err) < 0 ||
		kube_client_new(loop, config, &options, &client, &err) < 0 ||
		loop_add_timer(loop, &renewal, on_renewal) < 0 ||
		loop_add_io(loop, &in, STDIN_FILENO, EPOLLIN, on_input) < 0)
		die("no client");
	loop_run(loop);
	kube_client_free(client);
	kube_config_free(config);
	loop_free(loop);
	while (first) {
		struct command *c = first;

		first = c->next;
		command_free(c);
	}
	buf_done(&line);
	free(renewed.path);
	free(renewed.body);
	return 0;
}
