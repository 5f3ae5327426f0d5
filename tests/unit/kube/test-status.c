/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "kube/kube-client.h"
#include "kube/status.h"

static void reads_a_status(void **state)
{
	struct kube_status s;

	kube_status_parse(409,
		STR("{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"message\":"
		    "\"pods \\\"a\\\" already exists\",\"reason\":\"AlreadyExists\",\"details\":{"
		    "\"name\":\"a\",\"kind\":\"pods\",\"retryAfterSeconds\":3},\"code\":409}"),
		&s);
	assert_string_equal(s.reason, "AlreadyExists");
	assert_string_equal(s.message, "pods \"a\" already exists");
	assert_string_equal(s.name, "a");
	assert_int_equal(s.retry_after_ns, 3 * NSEC_PER_SEC);
	assert_int_equal(kube_status_errno(&s), -EEXIST);
}

static void messages_leave_out_the_webhooks_name(void **state)
{
#define DENIED "admission webhook \"pods.update.divvy.gpu\" denied the request"
	static const struct {
		const char *message, *sentence;
	} cases[] = {
		{DENIED ": limit: allowed is 0.3 to 1", "limit: allowed is 0.3 to 1"},
		{DENIED ": a: b: \"c\" denied the request: d", "a: b: \"c\" denied the request: d"},
		{DENIED ": ", DENIED ": "},
		{DENIED " without explanation", DENIED " without explanation"},
		{"pods \"a\" is forbidden: exceeded quota: q",
			"pods \"a\" is forbidden: exceeded quota: q"},
		{"", ""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct kube_status s = {0};

		snprintf(s.message, sizeof(s.message), "%s", cases[i].message);
		assert_string_equal(kube_status_sentence(&s), cases[i].sentence);
	}
}

static void errors_of_a_busy_server_are_no_refusal(void **state)
{
	static const struct {
		int http;
		const char *message;
		bool is_refusal;
	} cases[] = {
		{0, "", false},
		{200, "", false},
		{400, DENIED ": no", true},
		{401, "Unauthorized", false},
		{403, DENIED ": no", true},
		{403, "pods \"a\" is forbidden: User \"u\" cannot create pods/binding", true},
		{404, "pods \"a\" not found", false},
		{409, "pod a is already assigned to node \"n\"", false},
		{422, "Binding \"a\" is invalid", true},
		{429, "too many requests", false},
		{500, DENIED ": no", true},
		{500, DENIED " without explanation", true},
		{500, "Internal error occurred: failed calling webhook \"x\": refused", false},
		{500, "etcdserver: request timed out", false},
		{503, "the server is currently unable to handle the request", false},
		{504, "Timeout: request did not complete", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct kube_status s = {.http = cases[i].http};

		snprintf(s.message, sizeof(s.message), "%s", cases[i].message);
		if (kube_status_is_refusal(&s) != cases[i].is_refusal)
			fail_msg("%d %s", s.http, s.message);
	}
}

static void messages_leave_out_the_requests_path(void **state)
{
	static const struct {
		struct kube_status status;
		int result;
		const char *sentence, *explained;
	} cases[] = {
		{{.http = 403, .reason = "Forbidden", .message = "no"}, -EPERM, "no",
			"w: 403 Forbidden: no"},
		{{.http = 502, .message = "bad"}, -EIO, "bad", "w: 502: bad"},
		{{.http = 503}, -EIO, "503: ", "w: 503: "},
		{{.http = 0}, -ECONNREFUSED, "the API server does not answer (Connection refused)",
			"w: the API server does not answer (Connection refused)"},
		{{.http = 200}, 0, "", ""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct kube_answer answer = {.result = cases[i].result,
			.status = cases[i].status,
			.error = {.code = 1, .msg = "POST /api/v1/pods: x"}};
		struct error room, err = {0};

		assert_string_equal(kube_answer_sentence(&answer, &room), cases[i].sentence);
		assert_int_equal(kube_answer_explain(&answer, "w", &err), cases[i].result);
		assert_string_equal(err.msg, cases[i].explained);
	}
}

static void accepts_other_bodies(void **state)
{
	struct kube_status s;

	kube_status_parse(502, STR(" <html>Bad gateway</html>\n"), &s);
	assert_int_equal(s.http, 502);
	assert_string_equal(s.message, "<html>Bad gateway</html>");
	assert_int_equal(kube_status_errno(&s), -EIO);
	kube_status_parse(404, STR("{\"kind\":\"Other\",\"message\":\"x\"}"), &s);
	assert_string_equal(s.message, "");
	assert_int_equal(kube_status_errno(&s), -ENOENT);
	kube_status_parse(429, STR_NONE, &s);
	assert_int_equal(kube_status_errno(&s), -EAGAIN);
}

static void bounds_message_and_delay(void **state)
{
	_cleanup_buf_ struct buf body = BUF_INIT(10000);
	struct kube_status s;

	buf_add_text(&body,
		"{\"kind\":\"Status\",\"details\":{\"retryAfterSeconds\":9000000000000},"
		"\"message\":\"");
	for (int i = 0; i < 4000; i++)
		buf_add_byte(&body, 'm');
	buf_add_text(&body, "\",\"code\":-5}");
	kube_status_parse(503, buf_str(&body), &s);
	assert_int_equal(strlen(s.message), sizeof(s.message) - 1);
	assert_int_equal(s.retry_after_ns, 86400 * NSEC_PER_SEC);
	assert_int_equal(s.http, 503);
}

UNIT_MAIN(UNIT(reads_a_status), UNIT(messages_leave_out_the_webhooks_name),
	UNIT(errors_of_a_busy_server_are_no_refusal), UNIT(messages_leave_out_the_requests_path),
	UNIT(accepts_other_bodies), UNIT(bounds_message_and_delay))
