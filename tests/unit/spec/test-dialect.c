/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods translated to specs, dialect by dialect: the examples that the other systems publish,
 * limits, misspellings, contradictions. manifest-text.h defines the text forms of pods and results.
 */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "spec/dialect.h"
#include "spec/quantity.h"
#include "manifest-text.h"

#define NAMES \
	"kubeshare,kubeshare2,gemini,gpushare=MiB,gaiagpu,deepomatic=4,hami,wang,nvidia," \
	"kai,volcano,koordinator,timeslicing=4,mig"
#define ALL "d " NAMES "\n"

struct row {
	const char *pod, *means;
};

/* The translation as text, or "!message" if it is refused. The caller frees the text. */
static char *translate(const char *text, struct dialect_result *ret)
{
	_cleanup_buf_ struct buf out = BUF_INIT(16384);
	struct dialect_config config;
	struct error err = {0};
	static struct manifest_text t;

	manifest_text_parse(str_from(text), &t);
	assert_ok(dialect_config_parse(t.dialects, &config, NULL));
	if (dialect_translate(&t.pod, &config, ret, &err) < 0)
		buf_addf(&out, "!%s", err.msg);
	else
		manifest_text_show(&t.pod, ret, &out);
	assert_ok(buf_error(&out));
	return str_dup(buf_str(&out));
}

static void check(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		_cleanup_dialect_ struct dialect_result result;
		_cleanup_free_ char *means = translate(rows[i].pod, &result);
		const bool is_refusal = rows[i].means[0] == '!';

		if (is_refusal ? means[0] != '!' || !strstr(means, rows[i].means + 1)
			       : strcmp(means, rows[i].means))
			fail_msg("%s\n  gives: %s\n  not:   %s", rows[i].pod, means, rows[i].means);
	}
}

#define JOB_SET_POD \
	"l jobset.sigs.k8s.io/jobset-name=train\n" \
	"l jobset.sigs.k8s.io/replicatedjob-name=workers\n" \
	"l jobset.sigs.k8s.io/restart-attempt=1\n" \
	"l batch.kubernetes.io/job-name=train-workers-0\n"

static const struct row own[] = {
	{"", ""},
	{"a divvy.gpu/request=0.3", "main request=0.3 limit=1"},
	{"a divvy.gpu/request=2\na divvy.gpu/memory=25%",
		"main request=2 limit=1 exclusive memory=25%"},
	{"a divvy.gpu/request=0.25\na divvy.gpu/limit=0.5\na divvy.gpu/count=2\n"
	 "a divvy.gpu/memory=4Gi\na divvy.gpu/memory-policy=wait\na divvy.gpu/class=latency\n"
	 "a divvy.gpu/priority=7\na divvy.gpu/mode=remote\na divvy.gpu/model=A100,!T4\n"
	 "a divvy.gpu/device=GPU-1,GPU-2\na divvy.gpu/affinity=red\na divvy.gpu/anti-affinity=x\n"
	 "a divvy.gpu/exclusion=\na divvy.gpu/group=g\na divvy.gpu/group-size=5\n"
	 "a divvy.gpu/group-threshold=0.2\na divvy.gpu/network=10Gbps,50us\n"
	 "a divvy.gpu/preferred-anti-affinity=y",
		"main request=0.25 limit=0.5 count=2 memory=4Gi memory-policy=wait class=latency "
		"priority=7 mode=remote model=A100,!T4 device=GPU-1,GPU-2 affinity=red "
		"anti-affinity=x preferred-anti-affinity=y exclusion= network=10Gbps,50us; "
		"group=g 5 0.2"},
	/* the first main container, or the named containers */
	{"c prepare init\nc log sidecar\nc a\nc b\na divvy.gpu/request=0.3",
		"a request=0.3 limit=1"},
	{"c side\nc a\na divvy.gpu/request=0.3\na divvy.gpu/default-container=a",
		"a request=0.3 limit=1"},
	{"c a\na divvy.gpu/request=0.3\na divvy.gpu/replaced-pods=2", "a request=0.3 limit=1"},
	{"c side\nc a\nm divvy.gpu/slot=1\na divvy.gpu/request=0.3\na divvy.gpu/limit=0.5",
		"a request=0.3 limit=0.5"},
	{"c side\nc a\na divvy.gpu/request=0.3\na kubectl.kubernetes.io/default-container=a",
		"a request=0.3 limit=1"},
	{"c side\nc a\na divvy.gpu/request=0.3\na kubectl.kubernetes.io/default-container=a\n"
	 "a side.divvy.gpu/request=0.1",
		"side request=0.1 limit=1; a request=0.3 limit=1"},
	{"c side\nc a\na divvy.gpu/request=0.3\na divvy.gpu/default-container=a\n"
	 "a divvy.gpu/container=side",
		"side request=0.3 limit=1"},
	{"c a\nc b\na divvy.gpu/request=0.3\na divvy.gpu/container=b, a",
		"a request=0.3 limit=1; b request=0.3 limit=1"},
	{"c p init\nc a\na divvy.gpu/request=0.3\na divvy.gpu/container=p",
		"p request=0.3 limit=1"},
	{"c a\nc b\na b.divvy.gpu/request=0.3\na a.divvy.gpu/request=0.2",
		"a request=0.2 limit=1; b request=0.3 limit=1"},
	{"c a\nc b\na divvy.gpu/request=0.3\na divvy.gpu/class=latency\na a.divvy.gpu/request=0.2\n"
	 "a b.divvy.gpu/request=0.1",
		"a request=0.2 limit=1 class=latency; b request=0.1 limit=1"},
	{"c a.b\nc b\na a.b.divvy.gpu/request=0.3", "a.b request=0.3 limit=1"},
	/* a member of a group without a device */
	{"a divvy.gpu/group=g\na divvy.gpu/group-size=3", "group=g 3 1"},
	/* groups by the objects of other systems */
	{JOB_SET_POD "a divvy.gpu/group-by=jobset\na divvy.gpu/request=0.5",
		"main request=0.5 limit=1; group=jobset:train:1 0 1 jobset.x-k8s.io train"},
	{JOB_SET_POD "a divvy.gpu/group-by=jobset\na divvy.gpu/group-threshold=0.5",
		"group=jobset:train:1 0 0.5 jobset.x-k8s.io train"},
	{JOB_SET_POD "a divvy.gpu/group-by=replicatedjob\na divvy.gpu/request=0.5",
		"main request=0.5 limit=1; group=replicatedjob:train:workers:1 0 1 jobset.x-k8s.io "
		"train workers"},
	{JOB_SET_POD "a divvy.gpu/group-by=jobset-job\na divvy.gpu/request=0.5",
		"main request=0.5 limit=1; group=jobset-job:train:train-workers-0:1 0 1 "
		"jobset.x-k8s.io train workers"},
	{"l leaderworkerset.sigs.k8s.io/group-key=4aa0\na leaderworkerset.sigs.k8s.io/size=4\n"
	 "a divvy.gpu/group-by=leaderworkerset\na divvy.gpu/request=0.5",
		"main request=0.5 limit=1; group=leaderworkerset:4aa0 4 1"},
	/* a leader before the webhook of LeaderWorkerSet has written its label */
	{"a leaderworkerset.sigs.k8s.io/size=4\na divvy.gpu/group-by=leaderworkerset\n"
	 "a divvy.gpu/request=0.5",
		"main request=0.5 limit=1"},
	{"l leaderworkerset.sigs.k8s.io/group-key=4aa0\na leaderworkerset.sigs.k8s.io/size=0\n"
	 "a divvy.gpu/group-by=leaderworkerset",
		"!leaderworkerset.sigs.k8s.io/size '0': expected 1 to 65536"},
	{"l leaderworkerset.sigs.k8s.io/group-key=4aa0\na divvy.gpu/group-by=leaderworkerset",
		"!the pod has no annotation leaderworkerset.sigs.k8s.io/size"},
	/* a Job's pod whose label of the part is missing or empty */
	{"l jobset.sigs.k8s.io/jobset-name=train\nl jobset.sigs.k8s.io/restart-attempt=1\n"
	 "l batch.kubernetes.io/job-name=train-workers-0\na divvy.gpu/group-by=jobset-job\n"
	 "a divvy.gpu/request=0.5",
		"main request=0.5 limit=1"},
	{"l jobset.sigs.k8s.io/jobset-name=train\nl jobset.sigs.k8s.io/restart-attempt=1\n"
	 "l batch.kubernetes.io/job-name=train-workers-0\n"
	 "l jobset.sigs.k8s.io/replicatedjob-name=\na divvy.gpu/group-by=jobset-job",
		""},
	{"l ray.io/cluster=ray\nl ray.io/group=small\na divvy.gpu/group-by=raycluster",
		"group=raycluster:ray 0 1 ray.io ray"},
	{"l ray.io/cluster=ray\nl ray.io/group=small\na divvy.gpu/group-by=raygroup",
		"group=raygroup:ray:small 0 1 ray.io ray small"},
	{"a divvy.gpu/group-by=raycluster",
		"!divvy.gpu/group-by 'raycluster': the pod has no label ray.io/cluster"},
	{"l ray.io/cluster=ray\na divvy.gpu/group-by=ray",
		"!divvy.gpu/group-by 'ray': expected jobset, replicatedjob, jobset-job, "
		"leaderworkerset, raycluster or raygroup"},
	{JOB_SET_POD "a divvy.gpu/group-by=jobset\na divvy.gpu/group=g",
		"!divvy.gpu/group-by 'jobset' beside divvy.gpu/group: the system"},
	{JOB_SET_POD "a divvy.gpu/group-by=jobset\na divvy.gpu/group-size=2",
		"!divvy.gpu/group-by 'jobset' beside divvy.gpu/group-size: the system"},
	{JOB_SET_POD "a divvy.gpu/group-by=jobset\nl scheduling.x-k8s.io/pod-group=g",
		"!the pod is in group 'jobset:train:1' already"},
	{JOB_SET_POD "a divvy.gpu/group-bi=jobset", "!did you mean group-by?"},
	{JOB_SET_POD "a main.divvy.gpu/group-by=jobset",
		"!a group applies to the whole pod; write divvy.gpu/group-by"},
	/* assigned keys are not read */
	{"a divvy.gpu/request=0.3\na divvy.gpu/devices=GPU-1\na main.divvy.gpu/granted-limit=0.1\n"
	 "a divvy.gpu/epoch=4",
		"main request=0.3 limit=1"},
	{"a xdivvy.gpu/request=0.3\na divvy.gpu=1\na divvy.gpux/request=1", ""},

	{"a divvy.gpu/limit=0.5", "!request is missing"},
	{"a divvy.gpu/request=1.5", "!divvy.gpu/request: request '1.5': above 1, expected a whole"},
	{"a divvy.gpu/request=0.0005", "!steps of 0.001"},
	{"a divvy.gpu/request=0.5\na divvy.gpu/limit=0.4", "!0.5 to 1"},
	{"a divvy.gpu/request=0.5\na divvy.gpu/class=latency\na divvy.gpu/priority=0",
		"!priority 0: class latency cannot"},
	{"a divvy.gpu/reqest=0.5", "!'divvy.gpu/reqest': unknown field; did you mean request?"},
	{"a divvy.gpu/group_size=3", "!did you mean group-size?"},
	{"a divvy.gpu/contaner=a", "!did you mean container?"},
	{"a divvy.gpu/colour=red", "!expected request, limit"},
	{"a divvy.gpu/=red", "!expected request, limit"},
	{"a x.divvy.gpu/request=0.5", "!the pod has no container 'x'"},
	{"a divvy.gpu/request=0.5\na divvy.gpu/container=x", "!divvy.gpu/container 'x'"},
	{"a divvy.gpu/request=0.5\na divvy.gpu/container=", "!divvy.gpu/container ''"},
	{"a main.divvy.gpu/group=g", "!a group applies to the whole pod; write divvy.gpu/group"},
	{"a main.divvy.gpu/container=g", "!unknown field"},
	{"a divvy.gpu/request=0.5\na divvy.gpu/group=g", "!divvy.gpu/group-size is missing"},
	{"a divvy.gpu/request=0.5\na divvy.gpu/group-size=3", "!the group has no name"},
	{"a divvy.gpu/group=g\na divvy.gpu/group-size=0", "!1 to 65536"},
	{"a divvy.gpu/request=0.5\na divvy.gpu/group=g\na divvy.gpu/group-size=3\n"
	 "a divvy.gpu/group-threshold=1.1",
		"!group-threshold '1.1'"},
	{"a divvy.gpu/request=0.5\na divvy.gpu/mode=local\na divvy.gpu/network=1Gbps",
		"!network 1Gbps: mode local"},
	{"c p init\na divvy.gpu/request=0.5", "!no container that can get a GPU"},
};

static void translates_divvys_own_keys(void **state)
{
	check(own, ARRAY_SIZE(own));
}

/* The examples of KubeShare 1.0's README, doc/yaml/sharepod*.yaml, and a SharePod with a GPUID. */
static const struct row kubeshare[] = {
	{"d kubeshare\nc cuda\na kubeshare/gpu_request=0.5\na kubeshare/gpu_limit=1.0\n"
	 "a kubeshare/gpu_mem=1073741824\na kubeshare/sched_affinity=red\n"
	 "a kubeshare/sched_anti-affinity=green\na kubeshare/sched_exclusion=blue\nm cpu=1\n"
	 "m memory=500Mi",
		"cuda request=0.5 limit=1 memory=1Gi affinity=red anti-affinity=green "
		"exclusion=blue"},
	{"d kubeshare\nc cuda\na kubeshare/gpu_request=0.5\na kubeshare/gpu_limit=1.0\n"
	 "a kubeshare/gpu_mem=3145728000",
		"cuda request=0.5 limit=1 memory=3000Mi"},
	{"d kubeshare\nn node01\nc cuda\na kubeshare/gpu_request=0.5\na kubeshare/gpu_limit=1.0\n"
	 "a kubeshare/gpu_mem=1073741824\na kubeshare/GPUID=abcde",
		"cuda request=0.5 limit=1 memory=1Gi; vgpu=abcde"},
	/* number forms that KubeShare accepted */
	{"d kubeshare\na kubeshare/gpu_request=.5\na kubeshare/gpu_limit=5e-1\n"
	 "a kubeshare/gpu_mem=1",
		"main request=0.5 limit=0.5 memory=1"},
	{"d kubeshare\na kubeshare/gpu_request=0.0\na kubeshare/gpu_limit=1.\n"
	 "a kubeshare/gpu_mem=1Gi",
		"main request=0.001 limit=1 memory=1Gi class=opportunistic"},
	{"d kubeshare\na kubeshare/gpu_request=1.0\na kubeshare/gpu_limit=1.0\n"
	 "a kubeshare/gpu_mem=1Gi",
		"main request=1 limit=1 exclusive memory=1Gi"},
	/* an empty label counts as none, for exclusion too */
	{"d kubeshare\na kubeshare/gpu_request=0.1\na kubeshare/gpu_limit=1\na "
	 "kubeshare/gpu_mem=1\n"
	 "a kubeshare/sched_affinity=\na kubeshare/sched_exclusion=\na kubeshare/GPUID=",
		"main request=0.1 limit=1 memory=1"},
	/* the dialect is off, or the pod requests nothing */
	{"a kubeshare/gpu_request=0.5", ""},
	{"d kubeshare\na kubeshare/sched_affinity=red", ""},
	{"d kubeshare\na kubeshare/gpu_request=\na kubeshare/gpu_mem=", ""},

	{"d kubeshare\na kubeshare/gpu_request=0.5\na kubeshare/gpu_limit=1.0",
		"!kubeshare/gpu_mem is missing; kubeshare/gpu_request requires"},
	{"d kubeshare\na kubeshare/gpu_mem=1", "!kubeshare/gpu_request is missing"},
	{"d kubeshare\na kubeshare/gpu_request=0.5\na kubeshare/gpu_mem=1",
		"!kubeshare/gpu_limit is missing"},
	{"d kubeshare\na kubeshare/gpu_request=0.5\na kubeshare/gpu_limit=1.5\n"
	 "a kubeshare/gpu_mem=1",
		"!kubeshare/gpu_limit '1.5': expected 0 to 1 in steps of 0.001"},
	{"d kubeshare\na kubeshare/gpu_request=0.5\na kubeshare/gpu_limit=0.4\n"
	 "a kubeshare/gpu_mem=1",
		"!kubeshare/gpu_limit '0.4': below kubeshare/gpu_request '0.5'; expected 0.5 "
		"to 1"},
	{"d kubeshare\na kubeshare/gpu_request=0\na kubeshare/gpu_limit=0\na kubeshare/gpu_mem=1",
		"!kubeshare/gpu_limit '0': expected 0.001 to 1"},
	{"d kubeshare\na kubeshare/gpu_request=0.3333\na kubeshare/gpu_limit=1\n"
	 "a kubeshare/gpu_mem=1",
		"!kubeshare/gpu_request '0.3333'"},
	{"d kubeshare\na kubeshare/gpu_request=500m\na kubeshare/gpu_limit=1\n"
	 "a kubeshare/gpu_mem=1",
		"!kubeshare/gpu_request '500m'"},
	{"d kubeshare\na kubeshare/gpu_request=0.5\na kubeshare/gpu_limit=1\n"
	 "a kubeshare/gpu_mem=0",
		"!kubeshare/gpu_mem '0': expected a whole number of bytes above 0"},
	{"d kubeshare\na kubeshare/gpu_request=0.5\na kubeshare/gpu_limit=1\n"
	 "a kubeshare/gpu_mem=1\na kubeshare/GPUID=abcde",
		"!spec.nodeName is missing"},
	{"d kubeshare\nn n\na kubeshare/gpu_request=0.5\na kubeshare/gpu_limit=1\n"
	 "a kubeshare/gpu_mem=1\na kubeshare/GPUID=a\tb",
		"!kubeshare/GPUID: the value has 3 characters; expected 1 to 63 printable ASCII"},
	{"d kubeshare\na kubeshare/gpu_reqest=0.5", "!did you mean kubeshare/gpu_request?"},
};

static void translates_kubeshare(void **state)
{
	check(kubeshare, ARRAY_SIZE(kubeshare));
}

/* The pod and job of KubeShare 2.0's README, test/cifar10 and test/distribute. */
static const struct row kubeshare2[] = {
	{"d kubeshare2\nc pytorch\nl sharedgpu/gpu_request=0.5\nl sharedgpu/gpu_limit=1.0\n"
	 "l sharedgpu/gpu_model=NVIDIA-GeForce-GTX-1080",
		"pytorch request=0.5 limit=1 class=opportunistic model==NVIDIA-GeForce-GTX-1080"},
	{"d kubeshare2\nc pytorch\nl sharedgpu/gpu_request=0.5\nl sharedgpu/gpu_limit=1.0\n"
	 "l sharedgpu/group_name=a\nl sharedgpu/group_headcount=5\n"
	 "l sharedgpu/group_threshold=0.2\nl sharedgpu/priority=100",
		"pytorch request=0.5 limit=1 priority=100; group=a 5 0.2"},
	{"d kubeshare2\nc pytorch\nl sharedgpu/gpu_request=0.5\nl sharedgpu/gpu_limit=1.0\n"
	 "l sharedgpu/priority=100\nl app=cifar10",
		"pytorch request=0.5 limit=1 priority=100"},
	{"d kubeshare2\nc elasticjob-worker\nl sharedgpu/gpu_request=2.0\nl "
	 "sharedgpu/gpu_limit=2.0\n"
	 "l sharedgpu/priority=100\nl sharedgpu/group_name=imagenet50-1\n"
	 "l sharedgpu/min_available=2",
		"elasticjob-worker request=2 limit=1 exclusive priority=100; group=imagenet50-1 2 "
		"1"},
	{"d kubeshare2\nl sharedgpu/gpu_limit=0.5\nl sharedgpu/priority=-1",
		"main request=0.001 limit=0.5 class=opportunistic"},
	{"d kubeshare2\nl sharedgpu/gpu_limit=1\nl sharedgpu/gpu_request=1\nl sharedgpu/priority=1",
		"main request=1 limit=1 exclusive priority=1"},
	{"d kubeshare2\nl sharedgpu/gpu_limit=10\nl sharedgpu/gpu_request=10.0\n"
	 "l sharedgpu/priority=1\nl sharedgpu/gpu_mem=5",
		"main request=10 limit=1 exclusive priority=1"},
	{"d kubeshare2\nl sharedgpu/gpu_limit=1\nl sharedgpu/gpu_request=0.2\n"
	 "l sharedgpu/priority=1\nl sharedgpu/gpu_mem=0\nl sharedgpu/gpu_model=",
		"main request=0.2 limit=1 priority=1"},
	/*
	 * a member of a group without a GPU, by the key of KubeShare's README; pods without a GPU
	 * or group
	 */
	{"d kubeshare2\nl sharedgpu/gpu_limit=0\nl sharedgpu/pod_group_name=g\n"
	 "l sharedgpu/group_headcount=3\nl sharedgpu/group_threshold=0.5",
		"group=g 3 0.5"},
	{"d kubeshare2\nl sharedgpu/gpu_limit=0.0\nl sharedgpu/gpu_request=0.0", ""},
	{"d kubeshare2\nl sharedgpu/priority=5", ""},
	/* only some of the three keys of a group */
	{"d kubeshare2\nl sharedgpu/gpu_limit=1\nl sharedgpu/gpu_request=0.2\n"
	 "l sharedgpu/priority=1\nl sharedgpu/group_name=g",
		"main request=0.2 limit=1 priority=1"},

	{"d kubeshare2\nl sharedgpu/gpu_request=0.5", "!sharedgpu/gpu_limit is missing"},
	{"d kubeshare2\nl sharedgpu/gpu_mem=5", "!sharedgpu/gpu_limit is missing"},
	{"d kubeshare2\nl sharedgpu/gpu_limit=2.0", "!sharedgpu/gpu_request is missing"},
	{"d kubeshare2\nl sharedgpu/gpu_limit=3.0\nl sharedgpu/gpu_request=2.0",
		"!above 1, both must be the same whole number"},
	{"d kubeshare2\nl sharedgpu/gpu_limit=1.5\nl sharedgpu/gpu_request=1.5",
		"!above 1, both must be the same whole number"},
	{"d kubeshare2\nl sharedgpu/gpu_limit=17\nl sharedgpu/gpu_request=17",
		"!sharedgpu/gpu_limit '17': expected 0 to 16"},
	{"d kubeshare2\nl sharedgpu/gpu_limit=0.5\nl sharedgpu/gpu_request=1.0", "!0.5"},
	{"d kubeshare2\nl sharedgpu/gpu_limit=1\nl sharedgpu/priority=101",
		"!sharedgpu/priority '101': expected -1 or 0"},
	{"d kubeshare2\nl sharedgpu/gpu_limit=1\nl sharedgpu/priority=-2",
		"!sharedgpu/priority '-2'"},
	{"d kubeshare2\nl sharedgpu/gpu_limit=1\nl sharedgpu/group_name=g\n"
	 "l sharedgpu/group_headcount=0\nl sharedgpu/group_threshold=0.5",
		"!sharedgpu/group_headcount '0'"},
	{"d kubeshare2\nl sharedgpu/gpu_limit=1\nl sharedgpu/group_name=g\n"
	 "l sharedgpu/group_headcount=3\nl sharedgpu/group_threshold=2",
		"!sharedgpu/group_threshold '2'"},
	{"d kubeshare2\nl sharedgpu/gpu_limt=1", "!did you mean sharedgpu/gpu_limit?"},
};

static void translates_kubeshare2(void **state)
{
	check(kubeshare2, ARRAY_SIZE(kubeshare2));
}

/* The group's least number is floor(threshold x headcount + 0.5), as KubeShare 2 computed it. */
static void kubeshare2_rounds_as_the_original(void **state)
{
	static const struct {
		const char *size, *threshold;
		uint32_t least;
	} cases[] = {{"5", "0.2", 1}, {"10", "0.2", 2}, {"5", "0.3", 2}, {"5", "0.5", 3},
		{"3", "0.5", 2}, {"4", "1.0", 4}, {"5", "0.09", 1}, {"7", "0.35", 2},
		{"1000", "0.0015", 0}, {"65536", "1", 65536}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_dialect_ struct dialect_result result;
		char pod[256];
		_cleanup_free_ char *means = NULL;

		snprintf(pod, sizeof(pod),
			"d kubeshare2\nl sharedgpu/gpu_limit=1\nl sharedgpu/group_name=g\n"
			"l sharedgpu/group_headcount=%s\nl sharedgpu/group_threshold=%s",
			cases[i].size, cases[i].threshold);
		means = translate(pod, &result);
		if (!cases[i].least) { /* finer than 0.001 */
			assert_contains(means, "!sharedgpu/group_threshold");
			continue;
		}
		assert_int_equal(spec_group_least(&result.tenant[0].spec), cases[i].least);
	}
}

static const struct row gemini[] = {
	{"d gemini\na gemini/gpu_request=0.4\na gemini/gpu_limit=0.7\na gemini/gpu_mem=1073741824",
		"main request=0.4 limit=0.7 memory=1Gi"},
	{"d gemini\na gemini/gpu_request=0\na gemini/gpu_limit=1\na gemini/gpu_memory=1Gi\n"
	 "a gemini/sched_exclusion=a\na gemini/sched_affinity=b\na gemini/sched_anti-affinity=c",
		"main request=0.001 limit=1 memory=1Gi class=opportunistic affinity=b "
		"anti-affinity=c exclusion=a"},
	{"d gemini\na gemini/gpu_request=0\na gemini/gpu_limit=1\na gemini/gpu_memory=1Gi\n"
	 "a gemini/gpu_mem=1Gi",
		"!keep one of the two"},
	{"d gemini\na gemini/gpu_request=0.4", "!gemini/gpu_limit is missing"},
	{"d gemini\na gemini/gpu_request=1.0\na gemini/gpu_limit=1.0\na gemini/gpu_mem=1Gi",
		"main request=1 limit=1 exclusive memory=1Gi"},
};

/*
 * gpushare's samples/1.yaml and 4.yaml, and its user guide. Memory is in GiB, unless the
 * namespace's list says MiB.
 */
static const struct row gpushare[] = {
	{"d gpushare=MiB\nc binpack-1\nm aliyun.com/gpu-mem=8138",
		"binpack-1 request=0.001 limit=1 memory=8138Mi; "
		"-binpack-1/aliyun.com/gpu-mem=8138"},
	{"d gpushare=MiB\nc binpack-4\nr aliyun.com/gpu-mem=16276",
		"binpack-4 request=0.001 limit=1 memory=16276Mi; "
		"-binpack-4/aliyun.com/gpu-mem=16276"},
	{"d gpushare\nc binpack-1\nm aliyun.com/gpu-mem=3",
		"binpack-1 request=0.001 limit=1 memory=3Gi; -binpack-1/aliyun.com/gpu-mem=3"},
	{"d gpushare=GiB\nc a\nr aliyun.com/gpu-mem=2\nr aliyun.com/gpu-count=1\nc b\n"
	 "r aliyun.com/gpu-mem=1",
		"a request=0.001 limit=1 memory=2Gi; b request=0.001 limit=1 memory=1Gi; "
		"-a/aliyun.com/gpu-mem=2; -a/aliyun.com/gpu-count=1; -b/aliyun.com/gpu-mem=1"},
	{"d gpushare\nr aliyun.com/gpu-mem=0", "-main/aliyun.com/gpu-mem=0"},
	{"d gpushare\nr aliyun.com/gpu-mem=2\nr aliyun.com/gpu-count=2",
		"!aliyun.com/gpu-count 2: gpu-mem counts one device"},
	{"d gpushare\nr aliyun.com/gpu-mem=1.5", "!not a whole number"},
	{"d gpushare\nr aliyun.com/gpu-mem=9223372036854775807", "!expected 0 to 8589934591"},
	{"d gpushare\nr aliyun.com/gpu-memm=5", "!did you mean aliyun.com/gpu-mem?"},
};

/* The examples of GaiaGPU's README: the annotation, a share, two devices. */
static const struct row gaiagpu[] = {
	{"d gaiagpu\nc nvidia\na tencent.com/vcuda-core-limit=50\nr tencent.com/vcuda-core=50\n"
	 "r tencent.com/vcuda-memory=30",
		"nvidia request=0.5 limit=0.5 memory=7680Mi; -nvidia/tencent.com/vcuda-core=50; "
		"-nvidia/tencent.com/vcuda-memory=30"},
	{"d gaiagpu\nc nvidia\nr tencent.com/vcuda-core=200\nr tencent.com/vcuda-memory=60",
		"nvidia request=2 limit=1 exclusive; -nvidia/tencent.com/vcuda-core=200; "
		"-nvidia/tencent.com/vcuda-memory=60"},
	{"d gaiagpu\na tencent.com/vcuda-core-limit=80\nr tencent.com/vcuda-core=30\n"
	 "r tencent.com/vcuda-memory=4",
		"main request=0.3 limit=0.8 memory=1Gi; -main/tencent.com/vcuda-core=30; "
		"-main/tencent.com/vcuda-memory=4"},
	{"d gaiagpu\nr tencent.com/vcuda-core=20\nr tencent.com/vcuda-memory=1",
		"main request=0.2 limit=0.2 memory=256Mi; -main/tencent.com/vcuda-core=20; "
		"-main/tencent.com/vcuda-memory=1"},
	{"d gaiagpu\nr tencent.com/vcuda-core=100",
		"main request=1 limit=1 exclusive; -main/tencent.com/vcuda-core=100"},
	{"d gaiagpu\nr tencent.com/vcuda-core=150\nr tencent.com/vcuda-memory=1",
		"!tencent.com/vcuda-core 150: values above 100 are whole devices"},
	{"d gaiagpu\nr tencent.com/vcuda-core=250\nr tencent.com/vcuda-memory=1",
		"!values above 100 are whole devices"},
	{"d gaiagpu\nr tencent.com/vcuda-core=1700", "!expected 0 to 1600"},
	{"d gaiagpu\nr tencent.com/vcuda-core=20", "!tencent.com/vcuda-memory is missing"},
	{"d gaiagpu\nr tencent.com/vcuda-memory=20", "!tencent.com/vcuda-core is missing"},
	{"d gaiagpu\na tencent.com/vcuda-core-limit=10\nr tencent.com/vcuda-core=20\n"
	 "r tencent.com/vcuda-memory=4",
		"!below tencent.com/vcuda-core 20; expected 20 to 100"},
	{"d gaiagpu\na tencent.com/vcuda-core-limit=101\nr tencent.com/vcuda-core=20",
		"!vcuda-core-limit '101'"},
};

static const struct row deepomatic[] = {
	{"d deepomatic\nr deepomatic.com/shared-gpu=1",
		"main request=0.01 limit=1; -main/deepomatic.com/shared-gpu=1"},
	{"d deepomatic=4\nr deepomatic.com/shared-gpu=1",
		"main request=0.25 limit=1; -main/deepomatic.com/shared-gpu=1"},
	{"d deepomatic=3\nr deepomatic.com/shared-gpu=2",
		"main request=0.666 limit=1; -main/deepomatic.com/shared-gpu=2"},
	{"d deepomatic=4\nr deepomatic.com/shared-gpu=4",
		"main request=1 limit=1 exclusive; -main/deepomatic.com/shared-gpu=4"},
	{"d deepomatic=4\nr deepomatic.com/shared-gpu=5", "!expected 0 to 4"},
	{"d deepomatic=1000\nr deepomatic.com/shared-gpu=1",
		"main request=0.001 limit=1; -main/deepomatic.com/shared-gpu=1"},
};

/*
 * HAMi's examples/nvidia/: default_use, example, use_memory_fraction, use_exclusive_card,
 * specify_*.
 */
static const struct row hami[] = {
	{"d hami\nc ubuntu-container\nm nvidia.com/gpu=2\nm nvidia.com/gpumem=3000\n"
	 "m nvidia.com/gpucores=30",
		"ubuntu-container request=0.3 limit=0.3 count=2 memory=3000Mi; "
		"-ubuntu-container/nvidia.com/gpu=2; -ubuntu-container/nvidia.com/gpumem=3000; "
		"-ubuntu-container/nvidia.com/gpucores=30"},
	{"d hami\nm nvidia.com/gpu=1\nm nvidia.com/gpumem=3000",
		"main request=0.001 limit=1 memory=3000Mi; -main/nvidia.com/gpu=1; "
		"-main/nvidia.com/gpumem=3000"},
	{"d hami\nm nvidia.com/gpu=2\nm nvidia.com/gpumem-percentage=50\nm nvidia.com/gpucores=30",
		"main request=0.3 limit=0.3 count=2 memory=50%; -main/nvidia.com/gpu=2; "
		"-main/nvidia.com/gpumem-percentage=50; -main/nvidia.com/gpucores=30"},
	{"d hami\nm nvidia.com/gpu=2\nm nvidia.com/gpumem-percentage=100\nm "
	 "nvidia.com/gpucores=100",
		"main request=2 limit=1 exclusive memory=100%; -main/nvidia.com/gpu=2; "
		"-main/nvidia.com/gpumem-percentage=100; -main/nvidia.com/gpucores=100"},
	{"d hami\na nvidia.com/use-gputype=A100,V100\nm nvidia.com/gpu=2",
		"main request=0.001 limit=1 count=2 memory=100% model=A100,V100; "
		"-main/nvidia.com/gpu=2"},
	{"d hami\na nvidia.com/nouse-gputype=1080, 2080\nm nvidia.com/gpu=2",
		"main request=0.001 limit=1 count=2 memory=100% model=!1080,!2080; "
		"-main/nvidia.com/gpu=2"},
	{"d hami\na nvidia.com/use-gpuuuid=GPU-123456\nm nvidia.com/gpu=1",
		"main request=0.001 limit=1 memory=100% device=GPU-123456; -main/nvidia.com/gpu=1"},
	{"d hami\na nvidia.com/use-gpuuuid=GPU-AAA,GPU-BBB\na nvidia.com/nouse-gpuuuid=GPU-CCC\n"
	 "m nvidia.com/gpu=1",
		"main request=0.001 limit=1 memory=100% device=GPU-AAA,GPU-BBB,!GPU-CCC; "
		"-main/nvidia.com/gpu=1"},
	{"d hami\na hami.io/gpu-scheduler-policy=binpack\nm nvidia.com/gpu=1",
		"main request=0.001 limit=1 memory=100%; -main/nvidia.com/gpu=1"},
	{"d hami\nm nvidia.com/gpu=1\nm nvidia.com/gpucores=30\nm nvidia.com/priority=0\n"
	 "e GPU_CORE_UTILIZATION_POLICY=disable",
		"main request=0.3 limit=1 memory=100% class=latency; -main/nvidia.com/gpu=1; "
		"-main/nvidia.com/gpucores=30; -main/nvidia.com/priority=0"},
	{"d hami\nm nvidia.com/gpumem=100\nm nvidia.com/gpucores=0\nm nvidia.com/priority=1",
		"main request=0.001 limit=1 memory=100Mi; -main/nvidia.com/gpumem=100; "
		"-main/nvidia.com/gpucores=0; -main/nvidia.com/priority=1"},
	{"d hami\nc a\nm nvidia.com/gpu=1\nm nvidia.com/gpumem=100\nc b\nc c init\n"
	 "m nvidia.com/gpu=1\nm nvidia.com/gpumem=50",
		"a request=0.001 limit=1 memory=100Mi; c request=0.001 limit=1 memory=50Mi; "
		"-a/nvidia.com/gpu=1; -a/nvidia.com/gpumem=100; -c/nvidia.com/gpu=1; "
		"-c/nvidia.com/gpumem=50"},
	{"d hami\nm nvidia.com/gpu=0", "-main/nvidia.com/gpu=0"},
	{"d hami\nm nvidia.com/priority=0", ""},
	{"m nvidia.com/gpu=1\nm nvidia.com/gpumem=100", ""},

	{"d hami\nm nvidia.com/gpu=1\nm nvidia.com/gpucores=101",
		"!nvidia.com/gpucores 101: expected 0 to 100"},
	{"d hami\nm nvidia.com/gpu=1\nm nvidia.com/gpumem-percentage=0", "!expected 1 to 100"},
	{"d hami\nm nvidia.com/gpu=1\nm nvidia.com/gpumem-percentage=101", "!expected 0 to 100"},
	{"d hami\nm nvidia.com/gpu=1\nm nvidia.com/gpumem-percentage=50\nm nvidia.com/gpumem=50",
		"!keep one of the two"},
	{"d hami\nm nvidia.com/gpu=1\nm nvidia.com/priority=2", "!nvidia.com/priority 2"},
	{"d hami\nm nvidia.com/gpu=17\nm nvidia.com/gpumem=1",
		"!nvidia.com/gpu 17: expected 0 to 16"},
	{"d hami\na nvidia.com/vgpu-mode=mig\nm nvidia.com/gpu=1", "!nvidia.com/vgpu-mode 'mig'"},
	{"d hami\nm nvidia.com/gpumem=1\ne GPU_CORE_UTILIZATION_POLICY=never",
		"!expected default, force or disable"},
	{"d hami\nm nvidia.com/gpumem=1\nm nvidia.com/gpucore=1",
		"!did you mean nvidia.com/gpucores?"},
};

/* GpuShare's test/vpod1.yaml, and further cases. */
static const struct row wang[] = {
	{"d wang\nc cuda\na gpushare/gpu_request=0.4\na gpushare/gpu_limit=0.5\n"
	 "a gpushare/gpu_memory=8388608000\na gpushare/resource_priority=2\n"
	 "a gpushare/taskid=default/virtualpod1",
		"cuda request=0.4 limit=0.5 memory=8000Mi class=opportunistic"},
	{"d wang\na gpushare/gpu_request=0.4\na gpushare/gpu_limit=0.5\na gpushare/gpu_memory=1\n"
	 "a gpushare/resource_priority=0",
		"main request=0.4 limit=0.5 memory=1 class=latency"},
	{"d wang\nn gpu39\na gpushare/gpu_request=0.4\na gpushare/gpu_limit=0.5\n"
	 "a gpushare/gpu_memory=1\na gpushare/resource_priority=1\na gpushare/GPUID=abcde",
		"main request=0.4 limit=0.5 memory=1; vgpu=abcde"},
	{"d wang\na gpushare/gpu_request=0.4\na gpushare/gpu_limit=0.5\na gpushare/gpu_memory=1\n"
	 "a gpushare/resource_priority=3",
		"!gpushare/resource_priority '3': expected 0 (guaranteed)"},
	{"d wang\na gpushare/gpu_request=0.4\na gpushare/gpu_limit=0.5\na gpushare/gpu_memory=1",
		"!gpushare/resource_priority is missing"},
	{"d wang\na gpushare/resource_priority=1", "!gpushare/gpu_request is missing"},
};

static const struct row nvidia[] = {
	{"d nvidia\nm nvidia.com/gpu=1",
		"main request=1 limit=1 exclusive; -main/nvidia.com/gpu=1"},
	{"d nvidia\nr nvidia.com/gpu=8",
		"main request=8 limit=1 exclusive; -main/nvidia.com/gpu=8"},
	{"m nvidia.com/gpu=1", ""},
	/* resources with dialects of their own */
	{"d nvidia\nm nvidia.com/gpu.shared=1\nm nvidia.com/mig-1g.5gb=1", ""},
	{"d nvidia\nm nvidia.com/gpu=17", "!expected 0 to 16"},
	/* together with dialect hami, which translates containers with further keys of HAMi */
	{"d nvidia,hami\nc a\nm nvidia.com/gpu=1\nc b\nm nvidia.com/gpu=1\nm nvidia.com/gpumem=5",
		"a request=1 limit=1 exclusive; b request=0.001 limit=1 memory=5Mi; "
		"-b/nvidia.com/gpu=1; -b/nvidia.com/gpumem=5; -a/nvidia.com/gpu=1"},
};

/*
 * KAI's folder about sharing GPUs: gpu-sharing.yaml, gpu-memory.yaml, the files about init and
 * non-default containers, and the README (NvFractions). Run:ai's page about dynamic GPU fractions.
 */
static const struct row kai[] = {
	{"d kai\nc gpu-workload\nl kai.scheduler/queue=default-queue\na gpu-fraction=0.5\nm memory=1Gi",
		"gpu-workload request=0.5 limit=1"},
	{"d kai\nc gpu-workload\nl kai.scheduler/queue=default-queue\na gpu-memory=2000",
		"gpu-workload request=0.001 limit=1 memory=2000Mi"},
	{"d kai\nc sidecar\nc gpu-workload\nc another-sidecar\na gpu-fraction=0.5\n"
	 "a gpu-fraction-container-name=gpu-workload",
		"gpu-workload request=0.5 limit=1"},
	{"d kai\nc gpu-init init\nc main-app\na gpu-fraction=0.5\n"
	 "a gpu-fraction-container-name=gpu-init",
		"gpu-init request=0.5 limit=1"},
	{"d kai\nc gpu-workload\na nvidia.com/container.gpu-workload.gpu-memory.request=7680Mi\n"
	 "a gpu-fraction-num-devices=2",
		"gpu-workload request=0.001 limit=1 count=2 memory=7680Mi"},
	{"d kai\nc gpu-workload\na nvidia.com/container.gpu-workload.gpu-memory.request=4096Mi\n"
	 "a nvidia.com/container.gpu-workload.gpu-memory.limit=8192Mi",
		"gpu-workload request=0.001 limit=1 memory=8Gi"},
	{"d kai\nc job\nl runai/queue=test\na gpu-fraction=0.5\na gpu-fraction-num-devices=2\n"
	 "e RUNAI_GPU_MEMORY_LIMIT=0.95",
		"job request=0.5 limit=1 count=2 memory=95%"},
	{"d kai\nc job\na gpu-memory=2000\ne RUNAI_GPU_MEMORY_LIMIT=2500M",
		"job request=0.001 limit=1 memory=2500000000"},
	/* the default container, and those that divvy.gpu/container names */
	{"d kai\nc a\nc b\na gpu-fraction=0.25", "a request=0.25 limit=1"},
	{"d kai\nc a\nc b\na gpu-fraction=0.25\na divvy.gpu/container=b,a",
		"a request=0.25 limit=1; b request=0.25 limit=1"},
	/* memory of NvFractions beside the older keys */
	{"d kai\nc a\nc b\na gpu-fraction=0.25\na nvidia.com/container.b.gpu-memory.limit=4Gi",
		"b request=0.25 limit=1 memory=4Gi"},
	{"d kai\nc a\nc b\na nvidia.com/container.b.gpu-memory.limit=4Gi\n"
	 "a nvidia.com/container.a.gpu-memory.request=2Gi",
		"a request=0.001 limit=1 memory=2Gi; b request=0.001 limit=1 memory=4Gi"},
	{"d kai\nc a\na gpu-memory=4096\na nvidia.com/container.a.gpu-memory.request=4Gi",
		"a request=0.001 limit=1 memory=4Gi"},
	/* empty values, pods without a request, and the dialect off */
	{"d kai\na gpu-fraction=\na gpu-memory=", ""},
	{"d kai\nl kai.scheduler/queue=q", ""},
	{"d kai\nc a\na nvidia.com/container.a.gpu-compute.mode=time-slicing", ""},
	{"a gpu-fraction=0.5", ""},

	{"d kai\na gpu-fraction=1", "!gpu-fraction '1': expected 0.001 to 0.999"},
	{"d kai\na gpu-fraction=0", "!gpu-fraction '0': expected 0.001 to 0.999"},
	{"d kai\na gpu-fraction=-0.5", "!gpu-fraction '-0.5': expected 0.001 to 0.999"},
	{"d kai\na gpu-fraction=0.3333", "!gpu-fraction '0.3333': expected 0.001 to 0.999"},
	{"d kai\na gpu-memory=2000Mi", "!gpu-memory '2000Mi': expected a whole number of MiB"},
	{"d kai\na gpu-memory=0", "!gpu-memory '0': expected a whole number of MiB above 0"},
	{"d kai\na gpu-fraction=0.5\na gpu-memory=2000",
		"!gpu-fraction '0.5' and gpu-memory '2000': keep one of the two"},
	{"d kai\na gpu-fraction-num-devices=2",
		"!gpu-fraction-num-devices: gpu-fraction and gpu-memory are missing"},
	{"d kai\na gpu-fraction=0.5\na gpu-fraction-num-devices=17",
		"!gpu-fraction-num-devices '17': expected 1 to 16 devices"},
	{"d kai\na gpu-fraction=0.5\na gpu-fraction-num-devices=0",
		"!gpu-fraction-num-devices '0': expected 1 to 16 devices"},
	{"d kai\na gpu-fraction=0.5\na gpu-fraction-container-name=gpu-workloads",
		"!gpu-fraction-container-name 'gpu-workloads': the pod has no container of that name"},
	{"d kai\nc a\nc b\na gpu-fraction=0.5\na gpu-fraction-container-name=a\n"
	 "a divvy.gpu/container=b",
		"!gpu-fraction-container-name 'a' and divvy.gpu/container: keep one of the two"},
	{"d kai\na gpu-fraction=0.5\nm nvidia.com/gpu=1",
		"!container main: nvidia.com/gpu beside a part of a device; keep one of the two"},
	{"d kai\nc a\na nvidia.com/container.b.gpu-memory.request=4Gi",
		"!the pod has no container 'b'"},
	{"d kai\nc a\na nvidia.com/container.a.gpu-memory.request=8Gi\n"
	 "a nvidia.com/container.a.gpu-memory.limit=4Gi",
		"!container a: gpu-memory.limit '4Gi': below gpu-memory.request '8Gi'"},
	{"d kai\nc a\na nvidia.com/container.a.gpu-memory.request=much",
		"!container a: gpu-memory.request 'much': expected a whole number of bytes"},
	{"d kai\nc a\na gpu-memory=2000\na nvidia.com/container.a.gpu-memory.request=4Gi",
		"!gpu-memory says 2000 MiB; keep one of the two"},
	{"d kai\nc a\na gpu-memory=4096\na nvidia.com/container.a.gpu-memory.limit=2Gi",
		"!container a: gpu-memory.limit '2Gi': below gpu-memory of 4096 MiB; expected at "
		"least as much"},
	{"d kai\nc a\nc b\na gpu-fraction=0.5\na gpu-fraction-container-name=a\n"
	 "a nvidia.com/container.b.gpu-memory.request=4Gi",
		"!gpu-fraction-container-name 'a': container b has keys"},
	{"d kai\na gpu-fraction=0.5\ne RUNAI_GPU_MEMORY_LIMIT=0.4",
		"!RUNAI_GPU_MEMORY_LIMIT '0.4': below gpu-fraction; expected 0.5 to 1"},
	{"d kai\na gpu-memory=2000\ne RUNAI_GPU_MEMORY_LIMIT=1Gi",
		"!RUNAI_GPU_MEMORY_LIMIT '1Gi': below the memory of 2000Mi"},
};

/*
 * Volcano's user guides "Volcano vGPU", "GPU Sharing" and "GPU Number"; README and examples of
 * volcano-vgpu-device-plugin.
 */
static const struct row volcano[] = {
	{"d volcano\nc cuda-container\na volcano.sh/vgpu-mode=hami-core\n"
	 "m volcano.sh/vgpu-number=1\nm volcano.sh/vgpu-cores=50\nm volcano.sh/vgpu-memory=3000",
		"cuda-container request=0.5 limit=0.5 memory=3000Mi; "
		"-cuda-container/volcano.sh/vgpu-number=1; "
		"-cuda-container/volcano.sh/vgpu-memory=3000; "
		"-cuda-container/volcano.sh/vgpu-cores=50"},
	{"d volcano\nm volcano.sh/vgpu-number=2\nm volcano.sh/vgpu-memory=3000\n"
	 "m volcano.sh/vgpu-cores=50",
		"main request=0.5 limit=0.5 count=2 memory=3000Mi; "
		"-main/volcano.sh/vgpu-number=2; -main/volcano.sh/vgpu-memory=3000; "
		"-main/volcano.sh/vgpu-cores=50"},
	{"d volcano\nc pod1-ctr\nm volcano.sh/vgpu-memory=1024\nm volcano.sh/vgpu-number=1",
		"pod1-ctr request=0.001 limit=1 memory=1Gi; "
		"-pod1-ctr/volcano.sh/vgpu-number=1; -pod1-ctr/volcano.sh/vgpu-memory=1024"},
	{"d volcano=1024\nm volcano.sh/vgpu-memory=24\nm volcano.sh/vgpu-cores=30",
		"main request=0.3 limit=0.3 memory=24Gi; -main/volcano.sh/vgpu-memory=24; "
		"-main/volcano.sh/vgpu-cores=30"},
	{"d volcano\nm volcano.sh/vgpu-number=1\nm volcano.sh/vgpu-memory-percentage=50\n"
	 "a nvidia.com/use-gputype=A100,V100\na nvidia.com/nouse-gputype=T4",
		"main request=0.001 limit=1 memory=50% model=A100,V100,!T4; "
		"-main/volcano.sh/vgpu-number=1; -main/volcano.sh/vgpu-memory-percentage=50"},
	{"d volcano\nm volcano.sh/vgpu-number=2\nm volcano.sh/vgpu-cores=100",
		"main request=2 limit=1 exclusive memory=100%; -main/volcano.sh/vgpu-number=2; "
		"-main/volcano.sh/vgpu-cores=100"},
	{"d volcano\nl volcano.sh/queue-name=q\nr volcano.sh/vgpu-number=1",
		"main request=0.001 limit=1 memory=100%; -main/volcano.sh/vgpu-number=1"},
	{"d volcano\nc a init\nm volcano.sh/vgpu-memory=5\nc b",
		"a request=0.001 limit=1 memory=5Mi; -a/volcano.sh/vgpu-memory=5"},
	{"d volcano\na scheduling.k8s.io/group-name=job-1\nm volcano.sh/vgpu-memory=5",
		"main request=0.001 limit=1 memory=5Mi; group=job-1 0 1 scheduling.volcano.sh; "
		"-main/volcano.sh/vgpu-memory=5"},
	/* the plugin before vGPUs */
	{"d volcano\nc cuda-container\nm volcano.sh/gpu-memory=1024",
		"cuda-container request=0.001 limit=1 memory=1Gi; "
		"-cuda-container/volcano.sh/gpu-memory=1024"},
	{"d volcano\nm volcano.sh/gpu-number=2",
		"main request=2 limit=1 exclusive; -main/volcano.sh/gpu-number=2"},
	{"d volcano\nm volcano.sh/vgpu-number=0", "-main/volcano.sh/vgpu-number=0"},
	{"m volcano.sh/vgpu-number=1", ""},

	{"d volcano\na volcano.sh/vgpu-mode=mig\nm volcano.sh/vgpu-number=1\n"
	 "m volcano.sh/vgpu-memory=3000",
		"!volcano.sh/vgpu-mode 'mig': expected hami-core"},
	{"d volcano\nm volcano.sh/vgpu-cores=101", "!volcano.sh/vgpu-cores 101: expected 0 to 100"},
	{"d volcano\nm volcano.sh/vgpu-number=17", "!volcano.sh/vgpu-number 17: expected 0 to 16"},
	{"d volcano\nm volcano.sh/vgpu-memory=1\nm volcano.sh/vgpu-memory-percentage=5",
		"!volcano.sh/vgpu-memory 1 and volcano.sh/vgpu-memory-percentage 5; keep one"},
	{"d volcano\nm volcano.sh/vgpu-memory-percentage=0",
		"!volcano.sh/vgpu-memory-percentage 0: expected 1 to 100"},
	{"d volcano\nm volcano.sh/gpu-memory=1\nm volcano.sh/gpu-number=1",
		"!volcano.sh/gpu-memory 1 and volcano.sh/gpu-number 1; keep one of the two"},
	{"d volcano\nm volcano.sh/gpu-memory=1\nm volcano.sh/vgpu-number=1",
		"!container main: volcano.sh/vgpu-... beside volcano.sh/gpu-memory"},
	{"d volcano\nm volcano.sh/vgpu-core=1", "!did you mean volcano.sh/vgpu-cores?"},
	{"d volcano=65536\nm volcano.sh/vgpu-memory=9223372036854775807",
		"!volcano.sh/vgpu-memory 9223372036854775807: expected 0 to 134217727"},
};

#define K "koordinator.sh/"
#define NO(name, value) "-main/koordinator.sh/" name "=" value

/*
 * Koordinator's pages about GPU sharing with HAMi, in both spellings of gpu.shared, and the release
 * notes of 1.6 (gpu-partition-spec). Koordinator's pkg/scheduler/plugins/deviceshare decides which
 * combinations are possible.
 */
static const struct row koordinator[] = {
	{"d koordinator\nc curlimage\nl koordinator.sh/gpu-isolation-provider=HAMi-core\n"
	 "r " K "gpu.shared=1\nr " K "gpu-core=50\nr " K "gpu-memory-ratio=50",
		"curlimage request=0.5 limit=0.5 memory=50%; "
		"-curlimage/koordinator.sh/gpu-core=50; "
		"-curlimage/koordinator.sh/gpu-memory-ratio=50; "
		"-curlimage/koordinator.sh/gpu.shared=1"},
	{"d koordinator\nl koordinator.sh/gpu-isolation-provider=hami-core\n"
	 "r " K "gpu-shared=1\nr " K "gpu-core=50\nr " K "gpu-memory-ratio=50",
		"main request=0.5 limit=0.5 memory=50%; " NO("gpu-core", "50") "; " NO(
			"gpu-memory-ratio", "50") "; " NO("gpu-shared", "1")},
	{"d koordinator\nm " K "gpu=100\na scheduling.koordinator.sh/gpu-partition-spec={}",
		"main request=1 limit=1 exclusive; " NO("gpu", "100")},
	{"d koordinator\nl quota.scheduling.koordinator.sh/name=q\nm " K "gpu=400",
		"main request=4 limit=1 exclusive; " NO("gpu", "400")},
	{"d koordinator\nm " K "gpu=30", "main request=0.3 limit=1 memory=30%; " NO("gpu", "30")},
	{"d koordinator\nm " K "gpu-memory=8Gi",
		"main request=0.001 limit=1 memory=8Gi; " NO("gpu-memory", "8589934592")},
	{"d koordinator\nm " K "gpu-memory-ratio=60",
		"main request=0.001 limit=1 memory=60%; " NO("gpu-memory-ratio", "60")},
	{"d koordinator\nm " K "gpu-core=10\nm " K "gpu-memory=1Gi\nm " K "gpu.shared=1",
		"main request=0.1 limit=1 memory=1Gi; " NO("gpu-core", "10") "; " NO(
			"gpu-memory", "1073741824") "; " NO("gpu.shared", "1")},
	/* several devices: equal parts, or whole ones */
	{"d koordinator\nm " K "gpu.shared=2\nm " K "gpu-core=100\nm " K "gpu-memory-ratio=60",
		"main request=0.5 limit=1 count=2 memory=30%; " NO("gpu-core", "100") "; " NO(
			"gpu-memory-ratio", "60") "; " NO("gpu.shared", "2")},
	{"d koordinator\nm " K "gpu.shared=2\nm " K "gpu-memory=8Gi",
		"main request=0.001 limit=1 count=2 memory=4Gi; " NO(
			"gpu-memory", "8589934592") "; " NO("gpu.shared", "2")},
	{"d koordinator\nm " K "gpu-core=200\nm " K "gpu-memory-ratio=200",
		"main request=2 limit=1 exclusive; " NO("gpu-core", "200") "; " NO(
			"gpu-memory-ratio", "200")},
	{"d koordinator\nm " K "gpu-core=200\nm " K "gpu-memory=32Gi",
		"main request=2 limit=1 exclusive memory=16Gi; " NO("gpu-core", "200") "; " NO(
			"gpu-memory", "34359738368")},
	{"d koordinator\nm " K "gpu-core=100\nm " K "gpu-memory-ratio=50",
		"main request=1 limit=1 exclusive memory=50%; " NO("gpu-core", "100") "; " NO(
			"gpu-memory-ratio", "50")},
	{"d koordinator\nm " K "gpu-memory-ratio=200",
		"main request=0.001 limit=1 count=2 memory=100%; " NO("gpu-memory-ratio", "200")},
	{"d koordinator\nm " K "gpu=0\nm " K "rdma=100", NO("gpu", "0")},
	{"d koordinator\nc a\nm " K "gpu=50\nc b\nm " K "gpu=100",
		"a request=0.5 limit=1 memory=50%; b request=1 limit=1 exclusive; "
		"-a/koordinator.sh/gpu=50; -b/koordinator.sh/gpu=100"},
	{"m " K "gpu=50", ""},

	{"d koordinator\nm " K "gpu=150", "!koordinator.sh/gpu 150: values above 100 are whole"},
	{"d koordinator\nm " K "gpu=1700", "!koordinator.sh/gpu 1700: expected 0 to 1600"},
	{"d koordinator\nm " K "gpu-core=50",
		"!koordinator.sh/gpu-memory-ratio is missing; koordinator.sh/gpu-core requires it"},
	{"d koordinator\nm " K "gpu.shared=1",
		"!koordinator.sh/gpu-memory-ratio is missing; koordinator.sh/gpu.shared requires it"},
	{"d koordinator\nm " K "gpu=50\nm " K "gpu-core=50",
		"!koordinator.sh/gpu 50 is time and memory"},
	{"d koordinator\nm " K "gpu-memory=1Gi\nm " K "gpu-memory-ratio=50",
		"!koordinator.sh/gpu-memory 1073741824 and koordinator.sh/gpu-memory-ratio 50; keep"},
	{"d koordinator\nm " K "gpu-core=200\nm " K "gpu-memory-ratio=100",
		"!koordinator.sh/gpu-core 200 and koordinator.sh/gpu-memory-ratio 100 are different"},
	{"d koordinator\nm " K "gpu.shared=2\nm " K "gpu-core=51\nm " K "gpu-memory-ratio=50",
		"!koordinator.sh/gpu-core 51 on 2 devices: expected a multiple of 2"},
	{"d koordinator\nm " K "gpu.shared=1\nm " K "gpu-memory-ratio=150",
		"!koordinator.sh/gpu-memory-ratio 150 on 1 devices: expected at most 100"},
	{"d koordinator\nm " K "gpu.shared=1\nm " K "gpu-shared=2\nm " K "gpu-memory-ratio=50",
		"!koordinator.sh/gpu.shared 1 and koordinator.sh/gpu-shared 2; keep one of the two"},
	{"d koordinator\nm " K "gpu-cores=50", "!did you mean koordinator.sh/gpu-core?"},
};

/* NVIDIA's device plugin, README.md, "Shared Access to GPUs". */
static const struct row timeslicing[] = {
	{"d timeslicing=10\nm nvidia.com/gpu.shared=1",
		"main request=0.1 limit=1; -main/nvidia.com/gpu.shared=1"},
	{"d timeslicing=3\nr nvidia.com/gpu.shared=1",
		"main request=0.333 limit=1; -main/nvidia.com/gpu.shared=1"},
	{"d timeslicing=10\nm nvidia.com/gpu.shared=3",
		"main request=0.3 limit=1; -main/nvidia.com/gpu.shared=3"},
	{"d timeslicing=4\nm nvidia.com/gpu.shared=4",
		"main request=1 limit=1 exclusive; -main/nvidia.com/gpu.shared=4"},
	{"d timeslicing=4\nm nvidia.com/gpu.shared=0", "-main/nvidia.com/gpu.shared=0"},
	{"d timeslicing=4\nm nvidia.com/gpu=1", ""},
	{"m nvidia.com/gpu.shared=1", ""},
	{"d timeslicing=4\nm nvidia.com/gpu.shared=5",
		"!container main: nvidia.com/gpu.shared 5: expected 0 to 4"},
};

#define MIG(profile) "d mig\nm nvidia.com/mig-" profile "=1"
#define NO_MIG(profile) "; -main/nvidia.com/mig-" profile "=1"

/* The profiles of NVIDIA's MIG User Guide, as NVIDIA's device plugin names them. */
static const struct row mig[] = {
	{MIG("1g.5gb"), "main request=0.142 limit=0.142 memory=5000000000" NO_MIG("1g.5gb")},
	{MIG("2g.20gb"), "main request=0.285 limit=0.285 memory=19531250Ki" NO_MIG("2g.20gb")},
	{MIG("3g.71gb"), "main request=0.428 limit=0.428 memory=71000000000" NO_MIG("3g.71gb")},
	{MIG("4g.40gb"), "main request=0.571 limit=0.571 memory=39062500Ki" NO_MIG("4g.40gb")},
	{MIG("7g.80gb"), "main request=1 limit=1 exclusive" NO_MIG("7g.80gb")},
	{MIG("1g.10gb.me"), "main request=0.142 limit=0.142 memory=9765625Ki" NO_MIG("1g.10gb.me")},
	{MIG("1g.24gb-me"),
		"main request=0.142 limit=0.142 memory=23437500Ki" NO_MIG("1g.24gb-me")},
	/* four slices */
	{MIG("1g.6gb"), "main request=0.25 limit=0.25 memory=5859375Ki" NO_MIG("1g.6gb")},
	{MIG("2g.48gb.gfx"), "main request=0.5 limit=0.5 memory=46875000Ki" NO_MIG("2g.48gb.gfx")},
	{MIG("4g.24gb"), "main request=1 limit=1 exclusive" NO_MIG("4g.24gb")},
	/* several instances, and replicas of them */
	{"d mig\nr nvidia.com/mig-3g.20gb=2",
		"main request=0.428 limit=0.428 count=2 memory=19531250Ki; "
		"-main/nvidia.com/mig-3g.20gb=2"},
	{"d mig\nr nvidia.com/mig-7g.40gb=2",
		"main request=2 limit=1 exclusive; -main/nvidia.com/mig-7g.40gb=2"},
	{"d mig,timeslicing=4\nm nvidia.com/mig-2g.10gb.shared=1",
		"main request=0.071 limit=0.285 memory=2500000000; "
		"-main/nvidia.com/mig-2g.10gb.shared=1"},
	{"d mig\nm nvidia.com/mig-1g.5gb=0", "-main/nvidia.com/mig-1g.5gb=0"},
	{"d mig\nc a\nm nvidia.com/mig-1g.5gb=1\nc b\nm nvidia.com/mig-7g.40gb=1",
		"a request=0.142 limit=0.142 memory=5000000000; b request=1 limit=1 exclusive; "
		"-a/nvidia.com/mig-1g.5gb=1; -b/nvidia.com/mig-7g.40gb=1"},
	{"m nvidia.com/mig-1g.5gb=1", ""},

	{MIG("2g.10gb.shared"), "!number of replicas of the instance is missing; list the dialect"},
	{"d mig\nm nvidia.com/mig-1g.5gb=1\nm nvidia.com/mig-2g.10gb=1",
		"!container main: nvidia.com/mig-1g.5gb and nvidia.com/mig-2g.10gb; a container has"},
	{MIG("8g.80gb"),
		"!nvidia.com/mig-8g.80gb: unknown profile; expected nvidia.com/mig-Ng.Mgb"},
	{MIG("1g"), "!unknown profile"},
	{MIG("1g.5gbx"), "!unknown profile"},
	{MIG("0g.5gb"), "!unknown profile"},
	{MIG("1g.1025gb"), "!unknown profile; expected nvidia.com/mig-Ng.Mgb with N from 1 to 7"},
	{MIG("1c.3g.20gb"), "!unknown profile"},
	{"d mig\nm nvidia.com/mig-1g.5gb=17", "!nvidia.com/mig-1g.5gb 17: expected 0 to 16"},
};

static void translates_the_other_dialects(void **state)
{
	check(gemini, ARRAY_SIZE(gemini));
	check(gpushare, ARRAY_SIZE(gpushare));
	check(gaiagpu, ARRAY_SIZE(gaiagpu));
	check(deepomatic, ARRAY_SIZE(deepomatic));
	check(hami, ARRAY_SIZE(hami));
	check(wang, ARRAY_SIZE(wang));
	check(nvidia, ARRAY_SIZE(nvidia));
	check(kai, ARRAY_SIZE(kai));
	check(volcano, ARRAY_SIZE(volcano));
	check(koordinator, ARRAY_SIZE(koordinator));
	check(timeslicing, ARRAY_SIZE(timeslicing));
	check(mig, ARRAY_SIZE(mig));
}

static const struct row mixed[] = {
	/* the same request in two dialects is no contradiction */
	{ALL "a divvy.gpu/request=0.5\na divvy.gpu/memory=1Gi\na kubeshare/gpu_request=0.5\n"
	     "a kubeshare/gpu_limit=1.0\na kubeshare/gpu_mem=1073741824",
		"main request=0.5 limit=1 memory=1Gi"},
	{ALL "a divvy.gpu/request=0.4\na divvy.gpu/memory=1Gi\na kubeshare/gpu_request=0.5\n"
	     "a kubeshare/gpu_limit=1.0\na kubeshare/gpu_mem=1073741824",
		"!container main: divvy says 1 x 0.4 limit 1 memory 1Gi standard priority 50, "
		"kubeshare says 1 x 0.5 limit 1 memory 1Gi standard priority 50; keep one of the "
		"two"},
	{ALL "m tencent.com/vcuda-core=30\nm tencent.com/vcuda-memory=1\nm aliyun.com/gpu-mem=256",
		"!container main: gpushare says"},
	{ALL "c a\nc b\nm nvidia.com/gpumem=256\na kubeshare/gpu_request=0.5\n"
	     "a kubeshare/gpu_limit=1.0\na kubeshare/gpu_mem=1Gi",
		"a request=0.5 limit=1 memory=1Gi; b request=0.001 limit=1 memory=256Mi; "
		"-b/nvidia.com/gpumem=256"},
	/* the same in the newer dialects, and containers of several systems */
	{ALL "a divvy.gpu/request=0.5\na gpu-fraction=0.5\na kubeshare/gpu_request=0.5\n"
	     "a kubeshare/gpu_limit=1.0\na kubeshare/gpu_mem=1Gi",
		"!container main: divvy says 1 x 0.5 limit 1 standard priority 50, kubeshare says"},
	{ALL "a divvy.gpu/request=0.5\na gpu-fraction=0.5", "main request=0.5 limit=1"},
	{ALL "a gpu-fraction=0.5\nm nvidia.com/gpumem=256",
		"!container main: hami says 1 x 0.001 limit 1 memory 256Mi standard priority 50, kai "
		"says 1 x 0.5 limit 1 standard priority 50; keep one of the two"},
	{ALL "m nvidia.com/gpu=1\nm nvidia.com/mig-1g.5gb=1",
		"!container main: nvidia says 1 x 1 limit 1 standard priority 50, mig says 1 x 0.142"},
	{ALL "m volcano.sh/vgpu-memory=256\nm nvidia.com/gpumem=256",
		"main request=0.001 limit=1 memory=256Mi; -main/nvidia.com/gpumem=256; "
		"-main/volcano.sh/vgpu-memory=256"},
	{ALL "m volcano.sh/vgpu-memory=256\nm koordinator.sh/gpu-memory=255Mi",
		"!container main: volcano says 1 x 0.001 limit 1 memory 256Mi standard priority 50, "
		"koordinator says 1 x 0.001 limit 1 memory 255Mi"},
	{ALL "c a\nm koordinator.sh/gpu=100\nc b\nm nvidia.com/gpu.shared=1\nc c\n"
	     "m nvidia.com/mig-1g.5gb=1\nc d\nm volcano.sh/vgpu-memory=1\nc e\na gpu-memory=1\n"
	     "a gpu-fraction-container-name=e",
		"a request=1 limit=1 exclusive; b request=0.25 limit=1; c request=0.142 limit=0.142 "
		"memory=5000000000; d request=0.001 limit=1 memory=1Mi; e request=0.001 limit=1 "
		"memory=1Mi; -d/volcano.sh/vgpu-memory=1; -a/koordinator.sh/gpu=100; "
		"-b/nvidia.com/gpu.shared=1; -c/nvidia.com/mig-1g.5gb=1"},
	/* divvy.gpu/container also applies to annotations of other dialects */
	{ALL "c side\nc b\na divvy.gpu/default-container=b\na kubeshare/gpu_request=0.5\n"
	     "a kubeshare/gpu_limit=0.5\na kubeshare/gpu_mem=1024",
		"b request=0.5 limit=0.5 memory=1Ki"},
	/* A foreign resource belongs to its own container. */
	{ALL "c side\nc b\nm nvidia.com/gpu=1\na divvy.gpu/default-container=side",
		"b request=1 limit=1 exclusive; -b/nvidia.com/gpu=1"},
	{ALL "c a\nc b\na divvy.gpu/container=b\na kubeshare/gpu_request=0.5\n"
	     "a kubeshare/gpu_limit=1.0\na kubeshare/gpu_mem=1Gi",
		"b request=0.5 limit=1 memory=1Gi"},
	/* groups of other schedulers */
	{ALL "l scheduling.x-k8s.io/pod-group=nginx\na divvy.gpu/request=0.5",
		"main request=0.5 limit=1; group=nginx 0 1 scheduling.x-k8s.io"},
	{"a scheduling.k8s.io/group-name=podgroup-1\na divvy.gpu/request=0.5",
		"main request=0.5 limit=1; group=podgroup-1 0 1 scheduling.volcano.sh"},
	{"l pod-group.scheduling.sigs.k8s.io=g\na divvy.gpu/request=0.5",
		"main request=0.5 limit=1; group=g 0 1 scheduling.sigs.k8s.io"},
	{"l pod-group.scheduling.sigs.k8s.io/name=nginx\n"
	 "l pod-group.scheduling.sigs.k8s.io/min-available=2\na divvy.gpu/request=0.5",
		"main request=0.5 limit=1; group=nginx 2 1"},
	{"l pod-group.scheduling.sigs.k8s.io/name=nginx\na divvy.gpu/request=0.5",
		"main request=0.5 limit=1"},
	{"l pod-group.scheduling.sigs.k8s.io/name=nginx\n"
	 "l pod-group.scheduling.sigs.k8s.io/min-available=x",
		"!min-available 'x': expected 1 to 65536"},
	{"l scheduling.x-k8s.io/pod-group=g\na divvy.gpu/group=g\na divvy.gpu/group-size=3\n"
	 "a divvy.gpu/group-threshold=0.5",
		"group=g 3 0.5"},
	{"l scheduling.x-k8s.io/pod-group=g\na divvy.gpu/group=g",
		"group=g 0 1 scheduling.x-k8s.io"},
	{"l scheduling.x-k8s.io/pod-group=g\na divvy.gpu/group=h\na divvy.gpu/group-size=3",
		"!scheduling.x-k8s.io/pod-group 'g': the pod is in group 'h' already"},
	{ALL "l sharedgpu/gpu_limit=1\nl sharedgpu/group_name=g\nl sharedgpu/group_headcount=3\n"
	     "l sharedgpu/group_threshold=0.5\na divvy.gpu/group=g\na divvy.gpu/group-size=4",
		"!sharedgpu/group_name 'g': the pod has 4 members with threshold 100%, and 3 with 50%"},
	/* Kubernetes' own group, which the Job controller names beside what users write */
	{"g train-x1\na divvy.gpu/request=0.5",
		"main request=0.5 limit=1; group=train-x1 0 1 scheduling.k8s.io"},
	{"g train-x1", "group=train-x1 0 1 scheduling.k8s.io"},
	{"g \na divvy.gpu/request=0.5", "main request=0.5 limit=1"},
	{"g train-x1\nl scheduling.x-k8s.io/pod-group=g\na divvy.gpu/request=0.5",
		"main request=0.5 limit=1; group=g 0 1 scheduling.x-k8s.io"},
	{"g train-x1\na divvy.gpu/group=h\na divvy.gpu/group-size=3", "group=h 3 1"},
	{ALL "g train-x1\nl sharedgpu/gpu_limit=1\nl sharedgpu/group_name=g\n"
	     "l sharedgpu/group_headcount=3\nl sharedgpu/group_threshold=1",
		"main request=0.001 limit=1 class=opportunistic; group=g 3 1"},
	/* dialects and resources that were recorded at the pod's creation count */
	{"a divvy.gpu/dialects=hami\na divvy.gpu/translated-from=main/nvidia.com/gpumem=100",
		"main request=0.001 limit=1 memory=100Mi; -main/nvidia.com/gpumem=100"},
	{"d hami\na divvy.gpu/dialects=\nm nvidia.com/gpumem=100", ""},
	{"a divvy.gpu/dialects=hami\na divvy.gpu/translated-from=main/nvidia.com/gpumem=100\n"
	 "m nvidia.com/gpumem=200",
		"!nvidia.com/gpumem 200: the pod was created with 100"},
	{"a divvy.gpu/dialects=hami\na divvy.gpu/translated-from=main/nvidia.com/gpumem=many",
		"!divvy.gpu/translated-from: 'many' is not a quantity"},
	{"a divvy.gpu/dialects=kubeshar", "!divvy.gpu/dialects 'kubeshar'"},
	{ALL "n n1\na kubeshare/gpu_request=0.5\na kubeshare/gpu_limit=1\na kubeshare/gpu_mem=1\n"
	     "a kubeshare/GPUID=abcde\na gpushare/gpu_request=0.5\na gpushare/gpu_limit=1\n"
	     "a gpushare/gpu_memory=1\na gpushare/resource_priority=1\na gpushare/GPUID=fghij",
		"!gpushare/GPUID 'fghij': the pod names vGPU 'abcde' already"},
	{ALL "q nvidia.com/gpumem=1\nm nvidia.com/gpumem=2", "!must be equal"},
	{ALL "q nvidia.com/gpumem=x", "!not a quantity"},
};

static void mixed_and_contradictory(void **state)
{
	check(mixed, ARRAY_SIZE(mixed));
}

static void lists_of_dialects(void **state)
{
	static const char *const fine[] = {"", "hami", "gpushare", "gpushare=MiB", "deepomatic=100",
		"volcano", "volcano=1024", "timeslicing=10", NAMES};
	static const struct row wrong[] = {
		{"kubernetes", "expected kubeshare, kubeshare2"},
		{"hami=3", "takes no value"},
		{"gpushare=KiB", "expected GiB or MiB"},
		{"deepomatic=0", "expected 1 to 1000"},
		{"deepomatic=1001", "deepomatic=1001: expected 1 to 1000 containers on a device"},
		{"volcano=65537", "volcano=65537: expected 1 to 65536 MiB in a unit"},
		{"volcano=0", "expected 1 to 65536"},
		{"timeslicing=1001", "expected 1 to 1000 replicas of each device"},
		{"timeslicing",
			"timeslicing: the number of replicas of each device is missing; "
			"write timeslicing=N, with N from 1 to 1000"},
		{"kai=1", "takes no value"},
		{"kubernetes-has-no-dialect-of-this-name-at-all",
			"koordinator, timeslicing or mig"},
		{"=", "expected kubeshare"},
	};
	struct dialect_config config, again;

	for (size_t i = 0; i < ARRAY_SIZE(fine); i++) {
		_cleanup_buf_ struct buf out = BUF_INIT(256);

		assert_ok(dialect_config_parse(str_from(fine[i]), &config, NULL));
		assert_ok(dialect_config_format(&config, &out));
		assert_string_equal(buf_text(&out), fine[i]);
	}
	assert_ok(dialect_config_parse(STR("volcano=1"), &config, NULL));
	assert_int_equal(config.volcano_mib, 1);
	assert_ok(dialect_config_parse(STR(" hami , ,nvidia,"), &config, NULL));
	assert_ok(dialect_config_parse(STR("nvidia,hami"), &again, NULL));
	assert_int_equal(config.enabled, again.enabled);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct error err;

		assert_int_equal(
			dialect_config_parse(str_from(wrong[i].pod), &config, &err), -EINVAL);
		assert_contains(err.msg, wrong[i].means);
	}
}

/* A scheduler of another system is replaced only where the system's dialect is on. */
static void schedulers_belong_to_dialects(void **state)
{
	static const struct {
		const char *dialects, *scheduler;
		bool is_theirs;
	} cases[] = {
		{"kubeshare2", "kubeshare-scheduler", true},
		{"kubeshare", "kubeshare-scheduler", true},
		{"hami", "hami-scheduler", true},
		{"", "hami-scheduler", false},
		{"hami,kai", "kai-scheduler", true},
		{"kai", "runai-scheduler", true},
		{"volcano=10", "volcano", true},
		{"kai", "volcano", false},
		{"koordinator", "koord-scheduler", true},
		{"koordinator", "koord", false},
		{NAMES, "my-scheduler", false},
		{NAMES, "", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct dialect_config config;

		assert_ok(dialect_config_parse(str_from(cases[i].dialects), &config, NULL));
		if (dialect_has_scheduler(&config, str_from(cases[i].scheduler)) !=
			cases[i].is_theirs)
			fail_msg("%s: %s", cases[i].dialects, cases[i].scheduler);
	}
}

/* Notes that the user gets although the pod is not refused. */
static void users_get_notes_without_a_refusal(void **state)
{
	static const struct row rows[] = {
		{"m nvidia.com/gpumem=5", "dialect hami is off"},
		{"a kubeshare/gpu_request=0.5", "dialect kubeshare is off"},
		{"d hami\nm nvidia.com/gpu=1\na hami.io/gpu-scheduler-policy=spread",
			"the cluster's placement policy decides"},
		{"c a\nc b\nd gemini\na gemini/gpu_request=0.1\na gemini/gpu_limit=1\n"
		 "a gemini/gpu_mem=1",
			"only container a gets a share"},
		{"d kubeshare2\nl sharedgpu/gpu_limit=1\nl sharedgpu/group_name=g",
			"joins a group only with all three"},
		{"d kubeshare2\na sharedgpu/gpu_limit=1", "is read as a label only"},
		{"d kubeshare2\nl sharedgpu/gpu_limit=1\nl sharedgpu/colour=red",
			"'sharedgpu/colour' is unknown in dialect kubeshare2"},
		{"d wang\na gpushare/taskid=a/b", "the pod's own name"},
		{"a gpu-fraction=0.5", "dialect kai is off"},
		{"m volcano.sh/vgpu-number=1", "dialect volcano is off"},
		{"m koordinator.sh/gpu=50", "dialect koordinator is off"},
		{"c a\nc b\nd kai\na gpu-fraction=0.5", "only container a gets a share"},
		{"c a\nc b\nd kai\na gpu-fraction=0.5\n"
		 "a nvidia.com/container.b.gpu-memory.limit=4Gi",
			"container a gets no share of a GPU: gpu-fraction applies only to "
			"containers with keys nvidia.com/container.NAME.gpu-memory; write such a "
			"key for container a, too"},
		{"c a\nc b\nc x\nd kai\na gpu-memory=4096\na divvy.gpu/container=b,x\n"
		 "a nvidia.com/container.b.gpu-memory.limit=4Gi",
			"container x gets no share of a GPU: gpu-memory applies only"},
		{"c a\nd kai\na gpu-fraction=0.5\na nvidia.com/container.a.gpu-compute.mode=x",
			"'nvidia.com/container.a.gpu-compute.mode' has no effect"},
		{"d kai\na kai.scheduler/queue=q\na gpu-fraction=0.5",
			"kai.scheduler/queue is read as a label only"},
		{"d koordinator\nm koordinator.sh/gpu=50\n"
		 "a scheduling.koordinator.sh/device-allocate-hint={}",
			"the cluster's placement policy decides"},
		{"d mig\nm nvidia.com/mig-1g.10gb.me=1", "does not divide media and graphics"},
		{"l pod-group.scheduling.sigs.k8s.io/name=g", "has no effect without"},
		{"l divvy.gpu/request=0.5", "divvy.gpu/request is read as an annotation only"},
	};
	_cleanup_dialect_ struct dialect_result quiet;
	_cleanup_free_ char *none = translate(
		"m nvidia.com/gpu=1\nm nvidia.com/gpu.shared=1\nm nvidia.com/mig-1g.5gb=1", &quiet);

	assert_string_equal(none, "");
	assert_int_equal(quiet.n_notes, 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_dialect_ struct dialect_result result;
		_cleanup_free_ char *means = translate(rows[i].pod, &result);

		if (result.n_notes != 1)
			fail_msg("%s: %u notes, %s", rows[i].pod, result.n_notes, means);
		assert_contains(result.note[0], rows[i].means);
	}
}

/* Each upper bound, once at the bound and once above it. */
static void limits(void **state)
{
	char pod[16384];
	size_t n = 0;
	_cleanup_dialect_ struct dialect_result at, above, text, record;
	char *shown;

	for (unsigned int i = 0; i < DIALECT_TENANTS_MAX; i++)
		n += (size_t)snprintf(
			pod + n, sizeof(pod) - n, "c c%u\nm nvidia.com/gpumem=1\n", i);
	snprintf(pod + n, sizeof(pod) - n, "d hami");
	shown = translate(pod, &at);
	assert_int_equal(at.n_tenants, DIALECT_TENANTS_MAX);
	free(shown);
	snprintf(pod + n, sizeof(pod) - n, "c more\nm nvidia.com/gpumem=1\nd hami");
	shown = translate(pod, &above);
	assert_contains(shown, "!the pod has more than 64 containers");
	free(shown);
	n = (size_t)snprintf(pod, sizeof(pod), "a divvy.gpu/request=");
	memset(pod + n, '1', DIALECT_VALUE_MAX);
	pod[n + DIALECT_VALUE_MAX] = '\0';
	shown = translate(pod, &text);
	assert_contains(shown, "!divvy.gpu/request: the value has 512 characters; at most 511");
	free(shown);
	n = (size_t)snprintf(pod, sizeof(pod), "a divvy.gpu/translated-from=");
	memset(pod + n, ',', sizeof(pod) - n - 1);
	pod[sizeof(pod) - 1] = '\0';
	{
		_cleanup_free_ char *huge = calloc(1, 2 * DIALECT_RECORD_MAX);

		memset(huge, ',', DIALECT_RECORD_MAX + n + 1);
		memcpy(huge, pod, n);
		shown = translate(huge, &record);
	}
	assert_contains(
		shown, "!divvy.gpu/translated-from: the value has 16385 characters; at most 16384");
	free(shown);
}

static void the_number_of_container_names_is_limited(void **state)
{
	_cleanup_buf_ struct buf pod = BUF_INIT(4096);
	_cleanup_dialect_ struct dialect_result at, above;
	_cleanup_free_ char *fits = NULL, *does_not = NULL;

	buf_add_text(&pod, "a divvy.gpu/request=0.5\na divvy.gpu/container=main");
	for (unsigned int i = 1; i < MANIFEST_CONTAINERS_MAX; i++)
		buf_add_text(&pod, ",main");
	fits = translate(buf_text(&pod), &at);
	assert_string_equal(fits, "main request=0.5 limit=1");
	buf_add_text(&pod, ",main");
	does_not = translate(buf_text(&pod), &above);
	assert_string_equal(does_not, "!divvy.gpu/container: the list has more than 256 names");
}

/*
 * For quotas a pod needs the most that its containers need at any one time, as Kubernetes computes
 * it.
 */
static void quotas_count_pods_as_kubernetes_does(void **state)
{
	static struct manifest_text t;
	struct dialect_config config;
	_cleanup_dialect_ struct dialect_result result;
	struct dialect_need need;

	manifest_text_parse(
		STR("c prepare init\nm nvidia.com/gpumem=3000\nm nvidia.com/gpucores=90\n"
		    "c log sidecar\nm nvidia.com/gpumem=100\nm nvidia.com/gpucores=10\n"
		    "c a\nm nvidia.com/gpumem=1000\nm nvidia.com/gpucores=30\n"
		    "m nvidia.com/gpu=2\nc b\nc c\nm nvidia.com/gpumem=500\n"),
		&t);
	assert_ok(dialect_config_parse(STR("hami"), &config, NULL));
	assert_ok(dialect_translate(&t.pod, &config, &result, NULL));
	assert_ok(dialect_need(&t.pod, &result, &need, NULL));
	assert_int_equal(need.slots, 3); /* containers log, a and c need a slot each */
	/* init container prepare needs the most; sidecar log starts after it */
	assert_int_equal(need.milli, 900);
	assert_int_equal(need.memory_bytes,
		/*
		 * prepare has 3000 MiB; the other containers together, 100 + 2 x 1000 + 500, are
		 * less
		 */
		UINT64_C(3000) << 20);
}

static void assigned_and_recorded_keys_are_recognised(void **state)
{
	assert_true(dialect_is_assigned(STR("divvy.gpu/devices")));
	assert_true(dialect_is_assigned(STR("main.divvy.gpu/granted-memory")));
	assert_true(dialect_is_assigned(STR("divvy.gpu/granted-by-a-later-release")));
	assert_true(dialect_is_assigned(STR("divvy.gpu/remote-node")));
	assert_false(dialect_is_assigned(STR(DIALECT_RECORD_KEY)));
	assert_true(dialect_is_recorded(STR(DIALECT_RECORD_KEY)));
	assert_true(dialect_is_recorded(STR(DIALECT_LIST_KEY)));
	assert_true(dialect_is_recorded(STR(MANIFEST_DEFAULT_KEY)));
	assert_false(dialect_is_assigned(STR(MANIFEST_DEFAULT_KEY)));
	assert_false(dialect_is_recorded(STR("divvy.gpu/devices")));
	assert_false(dialect_is_assigned(STR("divvy.gpu/request")));
	assert_false(dialect_is_assigned(STR("kubeshare/GPUID")));
	assert_false(dialect_is_assigned(STR("devices")));
	assert_false(dialect_is_assigned(STR("xdivvy.gpu/devices")));
}

/* Every key that the documentation lists as read occurs in one of the pods above. */
static void every_documented_key_has_a_test(void **state)
{
	static const struct {
		const struct row *row;
		size_t n;
	} all[] = {{own, ARRAY_SIZE(own)}, {kubeshare, ARRAY_SIZE(kubeshare)},
		{kubeshare2, ARRAY_SIZE(kubeshare2)}, {gemini, ARRAY_SIZE(gemini)},
		{gpushare, ARRAY_SIZE(gpushare)}, {gaiagpu, ARRAY_SIZE(gaiagpu)},
		{deepomatic, ARRAY_SIZE(deepomatic)}, {hami, ARRAY_SIZE(hami)},
		{wang, ARRAY_SIZE(wang)}, {nvidia, ARRAY_SIZE(nvidia)}, {kai, ARRAY_SIZE(kai)},
		{volcano, ARRAY_SIZE(volcano)}, {koordinator, ARRAY_SIZE(koordinator)},
		{timeslicing, ARRAY_SIZE(timeslicing)}, {mig, ARRAY_SIZE(mig)}};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		for (const struct dialect_key *k = dialect_at(i)->keys; k->key; k++) {
			bool is_tried = k->use == DIALECT_GIVES || k->use == DIALECT_IGNORES;
			char needle[128];

			/* a key that goes on has no '=' behind it */
			snprintf(needle, sizeof(needle), " %s%s", k->key,
				strchr("-_.", k->key[strlen(k->key) - 1]) ? "" : "=");
			for (size_t j = 0; j < all[i].n && !is_tried; j++)
				is_tried = strstr(all[i].row[j].pod, needle);
			if (!is_tried)
				fail_msg("%s: %s", dialect_at(i)->name, k->key);
		}
	assert_null(dialect_at(ARRAY_SIZE(all)));
}

UNIT_MAIN(UNIT(translates_divvys_own_keys), UNIT(translates_kubeshare), UNIT(translates_kubeshare2),
	UNIT(kubeshare2_rounds_as_the_original), UNIT(translates_the_other_dialects),
	UNIT(mixed_and_contradictory), UNIT(lists_of_dialects), UNIT(schedulers_belong_to_dialects),
	UNIT(users_get_notes_without_a_refusal), UNIT(limits),
	UNIT(the_number_of_container_names_is_limited), UNIT(quotas_count_pods_as_kubernetes_does),
	UNIT(assigned_and_recorded_keys_are_recognised), UNIT(every_documented_key_has_a_test))
