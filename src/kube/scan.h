/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts the objects out of the body of a list or of a watch while it arrives, in pieces of any size,
 * and holds one object at most. Of a list, `metadata` is handed over as soon as it is complete,
 * before the items where the server writes it there (which it does): the next page can be asked for
 * while this one still comes.
 *
 * Structure is checked (brackets, commas, quotes, control characters), literals and the contents of
 * strings are not: each object goes through a real parser next. Each object comes without its
 * metadata.managedFields, a third of it and of use to nobody here, and is the server's byte
 * for byte in everything else. After an error all further input is refused with it. One thread.
 */
#ifndef KUBE_SCAN_H
#define KUBE_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

#define SCAN_ITEM_MAX (8u << 20)
#define SCAN_META_MAX (64u << 10)
#define SCAN_DEPTH_MAX 10240u
#define SCAN_TYPE_MAX 16u
#define SCAN_KEY_MAX 16u /* longer keys mean nothing to us */

enum scan_kind {
	SCAN_LIST,  /* {"metadata": {...}, "items": [{...}, ...]} */
	SCAN_WATCH, /* {"type": "ADDED", "object": {...}} again and again */
};

/*
 * The texts are valid during the call. A negative result ends the scan and is scan_feed()'s. type
 * is a watch's, "" in a list.
 */
struct scan_handler {
	int (*meta)(void *data, struct str json); /* a list's; may be NULL */
	int (*item)(void *data, struct str type, struct str json);
	void *data;
};

#define SCAN_LEVELS 6u /* of which the open key is known: list, items, object, metadata */

struct scan {
	enum scan_kind kind;
	struct scan_handler handler;
	int error;
	int state;   /* enum state of scan.c */
	int taking;  /* enum part of scan.c: what is being cut out */
	bool is_key; /* the string under way is one */
	bool is_cutting;
	bool is_next_comma_cut;
	bool is_over; /* the list's last bracket was seen */
	bool has_meta;
	bool has_items;
	bool has_object; /* of this frame */
	uint32_t depth;
	uint32_t part_depth;   /* where the part under way began */
	uint32_t object_depth; /* of an object's own members */
	uint32_t n_key;
	char key[SCAN_KEY_MAX];
	uint8_t keys[SCAN_LEVELS];             /* by depth: enum key of scan.c */
	uint8_t stack[SCAN_DEPTH_MAX / 8 + 1]; /* a bit a level: 1 for an object */
	struct buf part;
	size_t key_at; /* in part: where the key under way begins */
	struct buf type;
	uint64_t n_items;
};

void scan_init(struct scan *scan, enum scan_kind kind, const struct scan_handler *handler);
void scan_done(struct scan *scan);

/* 0, -EBADMSG, -EMSGSIZE, -ENOMEM, or what a handler has returned. */
int scan_feed(struct scan *scan, struct str bytes, struct error *err);

/*
 * The body is over: 0 when it is over for the scanner too. -EBADMSG in the midst of a list, -EPIPE
 * in the midst of a watch's frame, which is nothing unusual.
 */
int scan_end(struct scan *scan, struct error *err);

#endif
