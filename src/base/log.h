/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines for the operator on stderr: "divvyd: sentence". For main files and daemons; library
 * code returns errors instead and logs at most at debug. Each line is one write, so lines of
 * several threads do not mix. Under systemd a line begins with its priority in the journal's form.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/*
 * Call it once, at the start of main, before there are threads. Keeps the pointer to the name.
 * Takes the level from $DIVVY_LOG (error, warn, info, debug), default info, and warns of another
 * value.
 */
void log_init(const char *program);

void log_set_level(enum log_level level);
/* Sets the level for a program's --log, with the names of DIVVY_LOG. -EINVAL for another name. */
int log_set_option(const char *name, struct error *err);
bool log_is_on(enum log_level level);

/* Preserves errno. Cuts the line at 1 KiB and shows control characters as '?'. */
void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_at(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...) log_at(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) log_at(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define log_at(level, ...) (log_is_on(level) ? log_line(level, __VA_ARGS__) : (void)0)

/*
 * Limits lines that other people can cause without bound: at most LOG_LIMIT_LINES lines in
 * LOG_LIMIT_NS. Returns true if the line may be written. *ret_unsaid is then the number of lines
 * suppressed before, for the caller to mention. A zeroed struct is the start; one thread.
 */
#define LOG_LIMIT_LINES 10u
#define LOG_LIMIT_NS (UINT64_C(10) * 1000000000)
struct log_limit {
	uint64_t since_ns;
	uint32_t n, unsaid;
};
bool log_may(struct log_limit *limit, uint64_t now_ns, uint32_t *ret_unsaid);

#endif
