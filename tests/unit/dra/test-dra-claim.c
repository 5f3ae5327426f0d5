/* SPDX-License-Identifier: Apache-2.0 */
#include "dra/dra-claim.h"

#include <errno.h>

#include "kube/kube-json.h"
#include "unit.h"

#define GIB (UINT64_C(1) << 30)
#define A "GPU-aaaaaaaa-0000-0000-0000-000000000001"
#define B "GPU-bbbbbbbb-0000-0000-0000-000000000002"
#define SHARE_A "share-aaaaaaaa-0000-0000-0000-000000000001"
#define SHARE_B "share-bbbbbbbb-0000-0000-0000-000000000002"
#define GPU_A "gpu-aaaaaaaa-0000-0000-0000-000000000001"

static const struct dra_known known[] = {{A, 80 * GIB}, {B, 80 * GIB}};
static const struct dra_inventory inventory = {"node-1", known, ARRAY_SIZE(known)};

/* A result for a share, as kube-scheduler writes it. */
#define RESULT(request, device, id, share, memory) \
	"{'request':'" request "','driver':'divvy.gpu','pool':'node-1','device':'" device \
	"','shareID':'" id "','consumedCapacity':{'share':'" share "','memory':'" memory "'}}"
#define WHOLE(request, device) \
	"{'request':'" request "','driver':'divvy.gpu','pool':'node-1','device':'" device "'}"
#define POD "{'resource':'pods','name':'trainer-0','uid':'pod-uid'}"

/* Reads a claim with these results and configs. A quote is written as an apostrophe. */
static int read_with(const char *results, const char *configs, const char *reserved,
	const char *uid, struct dra_claim **ret, struct error *err)
{
	_cleanup_buf_ struct buf text = BUF_INIT(1 << 16);
	_cleanup_json_ json_t *object = NULL;

	buf_addf(&text,
		"{'metadata':{'namespace':'team-a','name':'claim','uid':'uid-1'},'status':{"
		"'allocation':{'devices':{'results':[%s],'config':[%s]}},'reservedFor':[%s]}}",
		results, configs, reserved);
	for (size_t i = 0; i < text.n; i++)
		if (text.p[i] == '\'')
			text.p[i] = '"';
	assert_ok(kube_json_parse(buf_str(&text), &object, NULL));
	return dra_claim_read(object, uid, &inventory, ret, err);
}

static int read_results(const char *results, struct dra_claim **ret, struct error *err)
{
	return read_with(results, "", POD, "uid-1", ret, err);
}

static void expect_error(const char *results, int code, const char *part)
{
	struct dra_claim *claim = NULL;
	struct error err;

	assert_int_equal(read_results(results, &claim, &err), -code);
	assert_null(claim);
	assert_contains(err.msg, part);
}

static void devices_are_named_by_uuid(void **state)
{
	char name[DRA_DEVICE];

	assert_true(dra_device_name(DRA_SHARED, A, name));
	assert_string_equal(name, SHARE_A);
	assert_true(dra_device_name(DRA_WHOLE, A, name));
	assert_string_equal(name, GPU_A);
	assert_true(dra_device_name(DRA_SHARED, "MIG-AB", name));
	assert_string_equal(name, "share-mig-ab");
	assert_false(dra_device_name(DRA_SHARED, "", name));
	assert_false(dra_device_name(DRA_SHARED, "GPU-a b", name));
	assert_false(dra_device_name(DRA_SHARED, "GPU-a-", name));
	assert_false(dra_device_name(DRA_SHARED,
		"GPU-0123456789012345678901234567890123456789012345678901234567890", name));
}

static void a_request_is_a_tenant(void **state)
{
	_cleanup_dra_claim_ struct dra_claim *claim = NULL;
	const struct dra_tenant *t;
	struct error err;

	assert_ok(read_results(RESULT("gpu", SHARE_A, "s1", "300", "20Gi"), &claim, &err));
	assert_string_equal(claim->space, "team-a");
	assert_string_equal(claim->name, "claim");
	assert_string_equal(claim->uid, "uid-1");
	assert_string_equal(claim->pod, "trainer-0");
	assert_string_equal(claim->pod_uid, "pod-uid");
	assert_int_equal(claim->n_tenants, 1);
	t = &claim->tenants[0];
	assert_string_equal(t->request, "gpu");
	assert_int_equal(t->slot, DRA_NO_SLOT);
	assert_int_equal(t->spec.request, 300);
	assert_int_equal(t->spec.count, 1);
	assert_false(t->spec.exclusive);
	assert_string_equal(t->places[0].uuid, A);
	assert_int_equal(t->places[0].quota_bytes, 20 * GIB);
	assert_int_equal(claim->n_shares, 1);
	assert_string_equal(claim->shares[0].share_id, "s1");
	assert_string_equal(claim->shares[0].device, SHARE_A);
	assert_int_equal(claim->shares[0].tenant, 0);
}

static void several_requests_are_several_tenants(void **state)
{
	_cleanup_dra_claim_ struct dra_claim *claim = NULL;
	struct error err;

	assert_ok(read_results(RESULT("small", SHARE_A, "s1", "100", "1Gi") "," RESULT(
				       "large/half", SHARE_A, "s2", "500", "40Gi"),
		&claim, &err));
	assert_int_equal(claim->n_tenants, 2);
	assert_string_equal(claim->tenants[0].request, "small");
	assert_string_equal(claim->tenants[1].request, "large");
	assert_string_equal(claim->tenants[1].full_request, "large/half");
	assert_string_equal(claim->shares[1].request, "large/half");
	assert_int_equal(claim->shares[1].tenant, 1);
}

static void devices_of_a_request_are_one_tenant(void **state)
{
	_cleanup_dra_claim_ struct dra_claim *claim = NULL;
	struct error err;

	assert_ok(read_results(RESULT("gpus", SHARE_B, "s1", "250", "10Gi") "," RESULT(
				       "gpus", SHARE_A, "s2", "250", "10Gi"),
		&claim, &err));
	assert_int_equal(claim->n_tenants, 1);
	assert_int_equal(claim->tenants[0].spec.count, 2);
	assert_int_equal(claim->tenants[0].spec.request, 250);
	assert_string_equal(claim->tenants[0].places[0].uuid, B);
	assert_string_equal(claim->tenants[0].places[1].uuid, A);
}

static void shares_of_one_device_add_up(void **state)
{
	_cleanup_dra_claim_ struct dra_claim *claim = NULL;
	struct error err;

	assert_ok(read_results(RESULT("gpus", SHARE_A, "s1", "250", "10Gi") "," RESULT(
				       "gpus", SHARE_A, "s2", "250", "10Gi"),
		&claim, &err));
	assert_int_equal(claim->n_tenants, 1);
	assert_int_equal(claim->n_shares, 2);
	assert_int_equal(claim->tenants[0].spec.count, 1);
	assert_int_equal(claim->tenants[0].spec.request, 500);
	assert_int_equal(claim->tenants[0].places[0].quota_bytes, 20 * GIB);
}

static void unequal_shares_of_a_request_are_refused(void **state)
{
	expect_error(RESULT("gpus", SHARE_A, "s1", "250", "10Gi") "," RESULT("gpus", SHARE_A, "s2",
			     "250", "10Gi") "," RESULT("gpus", SHARE_B, "s3", "250", "10Gi"),
		EINVAL, "distinctAttribute");
}

static void a_whole_device_is_exclusive(void **state)
{
	_cleanup_dra_claim_ struct dra_claim *claim = NULL;
	struct error err;

	assert_ok(read_results(WHOLE("gpu", GPU_A), &claim, &err));
	assert_true(claim->tenants[0].spec.exclusive);
	assert_int_equal(claim->tenants[0].spec.request, SPEC_SHARE_ONE);
	assert_int_equal(claim->tenants[0].places[0].quota_bytes, 80 * GIB);
	assert_string_equal(claim->shares[0].share_id, "");
}

static void other_drivers_results_are_not_ours(void **state)
{
	_cleanup_dra_claim_ struct dra_claim *claim = NULL;
	struct error err;

#define NIC "{'request':'nic','driver':'nic.example','pool':'p','device':'eth0'}"
	assert_ok(read_results(NIC "," RESULT("gpu", SHARE_A, "s1", "300", "20Gi"), &claim, &err));
	assert_int_equal(claim->n_tenants, 1);
	assert_int_equal(claim->n_shares, 1);
	expect_error(NIC, ENODATA, "no device of driver divvy.gpu");
	expect_error("", ENODATA, "no device of driver");
}

static void parameters_set_the_rest(void **state)
{
	_cleanup_dra_claim_ struct dra_claim *claim = NULL;
	struct error err;

	assert_ok(read_with(RESULT("gpu", SHARE_A, "s1", "300", "20Gi"),
		"{'source':'FromClaim','opaque':{'driver':'divvy.gpu','parameters':{'apiVersion':"
		"'divvy.gpu/v1','kind':'ShareConfig','limit':'0.4','class':'latency'}}}",
		POD, "uid-1", &claim, &err));
	assert_int_equal(claim->tenants[0].spec.limit, 400);
	assert_int_equal(claim->tenants[0].spec.class, SPEC_LATENCY);
}

static void values_beyond_the_device_are_refused(void **state)
{
	struct dra_claim *claim = NULL;
	struct error err;

	expect_error(RESULT("gpu", SHARE_A, "s1", "1001", "20Gi"), EINVAL, "1001");
	expect_error(RESULT("gpu", SHARE_A, "s1", "300", "81Gi"), EINVAL, "more than the whole");
	expect_error(RESULT("gpu", SHARE_A, "s1", "0", "1Gi"), EINVAL, "share");
	expect_error(RESULT("gpu", SHARE_A, "s1", "600", "1Gi") "," RESULT(
			     "gpu", SHARE_A, "s2", "600", "1Gi"),
		EINVAL, "more than the whole");
	expect_error(RESULT("gpu", "share-cc", "s1", "300", "1Gi"), ENODEV, "no device share-cc");
	expect_error(WHOLE("gpu", SHARE_A), EINVAL, "lacks its share capacity");
	expect_error("{'request':'gpu','driver':'divvy.gpu','pool':'node-2','device':'" SHARE_A
		     "'}",
		ENODEV, "pool node-2");
	expect_error("{'request':'gpu','driver':'divvy.gpu','pool':'node-1','adminAccess':true,"
		     "'device':'" GPU_A "'}",
		EINVAL, "adminAccess");
	expect_error(
		"{'driver':'divvy.gpu','pool':'node-1','device':'" GPU_A "'}", EINVAL, "request");
	assert_int_equal(read_with(WHOLE("gpu", GPU_A), "", "", "uid-1", &claim, &err), -ENODATA);
	assert_contains(err.msg, "reserved for no pod");
	assert_int_equal(read_with(WHOLE("gpu", GPU_A), "", POD, "uid-2", &claim, &err), -ESTALE);
	assert_contains(err.msg, "uid-1");
}

static void the_number_of_results_has_a_limit(void **state)
{
	_cleanup_buf_ struct buf many = BUF_INIT(1 << 16);

	for (int i = 0; i < 33; i++)
		buf_addf(&many, "%s" RESULT("gpu", SHARE_A, "s1", "1", "2Mi"), i ? "," : "");
	expect_error(buf_text(&many), EINVAL, "more than 32 devices");
}

static void a_pod_names_its_claims_in_three_ways(void **state)
{
	_cleanup_json_ json_t *pod = json_pack(
		"{s:{s:[{s:s, s:s}, {s:s}]}, s:{s:[{s:s, s:s}], s:{s:s}}}", "spec",
		"resourceClaims", "name", "a", "resourceClaimName", "direct", "name", "b", "status",
		"resourceClaimStatuses", "name", "b", "resourceClaimName", "made-7",
		"extendedResourceClaimStatus", "resourceClaimName", "extended-3");

	assert_true(dra_pod_has_claim(pod, "direct"));
	assert_true(dra_pod_has_claim(pod, "made-7"));
	assert_true(dra_pod_has_claim(pod, "extended-3"));
	assert_false(dra_pod_has_claim(pod, "b"));
	assert_false(dra_pod_has_claim(NULL, "direct"));
}

UNIT_MAIN(cmocka_unit_test(devices_are_named_by_uuid), cmocka_unit_test(a_request_is_a_tenant),
	cmocka_unit_test(several_requests_are_several_tenants),
	cmocka_unit_test(devices_of_a_request_are_one_tenant),
	cmocka_unit_test(shares_of_one_device_add_up),
	cmocka_unit_test(unequal_shares_of_a_request_are_refused),
	cmocka_unit_test(a_whole_device_is_exclusive),
	cmocka_unit_test(other_drivers_results_are_not_ours),
	cmocka_unit_test(parameters_set_the_rest),
	cmocka_unit_test(values_beyond_the_device_are_refused),
	cmocka_unit_test(the_number_of_results_has_a_limit),
	cmocka_unit_test(a_pod_names_its_claims_in_three_ways))
