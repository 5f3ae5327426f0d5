/* SPDX-License-Identifier: Apache-2.0 */
/* Reads volumes, claims and storage classes from JSON: see storage.h. */
#include "kuberules/storage.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "fields/read.h"
#include "spec/quantity.h"

/*
 * All volume sources. Those with placement rules have a kind, and `id`: the field that identifies
 * the disk.
 */
static const struct source {
	const char *field;
	enum disk_kind kind;
	const char *id;
} sources[] = {
	{"gcePersistentDisk", DISK_GCE, "pdName"},
	{"awsElasticBlockStore", DISK_EBS, "volumeID"},
	{"azureDisk", DISK_AZURE, "diskName"},
	{"cinder", DISK_CINDER, "volumeID"},
	{"iscsi", DISK_ISCSI, "iqn"},
	{"rbd", DISK_RBD, "image"},
	{"csi", DISK_CSI, "volumeHandle"},
	{"azureFile", 0, NULL},
	{"cephfs", 0, NULL},
	{"configMap", 0, NULL},
	{"downwardAPI", 0, NULL},
	{"emptyDir", 0, NULL},
	{"fc", 0, NULL},
	{"flexVolume", 0, NULL},
	{"flocker", 0, NULL},
	{"gitRepo", 0, NULL},
	{"glusterfs", 0, NULL},
	{"hostPath", 0, NULL},
	{"image", 0, NULL},
	{"local", 0, NULL},
	{"nfs", 0, NULL},
	{"photonPersistentDisk", 0, NULL},
	{"portworxVolume", 0, NULL},
	{"projected", 0, NULL},
	{"quobyte", 0, NULL},
	{"scaleIO", 0, NULL},
	{"secret", 0, NULL},
	{"storageos", 0, NULL},
	{"vsphereVolume", 0, NULL},
};

static const struct source *find_source(const char *field)
{
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
		if (!strcmp(sources[i].field, field))
			return &sources[i];
	return NULL;
}

bool is_volume_source(const char *field)
{
	return find_source(field);
}

static const struct read_field disk_fields[] = {
	READ_FIELD(struct disk, driver, "driver", read_text),
	READ_FIELD(struct disk, pool, "pool", read_text),
	READ_FIELD(struct disk, monitors, "monitors", read_texts),
	READ_FIELD(struct disk, is_read_only, "readOnly", read_bool),
};

int disk_read(struct arena *arena, const char *field, json_t *value, struct disk *ret_disk,
	struct error *err)
{
	const struct source *source = find_source(field);
	struct disk disk = {.id = "", .driver = "", .pool = "rbd"};
	json_t *id;
	int r;

	if (!source || source->kind == DISK_NONE)
		return 0;
	disk.kind = source->kind;
	r = read_some(arena, value, disk_fields, ARRAY_SIZE(disk_fields), &disk, err);
	id = json_object_get(value, source->id);
	if (r == 0 && id) {
		r = read_text(arena, id, &disk.id, err);
		if (r < 0)
			fail_within(err, r, "%s", source->id);
	}
	if (r == 0)
		*ret_disk = disk;
	return r;
}

static const char *const mode_words[] = {"Filesystem", "Block"};

READ_WORD(storage_read_mode, mode_words)

static int storage_read_bytes(struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct str text = {json_string_value(value), json_string_length(value)};

	if (!text.p)
		return fail(err, EINVAL, "is no quantity");
	return quantity_parse_up(text, 1, into, err);
}

/* {"storage": "5Gi"} */
static const struct read_field storage_fields[] = {
	{"storage", storage_read_bytes, 0},
};

READ_SOME(read_storage, uint64_t, storage_fields)

static const struct read_field request_fields[] = {
	{"requests", read_storage, 0},
};

READ_SOME(storage_read_request, uint64_t, request_fields)

static const struct read_field claim_ref_fields[] = {
	READ_FIELD(struct volume, claim_ns, "namespace", read_text),
	READ_FIELD(struct volume, claim_name, "name", read_text),
	READ_FIELD(struct volume, claim_uid, "uid", read_text),
};

static int read_claim_ref(struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct volume *volume = into;

	volume->claim_ns = volume->claim_name = volume->claim_uid = "";
	return read_some(arena, value, claim_ref_fields, ARRAY_SIZE(claim_ref_fields), volume, err);
}

static const struct read_field required_fields[] = {
	{"required", node_terms_read, 0},
};

READ_OBJECT(storage_read_node_affinity, struct node_terms, required_fields)

static const struct read_field volume_spec_fields[] = {
	READ_FIELD(struct volume, access_modes, "accessModes", read_texts),
	READ_FIELD(struct volume, capacity_bytes, "capacity", read_storage),
	{"claimRef", read_claim_ref, 0},
	READ_FIELD(struct volume, nodes, "nodeAffinity", storage_read_node_affinity),
	READ_FIELD(struct volume, class, "storageClassName", read_text),
	READ_FIELD(struct volume, attributes_class, "volumeAttributesClassName", read_text),
	READ_FIELD(struct volume, mode, "volumeMode", storage_read_mode),
	READ_NOTHING("mountOptions"),
	READ_NOTHING("persistentVolumeReclaimPolicy"),
};

/* Reads the spec's own fields by a table of fields; every other field must be a volume source. */
static int read_volume_spec(struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct volume *volume = into;
	const char *field;
	json_t *one;
	int r, first;

	first = read_some(
		arena, value, volume_spec_fields, ARRAY_SIZE(volume_spec_fields), volume, err);
	json_object_foreach(value, field, one) {
		bool is_known = is_volume_source(field);

		for (size_t i = 0; i < ARRAY_SIZE(volume_spec_fields); i++)
			is_known = is_known || !strcmp(volume_spec_fields[i].name, field);
		r = is_known ? disk_read(arena, field, one, &volume->disk, first ? NULL : err)
			     : fail(first ? NULL : err, ENOTSUP,
				       "this scheduler does not know the field");
		if (r < 0 && !first)
			first = fail_within(err, r, "%.64s", field);
	}
	return first;
}

static int read_available(struct arena *arena, json_t *value, void *into, struct error *err)
{
	const char *phase = json_string_value(json_object_get(value, "phase"));

	*(bool *)into = phase && !strcmp(phase, "Available");
	return 0;
}

static const struct read_field volume_fields[] = {
	{"spec", read_volume_spec, 0},
	READ_FIELD(struct volume, is_available, "status", read_available),
};

int volume_read(struct object *object, json_t *json, struct error *err)
{
	struct volume *volume = CONTAINER_OF(object, struct volume, object);
	int r;

	volume->class = volume->attributes_class = "";
	volume->disk = (struct disk){.id = "", .driver = "", .pool = ""};
	r = read_some(&object->arena, json, volume_fields, ARRAY_SIZE(volume_fields), volume, err);
	if (object->class_annotation)
		volume->class = object->class_annotation;
	return r;
}

static const struct read_field claim_spec_fields[] = {
	READ_FIELD(struct claim, access_modes, "accessModes", read_texts),
	READ_FIELD(struct claim, request_bytes, "resources", storage_read_request),
	READ_FIELD(struct claim, selector, "selector", selector_read),
	READ_FIELD(struct claim, class, "storageClassName", read_text),
	READ_FIELD(struct claim, attributes_class, "volumeAttributesClassName", read_text),
	READ_FIELD(struct claim, mode, "volumeMode", storage_read_mode),
	READ_FIELD(struct claim, volume, "volumeName", read_text),
	READ_NOTHING("dataSource"),
	READ_NOTHING("dataSourceRef"),
};

READ_OBJECT(read_claim_spec, struct claim, claim_spec_fields)

static int read_lost(struct arena *arena, json_t *value, void *into, struct error *err)
{
	const char *phase = json_string_value(json_object_get(value, "phase"));

	*(bool *)into = phase && !strcmp(phase, "Lost");
	return 0;
}

static const struct read_field claim_fields[] = {
	{"spec", read_claim_spec, 0},
	READ_FIELD(struct claim, is_lost, "status", read_lost),
};

int claim_read(struct object *object, json_t *json, struct error *err)
{
	struct claim *claim = CONTAINER_OF(object, struct claim, object);
	json_t *spec = json_object_get(json, "spec");
	int r;

	claim->class = claim->attributes_class = claim->volume = "";
	r = read_some(&object->arena, json, claim_fields, ARRAY_SIZE(claim_fields), claim, err);
	claim->has_selector = json_is_object(json_object_get(spec, "selector"));
	if (object->class_annotation)
		claim->class = object->class_annotation;
	return r;
}

static const char *const binding_words[] = {"Immediate", "WaitForFirstConsumer"};

static int read_binding(struct arena *arena, json_t *value, void *into, struct error *err)
{
	int word = 0;
	int r = read_word(value, binding_words, ARRAY_SIZE(binding_words), &word, err);

	*(bool *)into = word == 1;
	return r;
}

static const struct read_field class_fields[] = {
	READ_FIELD(struct storage_class, provisioner, "provisioner", read_text),
	READ_FIELD(struct storage_class, is_delayed, "volumeBindingMode", read_binding),
	READ_FIELD(struct storage_class, topologies, "allowedTopologies", topologies_read),
	READ_NOTHING("apiVersion"),
	READ_NOTHING("kind"),
	READ_NOTHING("metadata"),
	READ_NOTHING("parameters"),
	READ_NOTHING("reclaimPolicy"),
	READ_NOTHING("mountOptions"),
	READ_NOTHING("allowVolumeExpansion"),
};

int class_read(struct object *object, json_t *json, struct error *err)
{
	struct storage_class *class = CONTAINER_OF(object, struct storage_class, object);

	class->provisioner = "";
	return read_fields(
		&object->arena, json, class_fields, ARRAY_SIZE(class_fields), class, err);
}

static const struct read_field count_fields[] = {
	{"count", read_number, 0},
};

READ_SOME(storage_read_count, int64_t, count_fields)

static const struct read_field csi_limit_fields[] = {
	READ_FIELD(struct csi_limit, driver, "name", read_text),
	READ_FIELD(struct csi_limit, count, "allocatable", storage_read_count),
};

static int read_csi_limit(struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct csi_limit *limit = into;

	limit->driver = "";
	limit->count = -1;
	return read_some(arena, value, csi_limit_fields, ARRAY_SIZE(csi_limit_fields), limit, err);
}

READ_LIST(read_csi_limits, struct csi_limit, read_csi_limit)

static const struct read_field csi_node_spec_fields[] = {
	READ_FIELD(struct csi_node, drivers, "drivers", read_csi_limits),
};

int csi_node_read(struct object *object, json_t *json, struct error *err)
{
	return read_some(&object->arena, json_object_get(json, "spec"), csi_node_spec_fields,
		ARRAY_SIZE(csi_node_spec_fields), object, err);
}

static const struct read_field csi_driver_spec_fields[] = {
	READ_FIELD(struct csi_driver, has_capacities, "storageCapacity", read_bool),
	READ_FIELD(struct csi_driver, is_mandatory, "preventPodSchedulingIfMissing", read_bool),
};

int csi_driver_read(struct object *object, json_t *json, struct error *err)
{
	return read_some(&object->arena, json_object_get(json, "spec"), csi_driver_spec_fields,
		ARRAY_SIZE(csi_driver_spec_fields), object, err);
}

static const struct read_field attachment_source_fields[] = {
	{"persistentVolumeName", read_text, 0},
};

READ_SOME(storage_read_attached, const char *, attachment_source_fields)

static const struct read_field attachment_fields[] = {
	READ_FIELD(struct attachment, driver, "attacher", read_text),
	READ_FIELD(struct attachment, node, "nodeName", read_text),
	READ_FIELD(struct attachment, volume, "source", storage_read_attached),
};

int attachment_read(struct object *object, json_t *json, struct error *err)
{
	struct attachment *attachment = CONTAINER_OF(object, struct attachment, object);

	attachment->driver = attachment->node = attachment->volume = "";
	return read_some(&object->arena, json_object_get(json, "spec"), attachment_fields,
		ARRAY_SIZE(attachment_fields), object, err);
}

static const struct read_field csi_capacity_fields[] = {
	READ_FIELD(struct csi_capacity, class, "storageClassName", read_text),
	READ_FIELD(struct csi_capacity, nodes, "nodeTopology", selector_read),
	READ_FIELD(struct csi_capacity, bytes, "capacity", storage_read_bytes),
};

/* The table is read after the capacity, which the object's maximumVolumeSize replaces. */
static const struct read_field csi_largest_fields[] = {
	READ_FIELD(struct csi_capacity, bytes, "maximumVolumeSize", storage_read_bytes),
};

int csi_capacity_read(struct object *object, json_t *json, struct error *err)
{
	struct csi_capacity *capacity = CONTAINER_OF(object, struct csi_capacity, object);
	int r;

	capacity->class = "";
	capacity->bytes = -1;
	r = read_some(&object->arena, json, csi_capacity_fields, ARRAY_SIZE(csi_capacity_fields),
		capacity, err);
	if (r == 0)
		r = read_some(&object->arena, json, csi_largest_fields,
			ARRAY_SIZE(csi_largest_fields), capacity, err);
	return r;
}
