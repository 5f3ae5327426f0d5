/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Diagnostic messages of the interception library for people, in a process whose stderr nobody
 * reads: a remote program's worker. The worker finds the function by dlsym, because it does not
 * link the library.
 */
#ifndef WIRE_DIAGNOSTIC_H
#define WIRE_DIAGNOSTIC_H

enum diagnostic_kind {
	DIAGNOSTIC_NOTE,
	DIAGNOSTIC_END,    /* this process has lost its GPU for good */
	DIAGNOSTIC_NO_GPU, /* why there is no GPU; shown after DIAGNOSTIC_NO_GPU_TEXT */
};
#define DIAGNOSTIC_NO_GPU_TEXT "no GPU for this program: "

/*
 * Receives a message without newline, borrowed, which is also on stderr. Called in any thread that
 * calls the driver, or in a thread of the library. The listener may end the process, and must not
 * call the driver.
 */
typedef void diagnostic_listener(const char *words, enum diagnostic_kind kind);

/*
 * Sets the listener; NULL: none. Any thread; does not wait for a running call of the old listener.
 */
typedef void diagnostic_listen(diagnostic_listener *listener);
#define DIAGNOSTIC_LISTEN "divvy_words_listen"

#endif
