/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file formats a log line on the stack and writes it in one call, so lines of several threads
 * do not mix. The level is one atomic int, read without order: a thread may use an old level for a
 * moment. log_init() alone writes the other variables, before there are threads.
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"

#define LINE_MAX_BYTES 1024

static const struct {
	const char *name;
	const char *journal; /* syslog priority, in the journal's form */
	const char *mark;
} levels[] = {
	[LOG_LEVEL_ERROR] = {"error", "<3>", "error: "},
	[LOG_LEVEL_WARN] = {"warn", "<4>", "warning: "},
	[LOG_LEVEL_INFO] = {"info", "<6>", ""},
	[LOG_LEVEL_DEBUG] = {"debug", "<7>", "debug: "},
};

#define EXPECTED "expected error, warn, info or debug"

static const char *program_name = "divvy";
static atomic_int current_level = LOG_LEVEL_INFO;
static bool to_journal;

static bool set_level(const char *name)
{
	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
		if (!strcmp(name, levels[i].name)) {
			log_set_level((enum log_level)i);
			return true;
		}
	return false;
}

void log_init(const char *program)
{
	const char *wanted = getenv("DIVVY_LOG");

	program_name = program;
	to_journal = getenv("JOURNAL_STREAM") && !isatty(STDERR_FILENO);
	if (wanted && *wanted && !set_level(wanted))
		log_warn("DIVVY_LOG=%s: " EXPECTED, wanted);
}

int log_set_option(const char *name, struct error *err)
{
	return set_level(name) ? 0 : fail(err, EINVAL, "--log %s: " EXPECTED, name);
}

void log_set_level(enum log_level level)
{
	atomic_store_explicit(&current_level, (int)level, memory_order_relaxed);
}

bool log_is_on(enum log_level level)
{
	return (int)level <= atomic_load_explicit(&current_level, memory_order_relaxed);
}

void log_line(enum log_level level, const char *fmt, ...)
{
	int saved = errno;
	char line[LINE_MAX_BYTES];
	va_list ap;
	size_t n;
	int r;

	r = snprintf(line, sizeof(line) - 1, "%s%s: %s", to_journal ? levels[level].journal : "",
		program_name, levels[level].mark);
	n = r < 0 ? 0 : (size_t)r < sizeof(line) - 2 ? (size_t)r : sizeof(line) - 2;

	va_start(ap, fmt);
	r = vsnprintf(line + n, sizeof(line) - 1 - n, fmt, ap);
	va_end(ap);
	if (r > 0)
		n = (size_t)r < sizeof(line) - 2 - n ? n + (size_t)r : sizeof(line) - 2;

	str_blank_controls(line, n); /* no text can forge a second line */
	line[n++] = '\n';
	while (write(STDERR_FILENO, line, n) < 0 && errno == EINTR)
		;
	errno = saved;
}

bool log_may(struct log_limit *limit, uint64_t now_ns, uint32_t *ret_unsaid)
{
	*ret_unsaid = 0;
	if (!limit->n || now_ns - limit->since_ns >= LOG_LIMIT_NS) {
		*ret_unsaid = limit->unsaid;
		*limit = (struct log_limit){.since_ns = now_ns};
	}
	if (limit->n == LOG_LIMIT_LINES) {
		limit->unsaid++;
		return false;
	}
	limit->n++;
	return true;
}
