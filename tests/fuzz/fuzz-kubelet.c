/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads text and messages from the kubelet and from /proc. Messages of each type unpack and pack
 * without loss. A cgroup's path gives a pod's uid and a container's id, or neither. Timeouts and
 * messages of gRPC are read too. Input: u8 kind, then the bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "kubelet/cgroup.h"
#include "kubelet/deviceplugin.pb-c.h"
#include "kubelet/grpc-wire.h"
#include "kubelet/podresources.pb-c.h"
#include "kubelet/unpack.h"

static const ProtobufCMessageDescriptor *const types[] = {
	&podres__list_response__descriptor,
	&v1beta1__allocate_request__descriptor,
	&v1beta1__allocate_response__descriptor,
	&v1beta1__list_and_watch_response__descriptor,
	&v1beta1__pre_start_container_request__descriptor,
	&v1beta1__preferred_allocation_request__descriptor,
	&v1beta1__register_request__descriptor,
};

static void try_message(const ProtobufCMessageDescriptor *type, struct str bytes)
{
	_cleanup_message_ ProtobufCMessage *message = unpack(type, bytes);
	_cleanup_message_ ProtobufCMessage *again = NULL;
	_cleanup_buf_ struct buf first = {0}, second = {0};

	if (!message)
		return;
	FUZZ_CHECK(pack(message, &first) == 0);
	again = unpack(type, buf_str(&first));
	/*
	 * protobuf-c unpacks a field number 0 from two bytes, packs it into one byte, and does not
	 * unpack that byte
	 */
	if (!again)
		return;
	FUZZ_CHECK(pack(again, &second) == 0 && str_eq(buf_str(&first), buf_str(&second)));
}

static void try_cgroup(struct str text)
{
	static const char *const roots[] = {NULL, "", "/kubelet", "/kubelet.slice"};
	char root[CGROUP_ROOT_SIZE];
	struct cgroup_pod pod;

	for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
		if (cgroup_parse_pod(text, roots[i], &pod) < 0)
			continue;
		FUZZ_CHECK(strlen(pod.uid) == 36 || strlen(pod.uid) == 32);
		FUZZ_CHECK(!pod.container[0] || strlen(pod.container) == 64);
	}
	if (cgroup_parse_root(text, root) == 0)
		FUZZ_CHECK(cgroup_parse_pod(text, root, &pod) != -ENOENT);
}

static void try_text(struct str text)
{
	_cleanup_buf_ struct buf header = BUF_INIT(1u << 20), back = BUF_INIT(1u << 20);
	char again[GRPC_TIMEOUT_SIZE];
	struct str message;
	uint64_t ns, ns2;

	FUZZ_CHECK(grpc_text_encode(text, &header) == 0);
	FUZZ_CHECK(grpc_text_decode(buf_str(&header), &back) == 0);
	FUZZ_CHECK(str_has_prefix(text, buf_str(&back)));
	buf_clear(&back);
	FUZZ_CHECK(grpc_text_decode(text, &back) == 0 && back.n <= GRPC_TEXT_MAX);
	if (grpc_timeout_parse(text, &ns) == 0) {
		grpc_timeout_format(ns, again);
		FUZZ_CHECK(grpc_timeout_parse(str_from(again), &ns2) == 0 && ns2 >= ns);
	}
	if (grpc_message_take(text, GRPC_MESSAGE_MAX, &message) == 1)
		FUZZ_CHECK(message.n + GRPC_PREFIX == text.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct str bytes;
	char *copy;

	if (!n)
		return 0;
	/* exactly n bytes, so that AddressSanitizer reports a read beyond the input */
	copy = malloc(n);
	if (!copy)
		return 0;
	memcpy(copy, data + 1, n - 1);
	bytes = (struct str){copy, n - 1};
	if (data[0] % 9 < ARRAY_SIZE(types))
		try_message(types[data[0] % 9], bytes);
	else if (data[0] % 9 == 7)
		try_cgroup(bytes);
	else
		try_text(bytes);
	free(copy);
	return 0;
}
