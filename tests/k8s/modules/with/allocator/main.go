// SPDX-License-Identifier: Apache-2.0

// Allocator runs Kubernetes' allocator of devices and its CEL on JSON lines, for tests that compare divvy with it.
//
// Each line of standard input is a question, and standard output has one line for each answer:
//
//	{"expression": TEXT, "device": Device, "driver": TEXT}
//	    answers {"matches": BOOL} or {"error": TEXT, "stage": "compile" or "run"}.
//	{"node": Node, "claims": [ResourceClaim], "slices": [ResourceSlice], "classes": [DeviceClass],
//	 "allocated": [ResourceClaim]}
//	    allocates the claims on the node, while the claims of "allocated" have devices, and answers
//	    {"allocations": [AllocationResult]}, {"allocations": null} or {"error": TEXT}.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

type question struct {
	Expression *string
	Device     resourceapi.Device
	Driver     string

	Node      *v1.Node
	Claims    []*resourceapi.ResourceClaim
	Slices    []*resourceapi.ResourceSlice
	Classes   []*resourceapi.DeviceClass
	Allocated []*resourceapi.ResourceClaim
}

type answer struct {
	Matches     *bool                          `json:"matches,omitempty"`
	Allocations []resourceapi.AllocationResult `json:"allocations"`
	Error       string                         `json:"error,omitempty"`
	Stage       string                         `json:"stage,omitempty"`
}

// The features that kube-scheduler has on by default.
var features = structured.Features{
	AdminAccess:             true,
	ConsumableCapacity:      true,
	DeviceTaints:            true,
	FractionalCapacityRange: true,
	PartitionableDevices:    true,
	PrioritizedList:         true,
}

var celFeatures = cel.Features{EnableConsumableCapacity: true}
var celCache = cel.NewCache(100, celFeatures)

type classes []*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return c, nil }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range c {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, fmt.Errorf("no such class: %s", name)
}

// Counts the devices that the claims have, as kube-scheduler does.
func allocatedState(claims []*resourceapi.ResourceClaim) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
			switch {
			case ptr.Deref(result.AdminAccess, false):
			case result.ShareID != nil:
				state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, result.ShareID))
				if result.ConsumedCapacity != nil {
					state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
				}
			default:
				state.AllocatedDevices.Insert(id)
			}
		}
	}
	return state
}

func evaluate(ctx context.Context, q question) answer {
	compiled := cel.GetCompiler(celFeatures).CompileCELExpression(*q.Expression, cel.Options{DisableCostEstimation: true})
	if compiled.Error != nil {
		return answer{Error: compiled.Error.Error(), Stage: "compile"}
	}
	matches, _, err := compiled.DeviceMatches(ctx, cel.Device{
		Driver:                   q.Driver,
		AllowMultipleAllocations: q.Device.AllowMultipleAllocations,
		Attributes:               q.Device.Attributes,
		Capacity:                 q.Device.Capacity,
	})
	if err != nil {
		return answer{Error: err.Error(), Stage: "run"}
	}
	return answer{Matches: &matches}
}

func allocate(ctx context.Context, q question) answer {
	allocator, err := structured.NewAllocator(ctx, features, allocatedState(q.Allocated), classes(q.Classes), q.Slices, celCache)
	if err != nil {
		return answer{Error: err.Error()}
	}
	allocations, err := allocator.Allocate(ctx, q.Node, q.Claims)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Allocations: allocations}
}

func main() {
	ctx := context.Background()
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	decoder := json.NewDecoder(lines)
	for decoder.More() {
		var q question
		if err := decoder.Decode(&q); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		result := answer{}
		if q.Expression != nil {
			result = evaluate(ctx, q)
		} else {
			result = allocate(ctx, q)
		}
		if err := out.Encode(result); err != nil {
			os.Exit(1)
		}
	}
}
