package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"antirobot/problem"
)

// Sources says where a configuration comes from. A flag overrides an environment variable, which overrides the
// file; a list is replaced as a whole.
type Sources struct {
	File        string                 // YAML; empty: none
	Values      map[string]any         // in the place of a file
	Pushed      map[string]any         // over the file: what all gateways take from the store
	Environment bool                   // read the variables of VariableOf
	Flags       map[string]*pflag.Flag // by the key that each sets; one that was not given says nothing
}

// Origin says which source a key has its value from, where that is not the file.
type Origin struct {
	Key  string
	By   string   // the variable or the flag
	Over []string // the sources below that have the key too
	typ  reflect.Type
}

func (o Origin) String() string {
	if len(o.Over) == 0 {
		return o.Key + " is set by " + o.By
	}
	return o.Key + " is set by " + o.By + ", over " + strings.Join(o.Over, " and ")
}

// The keys of viper are ours with another delimiter, since names that users choose may have dots.
const keyDelimiter = "::"

func viperKey(key string) string { return strings.ReplaceAll(key, ".", keyDelimiter) }

// variablePrefix is what the names of variables begin with.
const variablePrefix = "ANTIROBOT"

const fileVariable = variablePrefix + "_CONFIG"

// VariableOf returns the variable of the environment that sets a key: admin.listen is ANTIROBOT_ADMIN_LISTEN.
func VariableOf(key string) string {
	return variablePrefix + "_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// SearchPath are the files that are looked for in turn where none is named. Only these names count: viper's own search
// would take a file without an ending too, and `antirobot` is the program.
var SearchPath = []string{"./antirobot.yaml", "/etc/antirobot/antirobot.yaml"}

// Find returns the file that is meant: the one named, else that of the environment, else the first of SearchPath that
// exists, else none.
func Find(named string) (string, error) {
	if named != "" {
		return named, nil
	}
	if file := os.Getenv(fileVariable); file != "" {
		return file, nil
	}
	for _, file := range SearchPath {
		switch _, err := os.Stat(file); {
		case err == nil:
			return file, nil
		case !errors.Is(err, os.ErrNotExist):
			return "", fmt.Errorf("configuration: %w", err)
		}
	}
	return "", nil
}

// Read returns the whole configuration, or every error in it with its path and where it stands.
func (s *Sources) Read() (*Config, error) {
	d := &document{settings: s.Values}
	if s.File != "" {
		data, err := readBounded(s.File)
		if err != nil {
			return nil, fmt.Errorf("configuration: %w", err)
		}
		if d, err = parseDocument(data); err != nil {
			return nil, &Error{File: s.File, Problems: problem.Lines(err)}
		}
	}
	cfg, problems := s.assemble(d, nil)
	switch {
	case len(problems) == 0:
		cfg.File = s.File
		return cfg, nil
	case s.File == "":
		return nil, problemsAt("", problems)
	}
	return nil, &Error{File: s.File, Problems: problems}
}

// ReadOver is Read with pushed values over the file.
func (s *Sources) ReadOver(pushed map[string]any) (*Config, error) {
	with := *s
	with.Pushed = pushed
	return with.Read()
}

// assemble overlays the sources in order of precedence and decodes the result.
func (s *Sources) assemble(d *document, override func(*Config)) (*Config, []string) {
	d.findNulls(d.root, reflect.TypeFor[Config](), "")
	v := viper.NewWithOptions(viper.KeyDelimiter(keyDelimiter),
		viper.EnvKeyReplacer(strings.NewReplacer(keyDelimiter, "_")))
	v.SetEnvPrefix(variablePrefix)
	if err := v.MergeConfigMap(d.settings); err != nil {
		return nil, problem.Lines(err)
	}
	if err := v.MergeConfigMap(withoutNulls(s.Pushed)); err != nil {
		return nil, problem.Lines(err)
	}
	origins, err := s.bind(v)
	if err != nil {
		return nil, problem.Lines(err)
	}
	values := v.AllSettings()
	unread := readTexts(values, origins)
	cfg, err := decode(values, func(c *Config) {
		if override != nil {
			override(c)
		}
		s.replaceOthers(c)
	})
	problems := problem.Lines(errors.Join(errors.Join(d.problems...), unread))
	problems = append(problems, withoutBelow(problem.Lines(err), problem.Lines(unread))...)
	if len(problems) > 0 {
		return nil, d.inOrder(problems, origins)
	}
	cfg.Origins, cfg.environment = origins, s.Environment
	return cfg, nil
}

// bind gives viper the flags that were given and the variable of each key, and says which keys are set by one of them.
func (s *Sources) bind(v *viper.Viper) ([]Origin, error) {
	var origins []Origin
	for _, k := range leaves(reflect.TypeFor[Config](), "") {
		o := Origin{Key: k.name, typ: k.typ}
		if v.InConfig(viperKey(k.name)) {
			o.Over = []string{"the file"}
		}
		if s.Environment {
			if err := v.BindEnv(viperKey(k.name)); err != nil {
				return nil, err
			}
			if os.Getenv(VariableOf(k.name)) != "" {
				o.By = VariableOf(k.name)
			}
		}
		if f := s.Flags[k.name]; f != nil && f.Changed {
			if err := v.BindPFlag(viperKey(k.name), f); err != nil {
				return nil, err
			}
			if o.By != "" {
				o.Over = append([]string{o.By}, o.Over...)
			}
			o.By = "--" + f.Name
		}
		if o.By != "" {
			origins = append(origins, o)
		}
	}
	return origins, nil
}

// leaves returns the keys below a section that have a value of their own: sections are looked into, lists are not.
func leaves(section reflect.Type, path string) []key {
	var out []key
	for _, k := range keysOf(section) {
		k.name = problem.Below(path, k.name)
		if isSection(k.typ) {
			out = append(out, leaves(k.typ, k.name)...)
		} else if !slices.Contains([]string{"defaults.name", "defaults.hosts", "defaults.prefixes"}, k.name) {
			out = append(out, k)
		}
	}
	return out
}

// replaceOthers takes away what a flag stands in the place of beside its own key: the addresses of the command line are
// for all services, and a secret has one place.
func (s *Sources) replaceOthers(c *Config) {
	if f := s.Flags["defaults.upstream.urls"]; f != nil && f.Changed {
		if urls, ok := f.Value.(pflag.SliceValue); ok {
			c.OverrideUpstreams(urls.GetSlice())
		}
	}
	if f := s.Flags["keys.secret_file"]; f != nil && f.Changed {
		c.Keys.SecretEnv = ""
	}
}

// ownKeys are the keys that each gateway sets for itself, in addition to those that need a restart.
var ownKeys = []string{"listen", "keys"}

// CheckPushed returns which values of a pushed configuration can't be pushed, each with its path: what takes effect at
// start only, a gateway's own keys, and unknown ones.
func CheckPushed(values map[string]any) error {
	var errs []error
	var look func(values map[string]any, path string)
	look = func(values map[string]any, path string) {
		for name, v := range values {
			at := problem.Below(path, strings.ToLower(name))
			if len(below([]string{at}, slices.Concat(restartKeys, ownKeys))) > 0 {
				errs = append(errs, fmt.Errorf("%s: is of each gateway's own file, and can't be pushed", at))
			} else if section, ok := v.(map[string]any); ok && at != "defaults" {
				look(section, at)
			}
		}
	}
	look(values, "")
	if len(errs) == 0 { // before merging: a merge drops empty sections, misspelt ones too
		cfg := Default()
		return overlay(values, &cfg, "")
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}
