/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines for the operator on stderr: "divvyd: sentence". For programs' main files and daemons;
 * library code returns errors instead and logs at debug at most. One write per line, so lines of
 * several threads do not mix. Under systemd the level is passed on in the journal's form.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/*
 * Once, at the start of main, before there are threads. The name is borrowed for good. The level is
 * info, or what the environment's DIVVY_LOG says: error, warn, info, debug; else a warning.
 */
void log_init(const char *program);

void log_set_level(enum log_level level);
/* What a program's --log says: a name as in DIVVY_LOG. -EINVAL says what would be one. */
int log_set_option(const char *name, struct error *err);
bool log_is_on(enum log_level level);

/* errno is preserved; a line is cut at 1 KiB; control characters are shown as '?'. */
void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_at(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...) log_at(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) log_at(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define log_at(level, ...) (log_is_on(level) ? log_line(level, __VA_ARGS__) : (void)0)

/*
 * For lines that somebody else can cause as often as he likes: LOG_LIMIT_LINES of them in
 * LOG_LIMIT_NS. True: it may be written; *ret_unsaid are those before it that were not, to be
 * mentioned. Zeroed at the start; one thread.
 */
#define LOG_LIMIT_LINES 10u
#define LOG_LIMIT_NS (UINT64_C(10) * 1000000000)
struct log_limit {
	uint64_t since_ns;
	uint32_t n, unsaid;
};
bool log_may(struct log_limit *limit, uint64_t now_ns, uint32_t *ret_unsaid);

#endif
