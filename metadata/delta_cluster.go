package metadata

import (
	"fmt"

	"github.com/klamm/klamm/metadata/record"
	"github.com/klamm/klamm/protocol"
)

func (d *Delta) putBroker(b *Broker) {
	d.brokers.Set(b)
	d.changedBrokers.add(b.ID)
}

func (d *Delta) registerBroker(r *record.RegisterBroker) {
	d.putBroker(&Broker{
		ID:                   r.BrokerID,
		IncarnationID:        r.IncarnationID,
		Epoch:                r.BrokerEpoch,
		Endpoints:            r.Endpoints,
		Features:             r.Features,
		Rack:                 r.Rack,
		Fenced:               r.Fenced,
		InControlledShutdown: r.InControlledShutdown,
		LogDirs:              r.LogDirs,
		CordonedLogDirs:      r.CordonedLogDirs,
	})
}

// registration returns a copy of a broker's registration for a change, or an
// error where the change is for another life of the broker.
func (d *Delta) registration(id protocol.NodeID, epoch protocol.BrokerEpoch) (*Broker, error) {
	b, ok := d.brokers.Get(&Broker{ID: id})
	if !ok {
		return nil, fmt.Errorf("broker %d is not registered", id)
	}
	if b.Epoch != epoch {
		return nil, fmt.Errorf("broker %d is registered with epoch %d, the record has %d", id, b.Epoch, epoch)
	}
	next := *b
	return &next, nil
}

func (d *Delta) unregisterBroker(r *record.UnregisterBroker) error {
	if _, err := d.registration(r.BrokerID, r.BrokerEpoch); err != nil {
		return err
	}
	d.brokers.Delete(&Broker{ID: r.BrokerID})
	d.changedBrokers.add(r.BrokerID)
	return nil
}

func (d *Delta) changeBroker(r *record.BrokerRegistrationChange) error {
	b, err := d.registration(r.BrokerID, r.BrokerEpoch)
	if err != nil {
		return err
	}
	switch r.Fenced {
	case 1:
		b.Fenced = true
	case -1:
		b.Fenced = false
	}
	if r.InControlledShutdown == 1 {
		b.InControlledShutdown = true
	}
	if len(r.LogDirs) > 0 {
		b.LogDirs = r.LogDirs
	}
	if r.CordonedLogDirs != nil {
		b.CordonedLogDirs = r.CordonedLogDirs
	}
	d.putBroker(b)
	return nil
}

func (d *Delta) fence(id protocol.NodeID, epoch protocol.BrokerEpoch, fenced bool) error {
	b, err := d.registration(id, epoch)
	if err != nil {
		return err
	}
	b.Fenced = fenced
	d.putBroker(b)
	return nil
}

func (d *Delta) registerController(r *record.RegisterController) {
	d.controllers.Set(&Controller{
		ID:            r.ControllerID,
		IncarnationID: r.IncarnationID,
		Endpoints:     r.Endpoints,
		Features:      r.Features,
	})
}

func (d *Delta) unregisterController(r *record.UnregisterController) error {
	if _, ok := d.controllers.Delete(&Controller{ID: r.ControllerID}); !ok {
		return fmt.Errorf("controller %d is not registered", r.ControllerID)
	}
	return nil
}

func (d *Delta) setFeature(r *record.FeatureLevel) {
	d.changedFeatures = true
	if r.Level == 0 {
		d.features.Delete(featureEntry{name: r.Name})
		return
	}
	d.features.Set(featureEntry{name: r.Name, level: r.Level})
}

// setConfig writes the resource's values anew; published ones stay as they are.
func (d *Delta) setConfig(r *record.Config) {
	res := Resource{Type: r.ResourceType, Name: r.ResourceName}
	d.changedConfigs.add(res)
	old, _ := d.configs.Get(configEntry{resource: res})
	at, found := findConfig(old.values, r.Name)
	values := make([]configValue, 0, len(old.values)+1)
	values = append(values, old.values[:at]...)
	if r.Value != nil {
		values = append(values, configValue{key: r.Name, value: *r.Value})
	}
	if found {
		at++
	}
	values = append(values, old.values[at:]...)
	if len(values) == 0 {
		d.configs.Delete(configEntry{resource: res})
		return
	}
	d.configs.Set(configEntry{resource: res, values: values})
}
