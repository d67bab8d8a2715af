package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// Version is settings with who applied them, and when.
type Version struct {
	Settings
	By string    `json:"by,omitempty"`
	At time.Time `json:"at,omitzero"`
}

// State is what a gateway has of the lab. The zero value is what it begins with.
type State struct {
	Applied Version   `json:"applied"`          // over the file
	Before  []Version `json:"before,omitempty"` // what was applied before, the newest first
	Shadow  *Version  `json:"shadow,omitempty"` // what is looked at and not applied
}

const (
	maxBefore = 20
	maxState  = 64 << 20 // bytes of the file
	stateFile = "lab.json"
	version   = 1 // of the file; files from before it was written down have none, and are of the first one
)

// stored is the state as the file has it.
type stored struct {
	Version int `json:"version"`
	State
}

// Dir is where the lab of a data directory keeps what it has.
func Dir(dataDir string) string { return filepath.Join(dataDir, "lab") }

// Load reads the state; the zero one if there is none.
func Load(dataDir string) (s State, err error) {
	name := filepath.Join(Dir(dataDir), stateFile)
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) { // what the data directory lacks is said by whoever needs it
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("lab: %w", err)
	}
	defer f.Close()
	var found stored
	data, err := io.ReadAll(io.LimitReader(f, maxState+1))
	if err == nil {
		err = json.Unmarshal(data, &found)
	}
	if err == nil && found.Version > version {
		err = fmt.Errorf("it is of version %d, and this program knows %d; run the version that wrote it", found.Version, version)
	}
	if err != nil {
		return s, fmt.Errorf("lab: %s can't be read (%w); remove it, and the settings are those of the configuration's file again", name, err)
	}
	return found.State, nil
}

// ErrBusy is returned while another rehearsal is under way.
var ErrBusy = errors.New("another rehearsal is under way")

// WriteCards writes the cards that the state puts into use.
func (s *State) WriteCards(dataDir string) error {
	err := s.Applied.writeCard(Dir(dataDir))
	if err == nil && s.Shadow != nil {
		err = s.Shadow.writeCard(Dir(dataDir))
	}
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	return nil
}

// Save writes the state, and removes cards that nothing refers to.
func (s *State) Save(dataDir string) error {
	dir := Dir(dataDir)
	text, err := json.MarshalIndent(stored{version, *s}, "", " ")
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	if err := write(filepath.Join(dir, stateFile), text); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	used := []string{s.Applied.modelFile(dir)}
	for i := range s.Before {
		used = append(used, s.Before[i].modelFile(dir))
	}
	if s.Shadow != nil {
		used = append(used, s.Shadow.modelFile(dir))
	}
	cards, _ := filepath.Glob(filepath.Join(dir, "card-*.yaml")) // the pattern is right
	for _, name := range cards {
		if !slices.Contains(used, name) {
			_ = os.Remove(name) // it harms nobody
		}
	}
	return nil
}

// write replaces a file as a whole.
func write(name string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".lab-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone if it was renamed
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// Apply returns the state with other settings in force.
func (s *State) Apply(next Settings, by string, at time.Time) State {
	out := State{Applied: Version{next, by, at.UTC()}, Shadow: s.Shadow}
	out.Before = append([]Version{s.Applied}, s.Before...)
	out.Before = out.Before[:min(len(out.Before), maxBefore)]
	return out
}

// TakeBack returns the state with what was in force before the last change; false if there was none.
func (s *State) TakeBack() (State, bool) {
	if len(s.Before) == 0 {
		return *s, false
	}
	return State{Applied: s.Before[0], Before: slices.Clone(s.Before[1:]), Shadow: s.Shadow}, true
}

// Over writes what is applied into the values of a configuration, and names the model that is looked at.
func (s *State) Over(values map[string]any, dataDir string) {
	dir := Dir(dataDir)
	s.Applied.Over(values, dir)
	if s.Shadow != nil {
		if model := s.Shadow.modelFile(dir); model != "" {
			set(section(values, "formula"), "shadow", model)
		}
	}
}

func sortedNames(m map[string]Service) []string { return slices.Sorted(maps.Keys(m)) }
