/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of verdicts: a cluster as text, the pod "q" of namespace "a" in it, the nodes that it
 * fits, and the reasons of the other nodes. Objects are JSON with ' for ", one a line behind its
 * kind; NODE and POD write the usual ones.
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
	const char *fits; /* names, in the order of the nodes: "n1 n3" */
	const char *said; /* in the summary, or in why the pod fits nowhere; NULL: not looked at */
	unsigned minor;   /* 0: 20 */
};

/* Of the metadata of who has a share, as the webhook leaves it. */
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

/* unit_json() of what printf would make of it. */
json_t *rules_jsonv(const char *fmt, va_list ap);

/* A view with those objects; the caller's. */
struct view *rules_world(const char *world, unsigned minor);

void rules_check(const struct rule_case *cases, size_t n);

#endif
