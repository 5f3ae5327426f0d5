/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the interception library has to say to people, for a process whose stderr they do not read:
 * the worker of a program that is elsewhere. Found by name (dlsym), as nothing links the library.
 */
#ifndef WIRE_WORDS_H
#define WIRE_WORDS_H

enum words_kind {
	WORDS_NOTE,
	WORDS_END,    /* there will be no GPU for this process any more */
	WORDS_NO_GPU, /* why there is none; people read it behind WORDS_NO_GPU_TEXT */
};
#define WORDS_NO_GPU_TEXT "no GPU for this program: "

/*
 * A sentence without newline, borrowed; it stands on stderr too. In any thread that calls the
 * driver, or the library's own; may end the process, and may not call the driver.
 */
typedef void words_listener(const char *words, enum words_kind kind);

/* NULL: nobody listens. Any thread; whoever is called now is not waited for. */
typedef void words_listen(words_listener *listener);
#define WORDS_LISTEN "divvy_words_listen"

#endif
