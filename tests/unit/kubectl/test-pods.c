/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which pods the objects of a file would create. */
#include "../unit.h"

#include <errno.h>

#include "cmdline/json-member.h"
#include "fields/yaml.h"
#include "kube/kube-json.h"
#include "kubectl/pods.h"

static int read_text(const char *text, json_t **ret, struct error *err)
{
	_cleanup_json_ json_t *documents = NULL;

	assert_ok(yaml_parse(str_from(text), &documents, err));
	return pods_read(documents, "f.yaml", ret, err);
}

static void takes_pods_and_templates(void **state)
{
	_cleanup_json_ json_t *list = NULL;
	struct error err = {0};
	const json_t *web;

	assert_ok(read_text("kind: Pod\nmetadata: {name: a}\nspec: {containers: []}\n"
			    "---\nkind: Service\nmetadata: {name: s}\n"
			    "---\nkind: Deployment\nmetadata: {name: web, namespace: n}\n"
			    "spec: {replicas: 3, template: {metadata: {labels: {x: y}}, "
			    "spec: {containers: [{name: c}]}}}\n"
			    "---\nkind: CronJob\nmetadata: {name: night}\n"
			    "spec: {jobTemplate: {spec: {template: {spec: {containers: []}}}}}\n"
			    "---\nkind: List\nitems:\n- kind: Job\n  metadata: {name: j}\n"
			    "  spec: {parallelism: 0, template: {spec: {containers: []}}}\n",
		&list, &err));
	assert_int_equal(json_array_size(list), 3);
	web = json_array_get(list, 1);
	assert_string_equal(json_text_or_empty(web, "from"), "Deployment web");
	assert_int_equal(json_int_or_zero(web, "count"), 3);
	assert_string_equal(kube_json_text_at(web, "pod", "metadata", "labels", "x", NULL), "y");
	assert_string_equal(kube_json_text_at(web, "pod", "metadata", "namespace", NULL), "n");
	assert_string_equal(kube_json_text_at(web, "pod", "kind", NULL), "Pod");
	assert_string_equal(json_text_or_empty(json_array_get(list, 2), "from"), "CronJob night");
}

static void a_share_pods_request_is_its_spec(void **state)
{
	_cleanup_json_ json_t *list = NULL;
	const json_t *keys;
	struct error err = {0};

	assert_ok(read_text("kind: SharePod\nmetadata: {name: s}\n"
			    "spec: {request: 0.3, limit: '0.6', memoryPolicy: swap, groupSize: 4, "
			    "containers: [a, b], template: {spec: {containers: []}}}\n",
		&list, &err));
	keys = kube_json_at(json_array_get(list, 0), "pod", "metadata", "annotations", NULL);
	assert_string_equal(json_text_or_empty(keys, "divvy.gpu/request"), "0.3");
	assert_string_equal(json_text_or_empty(keys, "divvy.gpu/limit"), "0.6");
	assert_string_equal(json_text_or_empty(keys, "divvy.gpu/memory-policy"), "swap");
	assert_string_equal(json_text_or_empty(keys, "divvy.gpu/group-size"), "4");
	assert_string_equal(json_text_or_empty(keys, "divvy.gpu/container"), "a,b");
	assert_int_equal(json_object_size(keys), 5);
}

/*
 * In YAML a key without a value is null. Of a Job's parallelism and completions, the smaller number
 * counts.
 */
static void empty_fields_count_as_missing(void **state)
{
	_cleanup_json_ json_t *list = NULL;
	struct error err = {0};

	assert_ok(read_text("kind: SharePod\nmetadata: {name: s}\n"
			    "spec: {request: 0.3, template: {metadata: {annotations: }, "
			    "spec: {containers: []}}}\n"
			    "---\nkind: Job\nmetadata: {name: j}\nspec: {parallelism: 5, "
			    "completions: 2, template: {spec: {containers: []}}}\n",
		&list, &err));
	assert_string_equal(kube_json_text_at(json_array_get(list, 0), "pod", "metadata",
				    "annotations", "divvy.gpu/request", NULL),
		"0.3");
	assert_int_equal(json_int_or_zero(json_array_get(list, 1), "count"), 2);
}

static void faults_are_named(void **state)
{
	static const struct {
		const char *text, *says;
		int result;
	} table[] = {
		{"kind: Service\n", "f.yaml: creates no pod", -EINVAL},
		{"a: b\n", "no field kind", -EINVAL},
		{"kind: Deployment\nmetadata: {name: d}\n"
		 "spec: {replicas: three, template: {spec: {}}}\n",
			"Deployment d: spec.replicas: expected a whole number", -EINVAL},
		{"kind: Job\nmetadata: {name: j}\nspec: {}\n", "Job j has no template", -EINVAL},
		{"kind: Deployment\nmetadata: {name: d}\n"
		 "spec: {replicas: 1001, template: {spec: {}}}\n",
			"1001 pods; at most 1000 are allowed", -E2BIG},
		{"kind: SharePod\nmetadata: {name: s}\n"
		 "spec: {request: [0.3], template: {spec: {containers: []}}}\n",
			"f.yaml: SharePod s: spec.request: has to be text or a number", -EINVAL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		json_t *list = NULL;
		struct error err = {0};

		assert_int_equal(read_text(table[i].text, &list, &err), table[i].result);
		assert_contains(err.msg, table[i].says);
		assert_null(list);
	}
}

UNIT_MAIN(UNIT(takes_pods_and_templates), UNIT(a_share_pods_request_is_its_spec),
	UNIT(empty_fields_count_as_missing), UNIT(faults_are_named))
