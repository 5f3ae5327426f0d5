/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the interception library has to say to people, for a process whose stderr they do not read:
 * the worker of a program that is elsewhere. Found by name (dlsym), as nothing links the library.
 */
#pragma once

#include <stdbool.h>

/*
 * A sentence without newline, borrowed; it stands on stderr too. is_end: there will be no GPU for
 * this process any more. In any thread that calls the driver, or the library's own; may end the
 * process, and may not call the driver.
 */
typedef void words_listener(const char *words, bool is_end);

/* NULL: nobody listens. Any thread; whoever is called now is not waited for. */
typedef void words_listen(words_listener *listener);
#define WORDS_LISTEN "divvy_words_listen"
