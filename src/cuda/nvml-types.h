/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types of NVML (driver branches up to 580): handles, result codes, enums, structs and
 * constants with their documented names, numbers and layouts. Names end in _t as in the
 * documentation. A struct that divvy only passes through stays incomplete. A struct whose first
 * member is `version` carries its size and version there: NVML_STRUCT_VERSION.
 */
/* clang-format off */
#ifndef CUDA_NVML_TYPES_H
#define CUDA_NVML_TYPES_H

/* The value that callers put into the member `version` of nvml<name>_v<n>_t. */
#define NVML_STRUCT_VERSION(name, n) \
	((unsigned int)(sizeof(nvml##name##_v##n##_t) | ((unsigned int)(n) << 24)))

/* ---- handles ---- */
typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct nvmlUnit_st *nvmlUnit_t;
typedef struct nvmlEventSet_st *nvmlEventSet_t;
typedef struct nvmlGpuInstance_st *nvmlGpuInstance_t;
typedef struct nvmlComputeInstance_st *nvmlComputeInstance_t;
typedef struct nvmlGpmSample_st *nvmlGpmSample_t;
typedef unsigned int nvmlFanControlPolicy_t;
typedef struct nvmlSystemEventSet_st *nvmlSystemEventSet_t;
typedef unsigned int nvmlVgpuTypeId_t;
typedef unsigned int nvmlVgpuInstance_t;
typedef unsigned int nvmlDeviceArchitecture_t;
typedef unsigned int nvmlBusType_t;
typedef unsigned int nvmlPowerSource_t;
typedef unsigned int nvmlAffinityScope_t;
typedef unsigned int nvmlDeviceVgpuCapability_t;
typedef unsigned int nvmlVgpuDriverCapability_t;

/* ---- enums ---- */
typedef enum nvmlBridgeChipType_enum {
	NVML_BRIDGE_CHIP_PLX = 0, NVML_BRIDGE_CHIP_BRO4 = 1
} nvmlBridgeChipType_t;
typedef enum nvmlNvLinkUtilizationCountUnits_enum {
	NVML_NVLINK_COUNTER_UNIT_CYCLES = 0, NVML_NVLINK_COUNTER_UNIT_PACKETS = 1,
	NVML_NVLINK_COUNTER_UNIT_BYTES = 2, NVML_NVLINK_COUNTER_UNIT_RESERVED = 3,
	NVML_NVLINK_COUNTER_UNIT_COUNT = 4
} nvmlNvLinkUtilizationCountUnits_t;
typedef enum nvmlNvLinkUtilizationCountPktTypes_enum {
	NVML_NVLINK_COUNTER_PKTFILTER_NOP = 1, NVML_NVLINK_COUNTER_PKTFILTER_READ = 2,
	NVML_NVLINK_COUNTER_PKTFILTER_WRITE = 4, NVML_NVLINK_COUNTER_PKTFILTER_RATOM = 8,
	NVML_NVLINK_COUNTER_PKTFILTER_NRATOM = 16, NVML_NVLINK_COUNTER_PKTFILTER_FLUSH = 32,
	NVML_NVLINK_COUNTER_PKTFILTER_RESPDATA = 64,
	NVML_NVLINK_COUNTER_PKTFILTER_RESPNODATA = 128, NVML_NVLINK_COUNTER_PKTFILTER_ALL = 255
} nvmlNvLinkUtilizationCountPktTypes_t;
typedef enum nvmlNvLinkCapability_enum {
	NVML_NVLINK_CAP_P2P_SUPPORTED = 0, NVML_NVLINK_CAP_SYSMEM_ACCESS = 1,
	NVML_NVLINK_CAP_P2P_ATOMICS = 2, NVML_NVLINK_CAP_SYSMEM_ATOMICS = 3,
	NVML_NVLINK_CAP_SLI_BRIDGE = 4, NVML_NVLINK_CAP_VALID = 5, NVML_NVLINK_CAP_COUNT = 6
} nvmlNvLinkCapability_t;
typedef enum nvmlNvLinkErrorCounter_enum {
	NVML_NVLINK_ERROR_DL_REPLAY = 0, NVML_NVLINK_ERROR_DL_RECOVERY = 1,
	NVML_NVLINK_ERROR_DL_CRC_FLIT = 2, NVML_NVLINK_ERROR_DL_CRC_DATA = 3,
	NVML_NVLINK_ERROR_DL_ECC_DATA = 4, NVML_NVLINK_ERROR_COUNT = 5
} nvmlNvLinkErrorCounter_t;
typedef enum nvmlIntNvLinkDeviceType_enum {
	NVML_NVLINK_DEVICE_TYPE_GPU = 0, NVML_NVLINK_DEVICE_TYPE_IBMNPU = 1,
	NVML_NVLINK_DEVICE_TYPE_SWITCH = 2, NVML_NVLINK_DEVICE_TYPE_UNKNOWN = 255
} nvmlIntNvLinkDeviceType_t;
typedef enum nvmlGpuLevel_enum {
	NVML_TOPOLOGY_INTERNAL = 0, NVML_TOPOLOGY_SINGLE = 10, NVML_TOPOLOGY_MULTIPLE = 20,
	NVML_TOPOLOGY_HOSTBRIDGE = 30, NVML_TOPOLOGY_NODE = 40, NVML_TOPOLOGY_SYSTEM = 50
} nvmlGpuTopologyLevel_t;
typedef enum nvmlGpuP2PStatus_enum {
	NVML_P2P_STATUS_OK = 0, NVML_P2P_STATUS_CHIPSET_NOT_SUPPORED = 1,
	NVML_P2P_STATUS_GPU_NOT_SUPPORTED = 2, NVML_P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED = 3,
	NVML_P2P_STATUS_DISABLED_BY_REGKEY = 4, NVML_P2P_STATUS_NOT_SUPPORTED = 5,
	NVML_P2P_STATUS_UNKNOWN = 6
} nvmlGpuP2PStatus_t;
typedef enum nvmlGpuP2PCapsIndex_enum {
	NVML_P2P_CAPS_INDEX_READ = 0, NVML_P2P_CAPS_INDEX_WRITE = 1,
	NVML_P2P_CAPS_INDEX_NVLINK = 2, NVML_P2P_CAPS_INDEX_ATOMICS = 3,
	NVML_P2P_CAPS_INDEX_PROP = 4, NVML_P2P_CAPS_INDEX_UNKNOWN = 5
} nvmlGpuP2PCapsIndex_t;
typedef enum nvmlSamplingType_enum {
	NVML_TOTAL_POWER_SAMPLES = 0, NVML_GPU_UTILIZATION_SAMPLES = 1,
	NVML_MEMORY_UTILIZATION_SAMPLES = 2, NVML_ENC_UTILIZATION_SAMPLES = 3,
	NVML_DEC_UTILIZATION_SAMPLES = 4, NVML_PROCESSOR_CLK_SAMPLES = 5,
	NVML_MEMORY_CLK_SAMPLES = 6, NVML_SAMPLINGTYPE_COUNT = 7
} nvmlSamplingType_t;
typedef enum nvmlPcieUtilCounter_enum {
	NVML_PCIE_UTIL_TX_BYTES = 0, NVML_PCIE_UTIL_RX_BYTES = 1, NVML_PCIE_UTIL_COUNT = 2
} nvmlPcieUtilCounter_t;
typedef enum nvmlValueType_enum {
	NVML_VALUE_TYPE_DOUBLE = 0, NVML_VALUE_TYPE_UNSIGNED_INT = 1,
	NVML_VALUE_TYPE_UNSIGNED_LONG = 2, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG = 3,
	NVML_VALUE_TYPE_SIGNED_LONG_LONG = 4, NVML_VALUE_TYPE_SIGNED_INT = 5,
	NVML_VALUE_TYPE_UNSIGNED_SHORT = 6, NVML_VALUE_TYPE_COUNT = 7
} nvmlValueType_t;
typedef enum nvmlPerfPolicyType_enum {
	NVML_PERF_POLICY_POWER = 0, NVML_PERF_POLICY_THERMAL = 1, NVML_PERF_POLICY_SYNC_BOOST = 2,
	NVML_PERF_POLICY_BOARD_LIMIT = 3, NVML_PERF_POLICY_LOW_UTILIZATION = 4,
	NVML_PERF_POLICY_RELIABILITY = 5, NVML_PERF_POLICY_TOTAL_APP_CLOCKS = 10,
	NVML_PERF_POLICY_TOTAL_BASE_CLOCKS = 11, NVML_PERF_POLICY_COUNT = 12
} nvmlPerfPolicyType_t;
typedef enum nvmlThermalTarget_enum {
	NVML_THERMAL_TARGET_NONE = 0, NVML_THERMAL_TARGET_GPU = 1, NVML_THERMAL_TARGET_MEMORY = 2,
	NVML_THERMAL_TARGET_POWER_SUPPLY = 4, NVML_THERMAL_TARGET_BOARD = 8,
	NVML_THERMAL_TARGET_VCD_BOARD = 9, NVML_THERMAL_TARGET_VCD_INLET = 10,
	NVML_THERMAL_TARGET_VCD_OUTLET = 11, NVML_THERMAL_TARGET_ALL = 15,
	NVML_THERMAL_TARGET_UNKNOWN = -1
} nvmlThermalTarget_t;
typedef enum nvmlThermalController_enum {
	NVML_THERMAL_CONTROLLER_NONE = 0, NVML_THERMAL_CONTROLLER_GPU_INTERNAL = 1,
	NVML_THERMAL_CONTROLLER_ADM1032 = 2, NVML_THERMAL_CONTROLLER_ADT7461 = 3,
	NVML_THERMAL_CONTROLLER_MAX6649 = 4, NVML_THERMAL_CONTROLLER_MAX1617 = 5,
	NVML_THERMAL_CONTROLLER_LM99 = 6, NVML_THERMAL_CONTROLLER_LM89 = 7,
	NVML_THERMAL_CONTROLLER_LM64 = 8, NVML_THERMAL_CONTROLLER_G781 = 9,
	NVML_THERMAL_CONTROLLER_ADT7473 = 10, NVML_THERMAL_CONTROLLER_SBMAX6649 = 11,
	NVML_THERMAL_CONTROLLER_VBIOSEVT = 12, NVML_THERMAL_CONTROLLER_OS = 13,
	NVML_THERMAL_CONTROLLER_NVSYSCON_CANOAS = 14, NVML_THERMAL_CONTROLLER_NVSYSCON_E551 = 15,
	NVML_THERMAL_CONTROLLER_MAX6649R = 16, NVML_THERMAL_CONTROLLER_ADT7473S = 17,
	NVML_THERMAL_CONTROLLER_UNKNOWN = -1
} nvmlThermalController_t;
typedef enum nvmlEnableState_enum {
	NVML_FEATURE_DISABLED = 0, NVML_FEATURE_ENABLED = 1
} nvmlEnableState_t;
typedef enum nvmlBrandType_enum {
	NVML_BRAND_UNKNOWN = 0, NVML_BRAND_QUADRO = 1, NVML_BRAND_TESLA = 2, NVML_BRAND_NVS = 3,
	NVML_BRAND_GRID = 4, NVML_BRAND_GEFORCE = 5, NVML_BRAND_TITAN = 6,
	NVML_BRAND_NVIDIA_VAPPS = 7, NVML_BRAND_NVIDIA_VPC = 8, NVML_BRAND_NVIDIA_VCS = 9,
	NVML_BRAND_NVIDIA_VWS = 10, NVML_BRAND_NVIDIA_CLOUD_GAMING = 11,
	NVML_BRAND_NVIDIA_VGAMING = 11, NVML_BRAND_QUADRO_RTX = 12, NVML_BRAND_NVIDIA_RTX = 13,
	NVML_BRAND_NVIDIA = 14, NVML_BRAND_GEFORCE_RTX = 15, NVML_BRAND_TITAN_RTX = 16,
	NVML_BRAND_COUNT = 17
} nvmlBrandType_t;
typedef enum nvmlTemperatureThresholds_enum {
	NVML_TEMPERATURE_THRESHOLD_SHUTDOWN = 0, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN = 1,
	NVML_TEMPERATURE_THRESHOLD_MEM_MAX = 2, NVML_TEMPERATURE_THRESHOLD_GPU_MAX = 3,
	NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_MIN = 4, NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_CURR = 5,
	NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_MAX = 6, NVML_TEMPERATURE_THRESHOLD_COUNT = 7
} nvmlTemperatureThresholds_t;
typedef enum nvmlTemperatureSensors_enum {
	NVML_TEMPERATURE_GPU = 0, NVML_TEMPERATURE_COUNT = 1
} nvmlTemperatureSensors_t;
typedef enum nvmlComputeMode_enum {
	NVML_COMPUTEMODE_DEFAULT = 0, NVML_COMPUTEMODE_EXCLUSIVE_THREAD = 1,
	NVML_COMPUTEMODE_PROHIBITED = 2, NVML_COMPUTEMODE_EXCLUSIVE_PROCESS = 3,
	NVML_COMPUTEMODE_COUNT = 4
} nvmlComputeMode_t;
typedef enum nvmlMemoryErrorType_enum {
	NVML_MEMORY_ERROR_TYPE_CORRECTED = 0, NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1,
	NVML_MEMORY_ERROR_TYPE_COUNT = 2
} nvmlMemoryErrorType_t;
typedef enum nvmlEccCounterType_enum {
	NVML_VOLATILE_ECC = 0, NVML_AGGREGATE_ECC = 1, NVML_ECC_COUNTER_TYPE_COUNT = 2
} nvmlEccCounterType_t;
typedef enum nvmlClockType_enum {
	NVML_CLOCK_GRAPHICS = 0, NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2, NVML_CLOCK_VIDEO = 3,
	NVML_CLOCK_COUNT = 4
} nvmlClockType_t;
typedef enum nvmlClockId_enum {
	NVML_CLOCK_ID_CURRENT = 0, NVML_CLOCK_ID_APP_CLOCK_TARGET = 1,
	NVML_CLOCK_ID_APP_CLOCK_DEFAULT = 2, NVML_CLOCK_ID_CUSTOMER_BOOST_MAX = 3,
	NVML_CLOCK_ID_COUNT = 4
} nvmlClockId_t;
typedef enum nvmlDriverModel_enum {
	NVML_DRIVER_WDDM = 0, NVML_DRIVER_WDM = 1
} nvmlDriverModel_t;
typedef enum nvmlPStates_enum {
	NVML_PSTATE_0 = 0, NVML_PSTATE_1 = 1, NVML_PSTATE_2 = 2, NVML_PSTATE_3 = 3,
	NVML_PSTATE_4 = 4, NVML_PSTATE_5 = 5, NVML_PSTATE_6 = 6, NVML_PSTATE_7 = 7,
	NVML_PSTATE_8 = 8, NVML_PSTATE_9 = 9, NVML_PSTATE_10 = 10, NVML_PSTATE_11 = 11,
	NVML_PSTATE_12 = 12, NVML_PSTATE_13 = 13, NVML_PSTATE_14 = 14, NVML_PSTATE_15 = 15,
	NVML_PSTATE_UNKNOWN = 32
} nvmlPstates_t;
typedef enum nvmlGom_enum {
	NVML_GOM_ALL_ON = 0, NVML_GOM_COMPUTE = 1, NVML_GOM_LOW_DP = 2
} nvmlGpuOperationMode_t;
typedef enum nvmlInforomObject_enum {
	NVML_INFOROM_OEM = 0, NVML_INFOROM_ECC = 1, NVML_INFOROM_POWER = 2, NVML_INFOROM_COUNT = 3
} nvmlInforomObject_t;
typedef enum nvmlReturn_enum {
	NVML_SUCCESS = 0, NVML_ERROR_UNINITIALIZED = 1, NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3, NVML_ERROR_NO_PERMISSION = 4,
	NVML_ERROR_ALREADY_INITIALIZED = 5, NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7, NVML_ERROR_INSUFFICIENT_POWER = 8,
	NVML_ERROR_DRIVER_NOT_LOADED = 9, NVML_ERROR_TIMEOUT = 10, NVML_ERROR_IRQ_ISSUE = 11,
	NVML_ERROR_LIBRARY_NOT_FOUND = 12, NVML_ERROR_FUNCTION_NOT_FOUND = 13,
	NVML_ERROR_CORRUPTED_INFOROM = 14, NVML_ERROR_GPU_IS_LOST = 15,
	NVML_ERROR_RESET_REQUIRED = 16, NVML_ERROR_OPERATING_SYSTEM = 17,
	NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18, NVML_ERROR_IN_USE = 19, NVML_ERROR_MEMORY = 20,
	NVML_ERROR_NO_DATA = 21, NVML_ERROR_VGPU_ECC_NOT_SUPPORTED = 22,
	NVML_ERROR_INSUFFICIENT_RESOURCES = 23, NVML_ERROR_FREQ_NOT_SUPPORTED = 24,
	NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25, NVML_ERROR_DEPRECATED = 26,
	NVML_ERROR_NOT_READY = 27, NVML_ERROR_GPU_NOT_FOUND = 28, NVML_ERROR_INVALID_STATE = 29,
	NVML_ERROR_RESET_TYPE_NOT_SUPPORTED = 30, NVML_ERROR_UNKNOWN = 999
} nvmlReturn_t;
typedef enum nvmlMemoryLocation_enum {
	NVML_MEMORY_LOCATION_L1_CACHE = 0, NVML_MEMORY_LOCATION_L2_CACHE = 1,
	NVML_MEMORY_LOCATION_DRAM = 2, NVML_MEMORY_LOCATION_DEVICE_MEMORY = 2,
	NVML_MEMORY_LOCATION_REGISTER_FILE = 3, NVML_MEMORY_LOCATION_TEXTURE_MEMORY = 4,
	NVML_MEMORY_LOCATION_TEXTURE_SHM = 5, NVML_MEMORY_LOCATION_CBU = 6,
	NVML_MEMORY_LOCATION_SRAM = 7, NVML_MEMORY_LOCATION_COUNT = 8
} nvmlMemoryLocation_t;
typedef enum nvmlPageRetirementCause_enum {
	NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS = 0,
	NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR = 1, NVML_PAGE_RETIREMENT_CAUSE_COUNT = 2
} nvmlPageRetirementCause_t;
typedef enum nvmlRestrictedAPI_enum {
	NVML_RESTRICTED_API_SET_APPLICATION_CLOCKS = 0,
	NVML_RESTRICTED_API_SET_AUTO_BOOSTED_CLOCKS = 1, NVML_RESTRICTED_API_COUNT = 2
} nvmlRestrictedAPI_t;
typedef enum nvmlGpuVirtualizationMode {
	NVML_GPU_VIRTUALIZATION_MODE_NONE = 0, NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH = 1,
	NVML_GPU_VIRTUALIZATION_MODE_VGPU = 2, NVML_GPU_VIRTUALIZATION_MODE_HOST_VGPU = 3,
	NVML_GPU_VIRTUALIZATION_MODE_HOST_VSGA = 4
} nvmlGpuVirtualizationMode_t;
typedef enum nvmlHostVgpuMode_enum {
	NVML_HOST_VGPU_MODE_NON_SRIOV = 0, NVML_HOST_VGPU_MODE_SRIOV = 1
} nvmlHostVgpuMode_t;
typedef enum nvmlVgpuVmIdType {
	NVML_VGPU_VM_ID_DOMAIN_ID = 0, NVML_VGPU_VM_ID_UUID = 1
} nvmlVgpuVmIdType_t;
typedef enum nvmlVgpuGuestInfoState_enum {
	NVML_VGPU_INSTANCE_GUEST_INFO_STATE_UNINITIALIZED = 0,
	NVML_VGPU_INSTANCE_GUEST_INFO_STATE_INITIALIZED = 1
} nvmlVgpuGuestInfoState_t;
typedef enum nvmlGridLicenseFeatureCode_enum {
	NVML_GRID_LICENSE_FEATURE_CODE_UNKNOWN = 0, NVML_GRID_LICENSE_FEATURE_CODE_VGPU = 1,
	NVML_GRID_LICENSE_FEATURE_CODE_NVIDIA_RTX = 2,
	NVML_GRID_LICENSE_FEATURE_CODE_VWORKSTATION = 2,
	NVML_GRID_LICENSE_FEATURE_CODE_GAMING = 3, NVML_GRID_LICENSE_FEATURE_CODE_COMPUTE = 4
} nvmlGridLicenseFeatureCode_t;
typedef enum nvmlVgpuCapability_enum {
	NVML_VGPU_CAP_NVLINK_P2P = 0, NVML_VGPU_CAP_GPUDIRECT = 1, NVML_VGPU_CAP_COUNT = 2
} nvmlVgpuCapability_t;
typedef enum nvmlGpuUtilizationDomainId_enum {
	NVML_GPU_UTILIZATION_DOMAIN_GPU = 0, NVML_GPU_UTILIZATION_DOMAIN_FB = 1,
	NVML_GPU_UTILIZATION_DOMAIN_VID = 2, NVML_GPU_UTILIZATION_DOMAIN_BUS = 3
} nvmlGpuUtilizationDomainId_t;
typedef enum nvmlFanState_enum {
	NVML_FAN_NORMAL = 0, NVML_FAN_FAILED = 1
} nvmlFanState_t;
typedef enum nvmlLedColor_enum {
	NVML_LED_COLOR_GREEN = 0, NVML_LED_COLOR_AMBER = 1
} nvmlLedColor_t;
typedef enum nvmlEncoderQueryType_enum {
	NVML_ENCODER_QUERY_H264 = 0, NVML_ENCODER_QUERY_HEVC = 1
} nvmlEncoderType_t;
typedef enum nvmlFBCSessionType_enum {
	NVML_FBC_SESSION_TYPE_UNKNOWN = 0, NVML_FBC_SESSION_TYPE_TOSYS = 1,
	NVML_FBC_SESSION_TYPE_CUDA = 2, NVML_FBC_SESSION_TYPE_VID = 3,
	NVML_FBC_SESSION_TYPE_HWENC = 4
} nvmlFBCSessionType_t;
typedef enum nvmlDetachGpuState_enum {
	NVML_DETACH_GPU_KEEP = 0, NVML_DETACH_GPU_REMOVE = 1
} nvmlDetachGpuState_t;
typedef enum nvmlPcieLinkState_enum {
	NVML_PCIE_LINK_KEEP = 0, NVML_PCIE_LINK_SHUT_DOWN = 1
} nvmlPcieLinkState_t;
typedef enum nvmlClockLimitId_enum {
	NVML_CLOCK_LIMIT_ID_RANGE_START = 0xffffff00u, NVML_CLOCK_LIMIT_ID_TDP = 0xffffff01u,
	NVML_CLOCK_LIMIT_ID_UNLIMITED = 0xffffff02u
} nvmlClockLimitId_t;
typedef enum nvmlVgpuVmCompatibility_enum {
	NVML_VGPU_VM_COMPATIBILITY_NONE = 0, NVML_VGPU_VM_COMPATIBILITY_COLD = 1,
	NVML_VGPU_VM_COMPATIBILITY_HIBERNATE = 2, NVML_VGPU_VM_COMPATIBILITY_SLEEP = 4,
	NVML_VGPU_VM_COMPATIBILITY_LIVE = 8
} nvmlVgpuVmCompatibility_t;
typedef enum nvmlVgpuPgpuCompatibilityLimitCode_enum {
	NVML_VGPU_COMPATIBILITY_LIMIT_NONE = 0, NVML_VGPU_COMPATIBILITY_LIMIT_HOST_DRIVER = 1,
	NVML_VGPU_COMPATIBILITY_LIMIT_GUEST_DRIVER = 2, NVML_VGPU_COMPATIBILITY_LIMIT_GPU = 4,
	NVML_VGPU_COMPATIBILITY_LIMIT_OTHER = 0x80000000u
} nvmlVgpuPgpuCompatibilityLimitCode_t;
typedef enum nvmlGpmMetricId_enum {
	NVML_GPM_METRIC_GRAPHICS_UTIL = 1, NVML_GPM_METRIC_SM_UTIL = 2,
	NVML_GPM_METRIC_SM_OCCUPANCY = 3, NVML_GPM_METRIC_INTEGER_UTIL = 4,
	NVML_GPM_METRIC_ANY_TENSOR_UTIL = 5, NVML_GPM_METRIC_DFMA_TENSOR_UTIL = 6,
	NVML_GPM_METRIC_HMMA_TENSOR_UTIL = 7, NVML_GPM_METRIC_IMMA_TENSOR_UTIL = 9,
	NVML_GPM_METRIC_DRAM_BW_UTIL = 10, NVML_GPM_METRIC_FP64_UTIL = 11,
	NVML_GPM_METRIC_FP32_UTIL = 12, NVML_GPM_METRIC_FP16_UTIL = 13,
	NVML_GPM_METRIC_PCIE_TX_PER_SEC = 20, NVML_GPM_METRIC_PCIE_RX_PER_SEC = 21,
	NVML_GPM_METRIC_NVDEC_0_UTIL = 30, NVML_GPM_METRIC_NVDEC_1_UTIL = 31,
	NVML_GPM_METRIC_NVDEC_2_UTIL = 32, NVML_GPM_METRIC_NVDEC_3_UTIL = 33,
	NVML_GPM_METRIC_NVDEC_4_UTIL = 34, NVML_GPM_METRIC_NVDEC_5_UTIL = 35,
	NVML_GPM_METRIC_NVDEC_6_UTIL = 36, NVML_GPM_METRIC_NVDEC_7_UTIL = 37,
	NVML_GPM_METRIC_NVJPG_0_UTIL = 40, NVML_GPM_METRIC_NVJPG_1_UTIL = 41,
	NVML_GPM_METRIC_NVJPG_2_UTIL = 42, NVML_GPM_METRIC_NVJPG_3_UTIL = 43,
	NVML_GPM_METRIC_NVJPG_4_UTIL = 44, NVML_GPM_METRIC_NVJPG_5_UTIL = 45,
	NVML_GPM_METRIC_NVJPG_6_UTIL = 46, NVML_GPM_METRIC_NVJPG_7_UTIL = 47,
	NVML_GPM_METRIC_NVOFA_0_UTIL = 50, NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC = 60,
	NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC = 61, NVML_GPM_METRIC_NVLINK_L0_RX_PER_SEC = 62,
	NVML_GPM_METRIC_NVLINK_L0_TX_PER_SEC = 63, NVML_GPM_METRIC_NVLINK_L1_RX_PER_SEC = 64,
	NVML_GPM_METRIC_NVLINK_L1_TX_PER_SEC = 65, NVML_GPM_METRIC_NVLINK_L2_RX_PER_SEC = 66,
	NVML_GPM_METRIC_NVLINK_L2_TX_PER_SEC = 67, NVML_GPM_METRIC_NVLINK_L3_RX_PER_SEC = 68,
	NVML_GPM_METRIC_NVLINK_L3_TX_PER_SEC = 69, NVML_GPM_METRIC_NVLINK_L4_RX_PER_SEC = 70,
	NVML_GPM_METRIC_NVLINK_L4_TX_PER_SEC = 71, NVML_GPM_METRIC_NVLINK_L5_RX_PER_SEC = 72,
	NVML_GPM_METRIC_NVLINK_L5_TX_PER_SEC = 73, NVML_GPM_METRIC_NVLINK_L6_RX_PER_SEC = 74,
	NVML_GPM_METRIC_NVLINK_L6_TX_PER_SEC = 75, NVML_GPM_METRIC_NVLINK_L7_RX_PER_SEC = 76,
	NVML_GPM_METRIC_NVLINK_L7_TX_PER_SEC = 77, NVML_GPM_METRIC_NVLINK_L8_RX_PER_SEC = 78,
	NVML_GPM_METRIC_NVLINK_L8_TX_PER_SEC = 79, NVML_GPM_METRIC_NVLINK_L9_RX_PER_SEC = 80,
	NVML_GPM_METRIC_NVLINK_L9_TX_PER_SEC = 81, NVML_GPM_METRIC_NVLINK_L10_RX_PER_SEC = 82,
	NVML_GPM_METRIC_NVLINK_L10_TX_PER_SEC = 83, NVML_GPM_METRIC_NVLINK_L11_RX_PER_SEC = 84,
	NVML_GPM_METRIC_NVLINK_L11_TX_PER_SEC = 85, NVML_GPM_METRIC_NVLINK_L12_RX_PER_SEC = 86,
	NVML_GPM_METRIC_NVLINK_L12_TX_PER_SEC = 87, NVML_GPM_METRIC_NVLINK_L13_RX_PER_SEC = 88,
	NVML_GPM_METRIC_NVLINK_L13_TX_PER_SEC = 89, NVML_GPM_METRIC_NVLINK_L14_RX_PER_SEC = 90,
	NVML_GPM_METRIC_NVLINK_L14_TX_PER_SEC = 91, NVML_GPM_METRIC_NVLINK_L15_RX_PER_SEC = 92,
	NVML_GPM_METRIC_NVLINK_L15_TX_PER_SEC = 93, NVML_GPM_METRIC_NVLINK_L16_RX_PER_SEC = 94,
	NVML_GPM_METRIC_NVLINK_L16_TX_PER_SEC = 95, NVML_GPM_METRIC_NVLINK_L17_RX_PER_SEC = 96,
	NVML_GPM_METRIC_NVLINK_L17_TX_PER_SEC = 97, NVML_GPM_METRIC_MAX = 98
} nvmlGpmMetricId_t;

/* ---- constants ---- */
#define NVML_API_VERSION 13
#define NVML_VALUE_NOT_AVAILABLE (-1)
#define NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE 32
#define NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE 16
#define NVML_NVLINK_MAX_LINKS 18
#define NVML_MAX_PHYSICAL_BRIDGE 128
#define NVML_MAX_THERMAL_SENSORS_PER_GPU 3
#define nvmlFlagDefault 0
#define nvmlFlagForce 1
#define MAX_CLK_DOMAINS 32
#define NVML_MAX_GPU_PERF_PSTATES 16
#define NVML_GRID_LICENSE_EXPIRY_NOT_AVAILABLE 0
#define NVML_GRID_LICENSE_EXPIRY_INVALID 1
#define NVML_GRID_LICENSE_EXPIRY_VALID 2
#define NVML_GRID_LICENSE_EXPIRY_NOT_APPLICABLE 3
#define NVML_GRID_LICENSE_EXPIRY_PERMANENT 4
#define NVML_GRID_LICENSE_BUFFER_SIZE 128
#define NVML_VGPU_NAME_BUFFER_SIZE 64
#define NVML_GRID_LICENSE_FEATURE_MAX_COUNT 3
#define INVALID_GPU_INSTANCE_PROFILE_ID 0xffffffffu
#define INVALID_GPU_INSTANCE_ID 0xffffffffu
#define NVML_VGPU_VIRTUALIZATION_CAP_MIGRATION_NO 0
#define NVML_VGPU_VIRTUALIZATION_CAP_MIGRATION_YES 1
#define NVML_VGPU_PGPU_VIRTUALIZATION_CAP_MIGRATION_NO 0
#define NVML_VGPU_PGPU_VIRTUALIZATION_CAP_MIGRATION_YES 1
#define NVML_GRID_LICENSE_STATE_UNKNOWN 0
#define NVML_GRID_LICENSE_STATE_UNINITIALIZED 1
#define NVML_GRID_LICENSE_STATE_UNLICENSED_UNRESTRICTED 2
#define NVML_GRID_LICENSE_STATE_UNLICENSED_RESTRICTED 3
#define NVML_GRID_LICENSE_STATE_UNLICENSED 4
#define NVML_GRID_LICENSE_STATE_LICENSED 5
#define NVML_GSP_FIRMWARE_VERSION_BUF_SIZE 64
#define NVML_DEVICE_ARCH_KEPLER 2
#define NVML_DEVICE_ARCH_MAXWELL 3
#define NVML_DEVICE_ARCH_PASCAL 4
#define NVML_DEVICE_ARCH_VOLTA 5
#define NVML_DEVICE_ARCH_TURING 6
#define NVML_DEVICE_ARCH_AMPERE 7
#define NVML_DEVICE_ARCH_ADA 8
#define NVML_DEVICE_ARCH_HOPPER 9
#define NVML_DEVICE_ARCH_UNKNOWN 0xffffffffu
#define NVML_BUS_TYPE_UNKNOWN 0
#define NVML_BUS_TYPE_PCI 1
#define NVML_BUS_TYPE_PCIE 2
#define NVML_BUS_TYPE_FPCI 3
#define NVML_BUS_TYPE_AGP 4
#define NVML_POWER_MODE_ID_BALANCED 0
#define NVML_POWER_MODE_ID_MAX 1
#define NVML_POWER_SOURCE_AC 0
#define NVML_POWER_SOURCE_BATTERY 1
#define NVML_PCIE_LINK_MAX_SPEED_INVALID 0
#define NVML_PCIE_LINK_MAX_SPEED_2500MBPS 1
#define NVML_PCIE_LINK_MAX_SPEED_5000MBPS 2
#define NVML_PCIE_LINK_MAX_SPEED_8000MBPS 3
#define NVML_PCIE_LINK_MAX_SPEED_16000MBPS 4
#define NVML_PCIE_LINK_MAX_SPEED_32000MBPS 5
#define NVML_ADAPTIVE_CLOCKING_INFO_STATUS_DISABLED 0
#define NVML_ADAPTIVE_CLOCKING_INFO_STATUS_ENABLED 1
#define NVML_MAX_GPU_UTILIZATIONS 8
#define NVML_FI_DEV_ECC_CURRENT 1
#define NVML_FI_DEV_ECC_PENDING 2
#define NVML_FI_DEV_ECC_SBE_VOL_TOTAL 3
#define NVML_FI_DEV_ECC_DBE_VOL_TOTAL 4
#define NVML_FI_DEV_ECC_SBE_AGG_TOTAL 5
#define NVML_FI_DEV_ECC_DBE_AGG_TOTAL 6
#define NVML_FI_DEV_ECC_SBE_VOL_L1 7
#define NVML_FI_DEV_ECC_DBE_VOL_L1 8
#define NVML_FI_DEV_ECC_SBE_VOL_L2 9
#define NVML_FI_DEV_ECC_DBE_VOL_L2 10
#define NVML_FI_DEV_ECC_SBE_VOL_DEV 11
#define NVML_FI_DEV_ECC_DBE_VOL_DEV 12
#define NVML_FI_DEV_ECC_SBE_VOL_REG 13
#define NVML_FI_DEV_ECC_DBE_VOL_REG 14
#define NVML_FI_DEV_ECC_SBE_VOL_TEX 15
#define NVML_FI_DEV_ECC_DBE_VOL_TEX 16
#define NVML_FI_DEV_ECC_DBE_VOL_CBU 17
#define NVML_FI_DEV_ECC_SBE_AGG_L1 18
#define NVML_FI_DEV_ECC_DBE_AGG_L1 19
#define NVML_FI_DEV_ECC_SBE_AGG_L2 20
#define NVML_FI_DEV_ECC_DBE_AGG_L2 21
#define NVML_FI_DEV_ECC_SBE_AGG_DEV 22
#define NVML_FI_DEV_ECC_DBE_AGG_DEV 23
#define NVML_FI_DEV_ECC_SBE_AGG_REG 24
#define NVML_FI_DEV_ECC_DBE_AGG_REG 25
#define NVML_FI_DEV_ECC_SBE_AGG_TEX 26
#define NVML_FI_DEV_ECC_DBE_AGG_TEX 27
#define NVML_FI_DEV_ECC_DBE_AGG_CBU 28
#define NVML_FI_DEV_RETIRED_SBE 29
#define NVML_FI_DEV_RETIRED_DBE 30
#define NVML_FI_DEV_RETIRED_PENDING 31
#define NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L0 32
#define NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L1 33
#define NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L2 34
#define NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L3 35
#define NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L4 36
#define NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L5 37
#define NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL 38
#define NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L0 39
#define NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L1 40
#define NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L2 41
#define NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L3 42
#define NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L4 43
#define NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L5 44
#define NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL 45
#define NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L0 46
#define NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L1 47
#define NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L2 48
#define NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L3 49
#define NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L4 50
#define NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L5 51
#define NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL 52
#define NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L0 53
#define NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L1 54
#define NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L2 55
#define NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L3 56
#define NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L4 57
#define NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L5 58
#define NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL 59
#define NVML_FI_DEV_NVLINK_BANDWIDTH_C0_L0 60
#define NVML_FI_DEV_NVLINK_BANDWIDTH_C0_L1 61
#define NVML_FI_DEV_NVLINK_BANDWIDTH_C0_L2 62
#define NVML_FI_DEV_NVLINK_BANDWIDTH_C0_L3 63
#define NVML_FI_DEV_NVLINK_BANDWIDTH_C0_L4 64
#define NVML_FI_DEV_NVLINK_BANDWIDTH_C0_L5 65
#define NVML_FI_DEV_NVLINK_BANDWIDTH_C0_TOTAL 66
#define NVML_FI_DEV_NVLINK_BANDWIDTH_C1_L0 67
#define NVML_FI_DEV_NVLINK_BANDWIDTH_C1_L1 68
#define NVML_FI_DEV_NVLINK_BANDWIDTH_C1_L2 69
#define NVML_FI_DEV_NVLINK_BANDWIDTH_C1_L3 70
#define NVML_FI_DEV_NVLINK_BANDWIDTH_C1_L4 71
#define NVML_FI_DEV_NVLINK_BANDWIDTH_C1_L5 72
#define NVML_FI_DEV_NVLINK_BANDWIDTH_C1_TOTAL 73
#define NVML_FI_DEV_PERF_POLICY_POWER 74
#define NVML_FI_DEV_PERF_POLICY_THERMAL 75
#define NVML_FI_DEV_PERF_POLICY_SYNC_BOOST 76
#define NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT 77
#define NVML_FI_DEV_PERF_POLICY_LOW_UTILIZATION 78
#define NVML_FI_DEV_PERF_POLICY_RELIABILITY 79
#define NVML_FI_DEV_PERF_POLICY_TOTAL_APP_CLOCKS 80
#define NVML_FI_DEV_PERF_POLICY_TOTAL_BASE_CLOCKS 81
#define NVML_FI_DEV_MEMORY_TEMP 82
#define NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION 83
#define NVML_FI_DEV_NVLINK_SPEED_MBPS_L0 84
#define NVML_FI_DEV_NVLINK_SPEED_MBPS_L1 85
#define NVML_FI_DEV_NVLINK_SPEED_MBPS_L2 86
#define NVML_FI_DEV_NVLINK_SPEED_MBPS_L3 87
#define NVML_FI_DEV_NVLINK_SPEED_MBPS_L4 88
#define NVML_FI_DEV_NVLINK_SPEED_MBPS_L5 89
#define NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON 90
#define NVML_FI_DEV_NVLINK_LINK_COUNT 91
#define NVML_FI_DEV_RETIRED_PENDING_SBE 92
#define NVML_FI_DEV_RETIRED_PENDING_DBE 93
#define NVML_FI_DEV_PCIE_REPLAY_COUNTER 94
#define NVML_FI_DEV_PCIE_REPLAY_ROLLOVER_COUNTER 95
#define NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L6 96
#define NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L7 97
#define NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L8 98
#define NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L9 99
#define NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L10 100
#define NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L11 101
#define NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L6 102
#define NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L7 103
#define NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L8 104
#define NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L9 105
#define NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L10 106
#define NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L11 107
#define NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L6 108
#define NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L7 109
#define NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L8 110
#define NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L9 111
#define NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L10 112
#define NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L11 113
#define NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L6 114
#define NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L7 115
#define NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L8 116
#define NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L9 117
#define NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L10 118
#define NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L11 119
#define NVML_FI_DEV_NVLINK_BANDWIDTH_C0_L6 120
#define NVML_FI_DEV_NVLINK_BANDWIDTH_C0_L7 121
#define NVML_FI_DEV_NVLINK_BANDWIDTH_C0_L8 122
#define NVML_FI_DEV_NVLINK_BANDWIDTH_C0_L9 123
#define NVML_FI_DEV_NVLINK_BANDWIDTH_C0_L10 124
#define NVML_FI_DEV_NVLINK_BANDWIDTH_C0_L11 125
#define NVML_FI_DEV_NVLINK_BANDWIDTH_C1_L6 126
#define NVML_FI_DEV_NVLINK_BANDWIDTH_C1_L7 127
#define NVML_FI_DEV_NVLINK_BANDWIDTH_C1_L8 128
#define NVML_FI_DEV_NVLINK_BANDWIDTH_C1_L9 129
#define NVML_FI_DEV_NVLINK_BANDWIDTH_C1_L10 130
#define NVML_FI_DEV_NVLINK_BANDWIDTH_C1_L11 131
#define NVML_FI_DEV_NVLINK_SPEED_MBPS_L6 132
#define NVML_FI_DEV_NVLINK_SPEED_MBPS_L7 133
#define NVML_FI_DEV_NVLINK_SPEED_MBPS_L8 134
#define NVML_FI_DEV_NVLINK_SPEED_MBPS_L9 135
#define NVML_FI_DEV_NVLINK_SPEED_MBPS_L10 136
#define NVML_FI_DEV_NVLINK_SPEED_MBPS_L11 137
#define NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX 138
#define NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX 139
#define NVML_FI_DEV_NVLINK_THROUGHPUT_RAW_TX 140
#define NVML_FI_DEV_NVLINK_THROUGHPUT_RAW_RX 141
#define NVML_FI_DEV_REMAPPED_COR 142
#define NVML_FI_DEV_REMAPPED_UNC 143
#define NVML_FI_DEV_REMAPPED_PENDING 144
#define NVML_FI_DEV_REMAPPED_FAILURE 145
#define NVML_FI_DEV_NVLINK_REMOTE_NVLINK_ID 146
#define NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT 147
#define NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_L0 148
#define NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_L1 149
#define NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_L2 150
#define NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_L3 151
#define NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_L4 152
#define NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_L5 153
#define NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_L6 154
#define NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_L7 155
#define NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_L8 156
#define NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_L9 157
#define NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_L10 158
#define NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_L11 159
#define NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_TOTAL 160
#define NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY 161
#define NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY 162
#define NVML_FI_DEV_NVLINK_ERROR_DL_CRC 163
#define NVML_FI_DEV_NVLINK_GET_SPEED 164
#define NVML_FI_DEV_NVLINK_GET_STATE 165
#define NVML_FI_DEV_NVLINK_GET_VERSION 166
#define NVML_FI_DEV_GET_GPU_RECOVERY_ACTION 230
#define NVML_FI_MAX 167
#define nvmlEventTypeSingleBitEccError 1
#define nvmlEventTypeDoubleBitEccError 2
#define nvmlEventTypePState 4
#define nvmlEventTypeXidCriticalError 8
#define nvmlEventTypeClock 16
#define nvmlEventTypePowerSourceChange 128
#define nvmlEventMigConfigChange 256
#define nvmlEventTypeNone 0
#define nvmlEventTypeAll 415
#define nvmlClocksThrottleReasonGpuIdle 1
#define nvmlClocksThrottleReasonApplicationsClocksSetting 2
#define nvmlClocksThrottleReasonUserDefinedClocks 2
#define nvmlClocksThrottleReasonSwPowerCap 4
#define nvmlClocksThrottleReasonHwSlowdown 8
#define nvmlClocksThrottleReasonSyncBoost 16
#define nvmlClocksThrottleReasonSwThermalSlowdown 32
#define nvmlClocksThrottleReasonHwThermalSlowdown 64
#define nvmlClocksThrottleReasonHwPowerBrakeSlowdown 128
#define nvmlClocksThrottleReasonDisplayClockSetting 256
#define nvmlClocksThrottleReasonNone 0
#define NVML_NVFBC_SESSION_FLAG_DIFFMAP_ENABLED 1
#define NVML_NVFBC_SESSION_FLAG_CLASSIFICATIONMAP_ENABLED 2
#define NVML_NVFBC_SESSION_FLAG_CAPTURE_WITH_WAIT_NO_WAIT 4
#define NVML_NVFBC_SESSION_FLAG_CAPTURE_WITH_WAIT_INFINITE 8
#define NVML_NVFBC_SESSION_FLAG_CAPTURE_WITH_WAIT_TIMEOUT 16
#define NVML_INIT_FLAG_NO_GPUS 1
#define NVML_INIT_FLAG_NO_ATTACH 2
#define NVML_DEVICE_INFOROM_VERSION_BUFFER_SIZE 16
#define NVML_DEVICE_UUID_BUFFER_SIZE 80
#define NVML_DEVICE_UUID_V2_BUFFER_SIZE 96
#define NVML_DEVICE_PART_NUMBER_BUFFER_SIZE 80
#define NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE 80
#define NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE 80
#define NVML_DEVICE_NAME_BUFFER_SIZE 64
#define NVML_DEVICE_NAME_V2_BUFFER_SIZE 96
#define NVML_DEVICE_SERIAL_BUFFER_SIZE 30
#define NVML_DEVICE_VBIOS_VERSION_BUFFER_SIZE 32
#define NVML_AFFINITY_SCOPE_NODE 0
#define NVML_AFFINITY_SCOPE_SOCKET 1
#define NVML_DEVICE_MIG_DISABLE 0
#define NVML_DEVICE_MIG_ENABLE 1
#define NVML_GPU_INSTANCE_PROFILE_1_SLICE 0
#define NVML_GPU_INSTANCE_PROFILE_2_SLICE 1
#define NVML_GPU_INSTANCE_PROFILE_3_SLICE 2
#define NVML_GPU_INSTANCE_PROFILE_4_SLICE 3
#define NVML_GPU_INSTANCE_PROFILE_7_SLICE 4
#define NVML_GPU_INSTANCE_PROFILE_8_SLICE 5
#define NVML_GPU_INSTANCE_PROFILE_6_SLICE 6
#define NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1 7
#define NVML_GPU_INSTANCE_PROFILE_COUNT 8
#define NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE 0
#define NVML_COMPUTE_INSTANCE_PROFILE_2_SLICE 1
#define NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE 2
#define NVML_COMPUTE_INSTANCE_PROFILE_4_SLICE 3
#define NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE 4
#define NVML_COMPUTE_INSTANCE_PROFILE_8_SLICE 5
#define NVML_COMPUTE_INSTANCE_PROFILE_6_SLICE 6
#define NVML_COMPUTE_INSTANCE_PROFILE_COUNT 7
#define NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED 0
#define NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_COUNT 1
#define NVML_GPM_METRICS_GET_VERSION 1
#define NVML_GPM_SUPPORT_VERSION 1
#define NVML_DEVICE_ARCH_BLACKWELL 10
#define NVML_UUID_TYPE_NONE 0
#define NVML_UUID_TYPE_ASCII 1
#define NVML_UUID_TYPE_BINARY 2
#define NVML_GPU_FABRIC_STATE_NOT_SUPPORTED 0
#define NVML_GPU_FABRIC_STATE_NOT_STARTED 1
#define NVML_GPU_FABRIC_STATE_IN_PROGRESS 2
#define NVML_GPU_FABRIC_STATE_COMPLETED 3
#define NVML_PROCESS_MODE_COMPUTE 0
#define NVML_PROCESS_MODE_GRAPHICS 1
#define NVML_PROCESS_MODE_MPS 2
/* value of usedGpuMemory if the driver does not know it; also stands for a missing instance id */
#define NVML_VALUE_NOT_AVAILABLE_ULL (~0ull)

/* ---- structs ---- */
typedef struct nvmlPciInfo_st {
	char busIdLegacy[16];
	unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
	char busId[32];
} nvmlPciInfo_t, nvmlPciInfo_v3_t;
typedef struct nvmlEccErrorCounts_st {
	unsigned long long l1Cache, l2Cache, deviceMemory, registerFile;
} nvmlEccErrorCounts_t;
typedef struct nvmlUtilization_st {
	unsigned int gpu, memory;
} nvmlUtilization_t;
typedef struct nvmlMemory_st {
	unsigned long long total, free, used;
} nvmlMemory_t;
typedef struct nvmlMemory_v2_st {
	unsigned int version;
	unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;
typedef struct nvmlBAR1Memory_st {
	unsigned long long bar1Total, bar1Free, bar1Used;
} nvmlBAR1Memory_t;
typedef struct nvmlProcessInfo_v1_st {
	unsigned int pid;
	unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;
typedef struct nvmlProcessInfo_v2_st {
	unsigned int pid;
	unsigned long long usedGpuMemory;
	unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_v2_t;
typedef struct nvmlProcessInfo_st {
	unsigned int pid;
	unsigned long long usedGpuMemory;
	unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;
typedef struct nvmlDeviceAttributes_st {
	unsigned int multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount;
	unsigned int sharedEncoderCount, sharedJpegCount, sharedOfaCount, gpuInstanceSliceCount;
	unsigned int computeInstanceSliceCount;
	unsigned long long memorySizeMB;
} nvmlDeviceAttributes_t;
typedef struct nvmlRowRemapperHistogramValues_st {
	unsigned int max, high, partial, low, none;
} nvmlRowRemapperHistogramValues_t;
typedef struct nvmlNvLinkUtilizationControl_st {
	nvmlNvLinkUtilizationCountUnits_t units;
	nvmlNvLinkUtilizationCountPktTypes_t pktfilter;
} nvmlNvLinkUtilizationControl_t;
typedef struct nvmlBridgeChipInfo_st {
	nvmlBridgeChipType_t type;
	unsigned int fwVersion;
} nvmlBridgeChipInfo_t;
typedef struct nvmlBridgeChipHierarchy_st {
	unsigned char bridgeCount;
	nvmlBridgeChipInfo_t bridgeChipInfo[128];
} nvmlBridgeChipHierarchy_t;
typedef union nvmlValue_st {
	double dVal;
	int siVal;
	unsigned int uiVal;
	unsigned long ulVal;
	unsigned long long ullVal;
	long long sllVal;
	unsigned short usVal;
} nvmlValue_t;
typedef struct nvmlSample_st {
	unsigned long long timeStamp;
	nvmlValue_t sampleValue;
} nvmlSample_t;
typedef struct nvmlViolationTime_st {
	unsigned long long referenceTime, violationTime;
} nvmlViolationTime_t;
typedef struct nvmlGpuThermalSettings_st {
	unsigned int count;
	struct {
		nvmlThermalController_t controller;
		int defaultMinTemp, defaultMaxTemp, currentTemp;
		nvmlThermalTarget_t target;
	} sensor[3];
} nvmlGpuThermalSettings_t;
typedef struct nvmlClkMonFaultInfo_struct {
	unsigned int clkApiDomain, clkDomainFaultMask;
} nvmlClkMonFaultInfo_t;
typedef struct nvmlClkMonStatus_status {
	unsigned int bGlobalStatus, clkMonListSize;
	nvmlClkMonFaultInfo_t clkMonList[32];
} nvmlClkMonStatus_t;
typedef struct nvmlVgpuInstanceUtilizationSample_st {
	nvmlVgpuInstance_t vgpuInstance;
	unsigned long long timeStamp;
	nvmlValue_t smUtil, memUtil, encUtil, decUtil;
} nvmlVgpuInstanceUtilizationSample_t;
typedef struct nvmlVgpuProcessUtilizationSample_st {
	nvmlVgpuInstance_t vgpuInstance;
	unsigned int pid;
	char processName[64];
	unsigned long long timeStamp;
	unsigned int smUtil, memUtil, encUtil, decUtil;
} nvmlVgpuProcessUtilizationSample_t;
typedef struct nvmlVgpuLicenseExpiry_st {
	unsigned int year;
	unsigned short month, day, hour, min, sec;
	unsigned char status;
} nvmlVgpuLicenseExpiry_t;
typedef struct nvmlVgpuLicenseInfo_st {
	unsigned char isLicensed;
	nvmlVgpuLicenseExpiry_t licenseExpiry;
	unsigned int currentState;
} nvmlVgpuLicenseInfo_t;
typedef struct nvmlProcessUtilizationSample_st {
	unsigned int pid;
	unsigned long long timeStamp;
	unsigned int smUtil, memUtil, encUtil, decUtil;
} nvmlProcessUtilizationSample_t;
typedef struct nvmlGridLicenseExpiry_st {
	unsigned int year;
	unsigned short month, day, hour, min, sec;
	unsigned char status;
} nvmlGridLicenseExpiry_t;
typedef struct nvmlGridLicensableFeature_st {
	nvmlGridLicenseFeatureCode_t featureCode;
	unsigned int featureState;
	char licenseInfo[128], productName[128];
	unsigned int featureEnabled;
	nvmlGridLicenseExpiry_t licenseExpiry;
} nvmlGridLicensableFeature_t;
typedef struct nvmlGridLicensableFeatures_st {
	int isGridLicenseSupported;
	unsigned int licensableFeaturesCount;
	nvmlGridLicensableFeature_t gridLicensableFeatures[3];
} nvmlGridLicensableFeatures_t;
typedef struct nvmlGpuDynamicPstatesInfo_st {
	unsigned int flags;
	struct {
		unsigned int bIsPresent, percentage, incThreshold, decThreshold;
	} utilization[8];
} nvmlGpuDynamicPstatesInfo_t;
typedef struct nvmlFieldValue_st {
	unsigned int fieldId, scopeId;
	long long timestamp, latencyUsec;
	nvmlValueType_t valueType;
	nvmlReturn_t nvmlReturn;
	nvmlValue_t value;
} nvmlFieldValue_t;
typedef struct nvmlHwbcEntry_st {
	unsigned int hwbcId;
	char firmwareVersion[32];
} nvmlHwbcEntry_t;
typedef struct nvmlLedState_st {
	char cause[256];
	nvmlLedColor_t color;
} nvmlLedState_t;
typedef struct nvmlUnitInfo_st {
	char name[96], id[96], serial[96], firmwareVersion[96];
} nvmlUnitInfo_t;
typedef struct nvmlPSUInfo_st {
	char state[256];
	unsigned int current, voltage, power;
} nvmlPSUInfo_t;
typedef struct nvmlUnitFanInfo_st {
	unsigned int speed;
	nvmlFanState_t state;
} nvmlUnitFanInfo_t;
typedef struct nvmlUnitFanSpeeds_st {
	nvmlUnitFanInfo_t fans[24];
	unsigned int count;
} nvmlUnitFanSpeeds_t;
typedef struct nvmlEventData_st {
	nvmlDevice_t device;
	unsigned long long eventType, eventData;
	unsigned int gpuInstanceId, computeInstanceId;
} nvmlEventData_t;
typedef struct nvmlAccountingStats_st {
	unsigned int gpuUtilization, memoryUtilization;
	unsigned long long maxMemoryUsage, time, startTime;
	unsigned int isRunning, reserved[5];
} nvmlAccountingStats_t;
typedef struct nvmlEncoderSessionInfo_st {
	unsigned int sessionId, pid;
	nvmlVgpuInstance_t vgpuInstance;
	nvmlEncoderType_t codecType;
	unsigned int hResolution, vResolution, averageFps, averageLatency;
} nvmlEncoderSessionInfo_t;
typedef struct nvmlFBCStats_st {
	unsigned int sessionsCount, averageFPS, averageLatency;
} nvmlFBCStats_t;
typedef struct nvmlFBCSessionInfo_st {
	unsigned int sessionId, pid;
	nvmlVgpuInstance_t vgpuInstance;
	unsigned int displayOrdinal;
	nvmlFBCSessionType_t sessionType;
	unsigned int sessionFlags, hMaxResolution, vMaxResolution, hResolution, vResolution;
	unsigned int averageFPS, averageLatency;
} nvmlFBCSessionInfo_t;
typedef struct nvmlVgpuVersion_st {
	unsigned int minVersion, maxVersion;
} nvmlVgpuVersion_t;
typedef struct nvmlVgpuMetadata_st {
	unsigned int version, revision;
	nvmlVgpuGuestInfoState_t guestInfoState;
	char guestDriverVersion[80], hostDriverVersion[80];
	unsigned int reserved[6], vgpuVirtualizationCaps, guestVgpuVersion, opaqueDataSize;
	char opaqueData[4];
} nvmlVgpuMetadata_t;
typedef struct nvmlVgpuPgpuMetadata_st {
	unsigned int version, revision;
	char hostDriverVersion[80];
	unsigned int pgpuVirtualizationCaps, reserved[5];
	nvmlVgpuVersion_t hostSupportedVgpuRange;
	unsigned int opaqueDataSize;
	char opaqueData[4];
} nvmlVgpuPgpuMetadata_t;
typedef struct nvmlVgpuPgpuCompatibility_st {
	nvmlVgpuVmCompatibility_t vgpuVmCompatibility;
	nvmlVgpuPgpuCompatibilityLimitCode_t compatibilityLimitCode;
} nvmlVgpuPgpuCompatibility_t;
typedef struct nvmlExcludedDeviceInfo_st {
	nvmlPciInfo_t pciInfo;
	char uuid[80];
} nvmlExcludedDeviceInfo_t;
typedef struct nvmlGpuInstancePlacement_st {
	unsigned int start, size;
} nvmlGpuInstancePlacement_t;
typedef struct nvmlGpuInstanceProfileInfo_st {
	unsigned int id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount;
	unsigned int copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
	unsigned long long memorySizeMB;
} nvmlGpuInstanceProfileInfo_t;
typedef struct nvmlGpuInstanceProfileInfo_v2_st {
	unsigned int version, id, isP2pSupported, sliceCount, instanceCount;
	unsigned int multiprocessorCount, copyEngineCount, decoderCount, encoderCount;
	unsigned int jpegCount, ofaCount;
	unsigned long long memorySizeMB;
	char name[96];
} nvmlGpuInstanceProfileInfo_v2_t;
typedef struct nvmlGpuInstanceInfo_st {
	nvmlDevice_t device;
	unsigned int id, profileId;
	nvmlGpuInstancePlacement_t placement;
} nvmlGpuInstanceInfo_t;
typedef struct nvmlComputeInstancePlacement_st {
	unsigned int start, size;
} nvmlComputeInstancePlacement_t;
typedef struct nvmlComputeInstanceProfileInfo_st {
	unsigned int id, sliceCount, instanceCount, multiprocessorCount, sharedCopyEngineCount;
	unsigned int sharedDecoderCount, sharedEncoderCount, sharedJpegCount, sharedOfaCount;
} nvmlComputeInstanceProfileInfo_t;
typedef struct nvmlComputeInstanceProfileInfo_v2_st {
	unsigned int version, id, sliceCount, instanceCount, multiprocessorCount;
	unsigned int sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount;
	unsigned int sharedJpegCount, sharedOfaCount;
	char name[96];
} nvmlComputeInstanceProfileInfo_v2_t;
typedef struct nvmlComputeInstanceInfo_st {
	nvmlDevice_t device;
	nvmlGpuInstance_t gpuInstance;
	unsigned int id, profileId;
	nvmlComputeInstancePlacement_t placement;
} nvmlComputeInstanceInfo_t;
typedef struct nvmlGpmMetric_st {
	unsigned int metricId;
	nvmlReturn_t nvmlReturn;
	double value;
	struct {
		char *shortName;
		char *longName;
		char *unit;
	} metricInfo;
} nvmlGpmMetric_t;
typedef struct nvmlGpmMetricsGet_st {
	unsigned int version, numMetrics;
	nvmlGpmSample_t sample1, sample2;
	nvmlGpmMetric_t metrics[98];
} nvmlGpmMetricsGet_t;
typedef struct nvmlGpmSupport_st {
	unsigned int version, isSupportedDevice;
} nvmlGpmSupport_t;
typedef struct nvmlPciInfo_v1_st {
	char busId[16];
	unsigned int domain, bus, device, pciDeviceId;
} nvmlPciInfo_v1_t;
typedef struct nvmlPciInfo_v2_st {
	char busId[16];
	unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
} nvmlPciInfo_v2_t;
typedef struct nvmlPciInfoExt_v1_st {
	unsigned int version, domain, bus, device, pciDeviceId, pciSubSystemId, baseClass,
		subClass;
	char busId[32];
} nvmlPciInfoExt_v1_t, nvmlPciInfoExt_t;
typedef struct nvmlProcessDetail_v1_st {
	unsigned int pid;
	unsigned long long usedGpuMemory;
	unsigned int gpuInstanceId, computeInstanceId;
	unsigned long long usedGpuCcProtectedMemory;
} nvmlProcessDetail_v1_t;
typedef struct nvmlProcessDetailList_v1_st {
	unsigned int version, mode, numProcArrayEntries;
	nvmlProcessDetail_v1_t *procArray;
} nvmlProcessDetailList_v1_t, nvmlProcessDetailList_t;
typedef struct nvmlProcessUtilizationInfo_v1_st {
	unsigned long long timeStamp;
	unsigned int pid, smUtil, memUtil, encUtil, decUtil, jpgUtil, ofaUtil;
} nvmlProcessUtilizationInfo_v1_t;
typedef struct nvmlProcessesUtilizationInfo_v1_st {
	unsigned int version, processSamplesCount;
	unsigned long long lastSeenTimeStamp;
	nvmlProcessUtilizationInfo_v1_t *procUtilArray;
} nvmlProcessesUtilizationInfo_v1_t, nvmlProcessesUtilizationInfo_t;
typedef union nvmlUUIDValue_st {
	char str[41];
	unsigned char bytes[16];
} nvmlUUIDValue_t;
typedef struct nvmlUUID_v1_st {
	unsigned int version, type;
	nvmlUUIDValue_t value;
} nvmlUUID_v1_t, nvmlUUID_t;
typedef struct nvmlTemperature_v1_st {
	unsigned int version;
	nvmlTemperatureSensors_t sensorType;
	int temperature;
} nvmlTemperature_v1_t, nvmlTemperature_t;
typedef struct nvmlMarginTemperature_v1_st {
	unsigned int version;
	int marginTemperature;
} nvmlMarginTemperature_v1_t, nvmlMarginTemperature_t;
typedef struct nvmlFanSpeedInfo_v1_st {
	unsigned int version, fan, speed;
} nvmlFanSpeedInfo_v1_t, nvmlFanSpeedInfo_t;
typedef struct nvmlClockOffset_v1_st {
	unsigned int version;
	nvmlClockType_t type;
	nvmlPstates_t pstate;
	int clockOffsetMHz, minClockOffsetMHz, maxClockOffsetMHz;
} nvmlClockOffset_v1_t, nvmlClockOffset_t;
typedef struct nvmlDevicePerfModes_v1_st {
	unsigned int version;
	char str[2048];
} nvmlDevicePerfModes_v1_t, nvmlDevicePerfModes_t;
typedef struct nvmlDeviceCurrentClockFreqs_v1_st {
	unsigned int version;
	char str[2048];
} nvmlDeviceCurrentClockFreqs_v1_t, nvmlDeviceCurrentClockFreqs_t;
typedef struct nvmlDramEncryptionInfo_v1_st {
	unsigned int version;
	nvmlEnableState_t encryptionState;
} nvmlDramEncryptionInfo_v1_t, nvmlDramEncryptionInfo_t;
typedef struct nvmlC2cModeInfo_v1_st {
	unsigned int isC2cEnabled;
} nvmlC2cModeInfo_v1_t;
typedef struct nvmlSystemDriverBranchInfo_v1_st {
	unsigned int version;
	char branch[80];
} nvmlSystemDriverBranchInfo_v1_t, nvmlSystemDriverBranchInfo_t;
typedef struct nvmlGpuFabricInfo_st {
	unsigned char clusterUuid[16];
	nvmlReturn_t status;
	unsigned int cliqueId;
	unsigned char state;
} nvmlGpuFabricInfo_t;
typedef struct nvmlGpuFabricInfo_v2_st {
	unsigned int version;
	unsigned char clusterUuid[16];
	nvmlReturn_t status;
	unsigned int cliqueId;
	unsigned char state;
	unsigned int healthMask;
} nvmlGpuFabricInfo_v2_t;
typedef struct nvmlGpuFabricInfo_v3_st {
	unsigned int version;
	unsigned char clusterUuid[16];
	nvmlReturn_t status;
	unsigned int cliqueId;
	unsigned char state;
	unsigned int healthMask;
	unsigned char healthSummary;
} nvmlGpuFabricInfo_v3_t, nvmlGpuFabricInfoV_t;
typedef struct nvmlConfComputeSystemCaps_st {
	unsigned int cpuCaps, gpusCaps;
} nvmlConfComputeSystemCaps_t;
typedef struct nvmlConfComputeSystemState_st {
	unsigned int environment, ccFeature, devToolsMode;
} nvmlConfComputeSystemState_t;
typedef struct nvmlSystemConfComputeSettings_v1_st {
	unsigned int version, environment, ccFeature, devToolsMode, multiGpuMode;
} nvmlSystemConfComputeSettings_v1_t, nvmlSystemConfComputeSettings_t;
typedef struct nvmlConfComputeMemSizeInfo_st {
	unsigned long long protectedMemSizeKib, unprotectedMemSizeKib;
} nvmlConfComputeMemSizeInfo_t;
typedef struct nvmlEccSramErrorStatus_v1_st {
	unsigned int version;
	unsigned long long aggregateUncParity, aggregateUncSecDed, aggregateCor,
		volatileUncParity, volatileUncSecDed, volatileCor, aggregateUncBucketL2,
		aggregateUncBucketSm, aggregateUncBucketPcie, aggregateUncBucketMcu,
		aggregateUncBucketOther;
	unsigned int bThresholdExceeded;
} nvmlEccSramErrorStatus_v1_t, nvmlEccSramErrorStatus_t;
typedef struct nvmlPlatformInfo_v1_st {
	unsigned int version;
	unsigned char ibGuid[16], rackGuid[16], chassisPhysicalSlotNumber, computeSlotIndex,
		nodeIndex, peerType, moduleId;
} nvmlPlatformInfo_v1_t;
typedef struct nvmlPlatformInfo_v2_st {
	unsigned int version;
	unsigned char ibGuid[16], chassisSerialNumber[16], slotNumber, trayIndex, hostId,
		peerType, moduleId;
} nvmlPlatformInfo_v2_t, nvmlPlatformInfo_t;
typedef struct nvmlNvLinkPowerThres_st {
	unsigned int lowPwrThreshold;
} nvmlNvLinkPowerThres_t;
typedef struct nvmlDeviceCapabilities_v1_st {
	unsigned int version, capMask;
} nvmlDeviceCapabilities_v1_t, nvmlDeviceCapabilities_t;
typedef struct nvmlDeviceAddressingMode_v1_st {
	unsigned int version, value;
} nvmlDeviceAddressingMode_v1_t, nvmlDeviceAddressingMode_t;
typedef struct nvmlRepairStatus_v1_st {
	unsigned int version, bChannelRepairPending, bTpcRepairPending;
} nvmlRepairStatus_v1_t, nvmlRepairStatus_t;
typedef struct nvmlDevicePowerMizerModes_v1_st {
	unsigned int currentMode, mode, supportedPowerMizerModes;
} nvmlDevicePowerMizerModes_v1_t;
typedef struct nvmlPdi_v1_st {
	unsigned int version;
	unsigned long long value;
} nvmlPdi_v1_t, nvmlPdi_t;
typedef struct nvmlHostname_v1_st {
	char value[64];
} nvmlHostname_v1_t;
typedef struct nvmlUnrepairableMemoryStatus_v1_st {
	unsigned int bUnrepairableMemory;
} nvmlUnrepairableMemoryStatus_v1_t;
typedef struct nvmlRusdSettings_v1_st {
	unsigned int version;
	unsigned long long pollMask;
} nvmlRusdSettings_v1_t;
typedef struct nvmlVgpuHeterogeneousMode_v1_st {
	unsigned int version, mode;
} nvmlVgpuHeterogeneousMode_v1_t, nvmlVgpuHeterogeneousMode_t;
typedef struct nvmlVgpuPlacementId_v1_st {
	unsigned int version, placementId;
} nvmlVgpuPlacementId_v1_t, nvmlVgpuPlacementId_t;
typedef struct nvmlVgpuTypeBar1Info_v1_st {
	unsigned int version;
	unsigned long long bar1Size;
} nvmlVgpuTypeBar1Info_v1_t, nvmlVgpuTypeBar1Info_t;
typedef struct nvmlVgpuRuntimeState_v1_st {
	unsigned int version;
	unsigned long long size;
} nvmlVgpuRuntimeState_v1_t, nvmlVgpuRuntimeState_t;
typedef struct nvmlNvlinkSupportedBwModes_v1_st {
	unsigned int version;
	unsigned char bwModes[23], totalBwModes;
} nvmlNvlinkSupportedBwModes_v1_t, nvmlNvlinkSupportedBwModes_t;
typedef struct nvmlNvlinkGetBwMode_v1_st {
	unsigned int version, bIsBest;
	unsigned char bwMode;
} nvmlNvlinkGetBwMode_v1_t, nvmlNvlinkGetBwMode_t;
typedef struct nvmlNvlinkSetBwMode_v1_st {
	unsigned int version, bSetBest;
	unsigned char bwMode;
} nvmlNvlinkSetBwMode_v1_t, nvmlNvlinkSetBwMode_t;
typedef struct nvmlPowerSmoothingProfile_v1_st {
	unsigned int version, profileId, paramId;
	double value;
} nvmlPowerSmoothingProfile_v1_t, nvmlPowerSmoothingProfile_t;
typedef struct nvmlPowerSmoothingState_v1_st {
	unsigned int version;
	nvmlEnableState_t state;
} nvmlPowerSmoothingState_v1_t, nvmlPowerSmoothingState_t;
typedef struct nvmlPowerValue_v2_st {
	unsigned int version;
	unsigned char powerScope;
	unsigned int powerValueMw;
} nvmlPowerValue_v2_t;

/* ---- structs that only pass through ---- */
typedef struct nvmlActiveVgpuInstanceInfo_st nvmlActiveVgpuInstanceInfo_t;
typedef struct nvmlConfComputeGetKeyRotationThresholdInfo_st
	nvmlConfComputeGetKeyRotationThresholdInfo_t;
typedef struct nvmlConfComputeGpuAttestationReport_st nvmlConfComputeGpuAttestationReport_t;
typedef struct nvmlConfComputeGpuCertificate_st nvmlConfComputeGpuCertificate_t;
typedef struct nvmlConfComputeSetKeyRotationThresholdInfo_st
	nvmlConfComputeSetKeyRotationThresholdInfo_t;
typedef struct nvmlCoolerInfo_st nvmlCoolerInfo_t;
typedef struct nvmlEccSramUniqueUncorrectedErrorCounts_st nvmlEccSramUniqueUncorrectedErrorCounts_t;
typedef struct nvmlNvLinkInfo_st nvmlNvLinkInfo_t;
typedef struct nvmlPRMCounterList_v1_st nvmlPRMCounterList_v1_t;
typedef struct nvmlPRMTLV_v1_st nvmlPRMTLV_v1_t;
typedef struct nvmlSystemEventSetCreateRequest_st nvmlSystemEventSetCreateRequest_t;
typedef struct nvmlSystemEventSetFreeRequest_st nvmlSystemEventSetFreeRequest_t;
typedef struct nvmlSystemEventSetWaitRequest_st nvmlSystemEventSetWaitRequest_t;
typedef struct nvmlSystemRegisterEventRequest_st nvmlSystemRegisterEventRequest_t;
typedef struct nvmlVgpuCreatablePlacementInfo_st nvmlVgpuCreatablePlacementInfo_t;
typedef struct nvmlVgpuInstancesUtilizationInfo_st nvmlVgpuInstancesUtilizationInfo_t;
typedef struct nvmlVgpuPlacementList_st nvmlVgpuPlacementList_t;
typedef struct nvmlVgpuProcessesUtilizationInfo_st nvmlVgpuProcessesUtilizationInfo_t;
typedef struct nvmlVgpuSchedulerCapabilities_st nvmlVgpuSchedulerCapabilities_t;
typedef struct nvmlVgpuSchedulerGetState_st nvmlVgpuSchedulerGetState_t;
typedef struct nvmlVgpuSchedulerLogInfo_st nvmlVgpuSchedulerLogInfo_t;
typedef struct nvmlVgpuSchedulerLog_st nvmlVgpuSchedulerLog_t;
typedef struct nvmlVgpuSchedulerSetState_st nvmlVgpuSchedulerSetState_t;
typedef struct nvmlVgpuSchedulerStateInfo_st nvmlVgpuSchedulerStateInfo_t;
typedef struct nvmlVgpuSchedulerState_st nvmlVgpuSchedulerState_t;
typedef struct nvmlVgpuTypeIdInfo_st nvmlVgpuTypeIdInfo_t;
typedef struct nvmlVgpuTypeMaxInstance_st nvmlVgpuTypeMaxInstance_t;
typedef struct nvmlWorkloadPowerProfileCurrentProfiles_st nvmlWorkloadPowerProfileCurrentProfiles_t;
typedef struct nvmlWorkloadPowerProfileProfilesInfo_st nvmlWorkloadPowerProfileProfilesInfo_t;
typedef struct nvmlWorkloadPowerProfileRequestedProfiles_st
	nvmlWorkloadPowerProfileRequestedProfiles_t;

#endif
