/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles and lists. A handle is kind << 40 | generation << 24 | slot + 1, and never an address. A
 * look-up in a table detects a value that never was a handle, or whose object no longer exists.
 * Each use of a slot increments its generation, and freed slots wait in a queue. So an old handle
 * becomes valid again only after 65,536 rounds of the whole queue. The client's lock protects
 * everything.
 */
#include "simgpu/cu.h"

#include <stdlib.h>

enum {
	CHUNK = 4096,
	CHUNKS = 4096,
};

struct slot {
	void *object;
	uint32_t next; /* in the queue of free slots */
	uint16_t generation;
	uint8_t kind;
};

static struct slot *chunks[CHUNKS];
static uint32_t used, n_free, free_head, free_tail;

static struct slot *slot_at(uint32_t i)
{
	return &chunks[i / CHUNK][i % CHUNK];
}

static uint32_t cu_handle_take_slot(void)
{
	uint32_t i;

	/* Keep a reserve of freed slots so that generations are not used up quickly. */
	if (n_free > 256 || used == CHUNK * CHUNKS - 1) {
		if (n_free == 0)
			return UINT32_MAX;
		i = free_head;
		free_head = slot_at(i)->next;
		n_free--;
		return i;
	}
	if (!chunks[used / CHUNK]) {
		chunks[used / CHUNK] = calloc(CHUNK, sizeof(struct slot));
		if (!chunks[used / CHUNK])
			return UINT32_MAX;
	}
	return used++;
}

void *cu_handle_new(enum cu_kind kind, void *object)
{
	uint32_t i = cu_handle_take_slot();
	struct slot *slot;

	if (i == UINT32_MAX)
		return NULL;
	slot = slot_at(i);
	slot->object = object;
	slot->kind = (uint8_t)kind;
	return (void *)((uintptr_t)kind << 40 | (uintptr_t)slot->generation << 24 | (i + 1));
}

void *cu_handle_get(const void *handle, enum cu_kind kind)
{
	uintptr_t value = (uintptr_t)handle;
	uint32_t i = (uint32_t)(value & 0xffffff) - 1;
	const struct slot *slot;

	if (value >> 40 != (uintptr_t)kind || i >= used)
		return NULL;
	slot = slot_at(i);
	if (slot->kind != kind || slot->generation != (uint16_t)(value >> 24))
		return NULL;
	return slot->object;
}

void cu_handle_free(const void *handle)
{
	uint32_t i = (uint32_t)((uintptr_t)handle & 0xffffff) - 1;
	struct slot *slot;

	if (!handle)
		return;
	slot = slot_at(i);
	slot->object = NULL;
	slot->kind = CU_KIND_NONE;
	slot->generation++;
	if (n_free == 0)
		free_head = i;
	else
		slot_at(free_tail)->next = i;
	free_tail = i;
	n_free++;
}

void cu_list_init(struct cu_list *list)
{
	list->next = list->prev = list;
}

void cu_list_add(struct cu_list *list, struct cu_list *item)
{
	item->prev = list->prev;
	item->next = list;
	list->prev->next = item;
	list->prev = item;
}

void cu_list_remove(struct cu_list *item)
{
	if (!item->next)
		return;
	item->prev->next = item->next;
	item->next->prev = item->prev;
	item->next = item->prev = NULL;
}
