/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of verdicts. Each case has a cluster as text, the nodes that the pod "q" of namespace "a"
 * fits, and the reasons of the other nodes. An object is a line: its kind, then JSON with ' for ".
 * NODE and POD write the usual objects.
 */
#ifndef TESTS_UNIT_KUBERULES_RULES_H
#define TESTS_UNIT_KUBERULES_RULES_H

#include <stdarg.h>
#include <jansson.h>
#include <stddef.h>

#include "kuberules/view.h"

struct rule_case {
	const char *what; /* the sentence that the case checks */
	const char *world;
	/* names of the nodes that the pod fits, in the order of the nodes: "n1 n3" */
	const char *fits;
	/* part of the summary, or of the reason why the pod fits no node; NULL: not checked */
	const char *said;
	unsigned minor; /* minor version of Kubernetes; 0: 20 */
};

/* Metadata of a pod with a share: the label that the webhook adds. */
#define TENANT "'labels':{'divvy.gpu/tenant':'true'},"
#define META(name, labels) "'metadata':{'name':'" name "','labels':{" labels "}}"
#define NODE_WITH(name, labels, spec, have) \
	"node {" META(name, labels) ",'spec':{" spec "},'status':{'allocatable':{" have "}}}\n"
#define NODE(name, labels, spec) \
	NODE_WITH(name, labels, spec, \
		"'cpu':'4','memory':'8Gi','pods':'10','ephemeral-storage':'10Gi'," \
		"'example.com/foo':'4'")
#define POD_IN(ns, name, labels, spec) \
	"pod {'metadata':{'name':'" name "','namespace':'" ns "','uid':'u-" name \
	"','labels':{" labels "}},'spec':{" spec "}}\n"
#define POD(name, labels, spec) POD_IN("a", name, labels, spec)
#define ON(node) "'nodeName':'" node "',"
#define EMPTY "'containers':[]"
#define ASKS(requests) "'containers':[{'name':'c','resources':{'requests':{" requests "}}}]"
#define Q(spec) POD("q", "'app':'q'", spec)

/* Formats like vprintf() and parses the result by unit_json(). */
json_t *rules_jsonv(const char *fmt, va_list ap);

/* Makes a view with the objects; the caller frees it. */
struct view *rules_world(const char *world, unsigned minor);

void rules_check(const struct rule_case *cases, size_t n);

#endif
