/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See visible.h. The code replaces the array of the environment and does not edit it. So other
 * threads that read the environment meanwhile see the old or the new array as a whole. No array is
 * freed, because a thread may still be reading it.
 */
#include "hook/visible.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cuda/uuid.h"

#define NAME "CUDA_VISIBLE_DEVICES="

static bool visible_names_device(const struct hook *h, uint32_t i, const char *text, size_t n)
{
	char uuid[CUDA_UUID_TEXT];

	if (n > 4 && (!strncasecmp(text, "GPU-", 4) || !strncasecmp(text, "MIG-", 4))) {
		cuda_uuid_format(h->device[i].uuid, uuid);
		return n - 4 < CUDA_UUID_TEXT && !strncasecmp(uuid, text + 4, n - 4);
	}
	if (n && strspn(text, "0123456789") >= n && n < 4)
		return (uint32_t)strtoul(text, NULL, 10) == i;
	return false;
}

uint32_t visible_select(
	const struct hook *h, const char *setting, uint32_t ret_index[static MSG_DEVICES])
{
	uint32_t count = 0, seen = 0;

	if (!setting) {
		for (; count < h->devices; count++)
			ret_index[count] = count;
		return count;
	}
	while (*setting) {
		size_t n = strcspn(setting, ",");
		const char *text = setting + strspn(setting, " ");
		size_t len = n - (size_t)(text - setting);
		uint32_t i = 0;

		while (len && text[len - 1] == ' ')
			len--;
		while (i < h->devices && !visible_names_device(h, i, text, len))
			i++;
		if (i == h->devices)
			break;
		if (seen & 1u << i)
			return 0;
		seen |= 1u << i;
		ret_index[count++] = i;
		setting += n + (setting[n] == ',');
	}
	return count;
}

/*
 * The newest array. No array is freed, and each array's first element points to the array before,
 * so that a leak checker reaches them all. Under the init lock.
 */
static char **newest;

bool visible_begin(struct visible *ret_visible, struct hook *h)
{
	uint32_t index[MSG_DEVICES], n;
	size_t vars = 0, at = 0, kept = 0;
	const char *setting = getenv("CUDA_VISIBLE_DEVICES");
	bool mig = setting && !strncasecmp(setting, "MIG-", 4);
	char *text, **copy;

	*ret_visible = (struct visible){0};
	n = visible_select(h, setting, index);
	if (!n)
		return false;
	while (environ && environ[vars])
		vars++;
	copy = malloc((vars + 3) * sizeof *copy);
	text = malloc(sizeof NAME + n * (CUDA_UUID_TEXT + 5));
	if (!copy || !text) {
		free(copy);
		free(text);
		return false;
	}
	copy[0] = (char *)newest;
	newest = copy++;
	for (size_t i = 0; i < vars; i++) {
		if (strncmp(environ[i], NAME, sizeof NAME - 1))
			copy[kept++] = environ[i];
		else
			ret_visible->own = environ[i];
	}
	at = sizeof NAME - 1;
	memcpy(text, NAME, at);
	for (uint32_t i = 0; i < n; i++) {
		memcpy(text + at, mig ? "MIG-" : "GPU-", 4);
		cuda_uuid_format(h->device[index[i]].uuid, text + at + 4);
		at += 4 + CUDA_UUID_TEXT - 1;
		text[at++] = ',';
	}
	text[at - 1] = '\0';
	copy[kept++] = text;
	copy[kept] = NULL;
	ret_visible->text = text;
	ret_visible->before = environ;
	ret_visible->during = copy;
	environ = copy;
	return true;
}

void visible_end(struct visible *visible)
{
	char **p = environ;

	if (p == visible->during) {
		environ = visible->before;
		return;
	}
	/* another thread's setenv may have copied this array to a new one */
	while (p && *p && *p != visible->text)
		p++;
	if (p && *p && visible->own) {
		*p = visible->own;
	} else if (p && *p) {
		for (; *p; p++)
			*p = p[1];
	}
}
