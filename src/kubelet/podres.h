/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kubelet's own word on which container of which pod has which devices (pod-resources API, v1
 * or, where that is missing, v1alpha1). A container is in the list from the moment its devices are
 * allocated, so it can be asked for in PreStartContainer. One thread, the loop's; nothing blocks.
 *
 * There is at most one call at a time: who asks meanwhile shares the next one, which begins after
 * the question; newer kubelets refuse clients that ask more often than they like.
 */
#ifndef KUBELET_PODRES_H
#define KUBELET_PODRES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/loop.h"
#include "base/str.h"

#define PODRES_SOCKET "/var/lib/kubelet/pod-resources/kubelet.sock"
#define PODRES_MAX (16u << 20)     /* bytes of an answer; what the kubelet's own clients take */
#define PODRES_QUESTIONS_MAX 1024u /* that wait at once */
#define PODRES_TIMEOUT_NS (10 * NSEC_PER_SEC) /* of a question, failed calls included */

struct podres;
struct podres_question;

struct podres_device {
	const char *resource, *id; /* "divvy.gpu/slot", as the plugin has called it */
};
struct podres_container {
	const char *space, *pod, *name; /* space: the pod's namespace */
	const struct podres_device *devices;
	size_t n_devices;
};
struct podres_list {
	const struct podres_container *containers;
	size_t n_containers;
};

/* list is borrowed until it returns, and NULL when there is none: then err says why. */
typedef void podres_fn(void *data, const struct podres_list *list, const struct error *err);

/* socket: NULL for PODRES_SOCKET; timeout_ns: 0 for PODRES_TIMEOUT_NS. */
int podres_new(
	struct loop *loop, const char *socket, uint64_t timeout_ns, struct podres **ret_podres);
/* Questions that wait are never answered. Not within podres_fn. NULL is fine. */
void podres_free(struct podres *podres);

/* Asks; fn is called once, later. -EAGAIN beyond PODRES_QUESTIONS_MAX. */
int podres_ask(struct podres *podres, podres_fn *fn, void *data, struct podres_question **ret_q);
/* fn is not called any more. */
void podres_forget(struct podres_question *question);

/*
 * Who has that device: 0 with the container, borrowed from the list; -ENOENT when nobody has;
 * -EEXIST when two have (the kubelet then contradicts itself).
 */
int podres_find(const struct podres_list *list, struct str resource, struct str id,
	const struct podres_container **ret_container);

/* From the bytes of an answer. The list is the caller's, for podres_list_free(). */
int podres_parse(struct str bytes, struct podres_list **ret_list, struct error *err);
void podres_list_free(struct podres_list *list);

#endif
