/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the kubelet which container of which pod has which devices (pod-resources API, v1, or
 * v1alpha1 if v1 is missing). A container is listed as soon as its devices are allocated, so
 * PreStartContainer can ask for it. One thread, the loop's; nothing blocks.
 *
 * At most one call runs at a time. Questions that arrive meanwhile share the next call, because
 * newer kubelets refuse clients that ask too often.
 */
#ifndef KUBELET_PODRES_H
#define KUBELET_PODRES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/loop.h"
#include "base/str.h"

#define PODRES_SOCKET "/var/lib/kubelet/pod-resources/kubelet.sock"
#define PODRES_MAX (16u << 20)     /* bytes of an answer, the limit of the kubelet's own clients */
#define PODRES_QUESTIONS_MAX 1024u /* waiting questions */
/* time for a question to be answered, retries included */
#define PODRES_TIMEOUT_NS (10 * NSEC_PER_SEC)

struct podres;
struct podres_question;

struct podres_device {
	const char *resource, *id; /* "divvy.gpu/slot", and the plugin's id */
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

/* list is valid until the function returns; NULL on failure, with the reason in err. */
typedef void podres_fn(void *data, const struct podres_list *list, const struct error *err);

/* socket NULL: PODRES_SOCKET; timeout_ns 0: PODRES_TIMEOUT_NS. Returns 0 or -ENOMEM. */
int podres_new(
	struct loop *loop, const char *socket, uint64_t timeout_ns, struct podres **ret_podres);
/* Drops waiting questions without an answer. Do not call from podres_fn. Accepts NULL. */
void podres_free(struct podres *podres);

/* Calls fn once, later. Returns 0; -EAGAIN beyond PODRES_QUESTIONS_MAX; -ENOMEM. */
int podres_ask(struct podres *podres, podres_fn *fn, void *data, struct podres_question **ret_q);
/* Cancels a question: fn is not called. */
void podres_forget(struct podres_question *question);

/*
 * Finds the container that has the device, borrowed from the list. Returns 0; -ENOENT: none has it;
 * -EEXIST: two containers have it, so the kubelet's list is faulty.
 */
int podres_find(const struct podres_list *list, struct str resource, struct str id,
	const struct podres_container **ret_container);

/*
 * Parses an answer. The caller frees the list by podres_list_free(). Returns 0, -EBADMSG or
 * -ENOMEM.
 */
int podres_parse(struct str bytes, struct podres_list **ret_list, struct error *err);
void podres_list_free(struct podres_list *list);

#endif
