/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts the objects out of the body of a list or a watch while the body arrives in pieces. Pieces
 * may have any size. The scanner holds one object at most. The scanner passes on a list's
 * `metadata` as soon as that is complete. Servers write the metadata before the items, so the next
 * page can be requested while this one still arrives.
 *
 * The scanner checks structure (brackets, commas, quotes, control characters), but not literals and
 * the content of strings, because each object is parsed afterwards. It removes
 * metadata.managedFields, a third of an object that divvy does not use; all other bytes are the
 * server's. After an error it refuses all further input with that error. One thread.
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
#define SCAN_KEY_MAX 16u /* length of the longest key that the scanner looks for */

enum scan_kind {
	SCAN_LIST,  /* {"metadata": {...}, "items": [{...}, ...]} */
	SCAN_WATCH, /* repeated {"type": "ADDED", "object": {...}} */
};

/*
 * The texts are valid during the call. A negative result ends the scan and becomes scan_feed()'s
 * result. type is that of a watch frame; "" in a list.
 */
struct scan_handler {
	int (*meta)(void *data, struct str json); /* for a list; may be NULL */
	int (*item)(void *data, struct str type, struct str json);
	void *data;
};

#define SCAN_LEVELS 6u /* depths for which the open key is stored: list, items, object, metadata */

struct scan {
	enum scan_kind kind;
	struct scan_handler handler;
	int error;
	int state;   /* enum state of scan.c */
	int taking;  /* enum part of scan.c: the part that is being copied out */
	bool is_key; /* the current string is a key */
	bool is_cutting;
	bool is_next_comma_cut;
	bool is_over; /* the list's last bracket was seen */
	bool has_meta;
	bool has_items;
	bool has_object; /* the present frame has had its object */
	uint32_t depth;
	uint32_t part_depth;   /* depth at which the current part began */
	uint32_t object_depth; /* depth of an object's own members */
	uint32_t n_key;
	char key[SCAN_KEY_MAX];
	uint8_t keys[SCAN_LEVELS];             /* by depth: enum key of scan.c */
	uint8_t stack[SCAN_DEPTH_MAX / 8 + 1]; /* a bit for each level: 1 for an object */
	struct buf part;
	size_t key_at; /* where the current key begins in `part` */
	struct buf type;
	uint64_t n_items;
};

void scan_init(struct scan *scan, enum scan_kind kind, const struct scan_handler *handler);
void scan_done(struct scan *scan);

/* Returns 0, -EBADMSG, -EMSGSIZE, -ENOMEM, or a handler's result. */
int scan_feed(struct scan *scan, struct str bytes, struct error *err);

/*
 * The body has ended. Returns 0 if it is complete; -EBADMSG in the middle of a list; -EPIPE in the
 * middle of a watch's frame, which is usual when a watch ends.
 */
int scan_end(struct scan *scan, struct error *err);

#endif
