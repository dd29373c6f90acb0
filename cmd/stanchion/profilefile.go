package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// clientProfile is what a profile says about reaching a cluster. What it leaves out comes from elsewhere.
type clientProfile struct {
	Endpoints  []string `yaml:"endpoints"`
	APIKey     string   `yaml:"api_key"`
	APIKeyFile string   `yaml:"api_key_file"` // relative paths are taken from the profile file's folder
	CAFile     string   `yaml:"ca_file"`
}

// profileFile is the file of a person's profiles.
type profileFile struct {
	Profiles map[string]clientProfile `yaml:"profiles"`

	path string `yaml:"-"`
}

const (
	defaultProfile       = "default" // in effect where no other is named
	profileFileBytesMax  = 256 << 10
	othersMayRead        = 0o077
	profileFileInFolder  = "stanchion/profiles.yaml"
	profileFileMissing   = "make the file %s with 'profiles:' and under it the name, with endpoints, api_key_file and ca_file"
	profileRemedyPrivate = "run: chmod 600 %s"
)

// profilePath is where the profile file is. Empty: this user has no place for one.
func profilePath() string {
	if folder := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(folder) {
		return filepath.Join(folder, profileFileInFolder)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".config", profileFileInFolder)
}

// readProfiles reads the profile file. One that is not there has no profiles. Unknown fields, fields given twice, and an API key
// that others may read are errors.
func readProfiles(path string) (profileFile, error) {
	file := profileFile{path: path}
	if path == "" {
		return file, nil
	}
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission) && !isThere(path):
		return file, nil
	case err != nil:
		return file, fmt.Errorf("read profiles: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, profileFileBytesMax+1))
	switch {
	case err != nil:
		return file, fmt.Errorf("read profiles: %w", err)
	case len(raw) > profileFileBytesMax:
		return file, fmt.Errorf("read profiles %s: larger than %d bytes", path, profileFileBytesMax)
	case len(strings.TrimSpace(string(raw))) == 0:
		return file, nil
	}
	if err := yaml.Load(raw, &file, yaml.WithV4Defaults(), yaml.WithKnownFields()); err != nil {
		return file, withRemedy(fmt.Errorf("read profiles %s: %w", path, err),
			"mend the file; a profile has endpoints, api_key or api_key_file, and ca_file")
	}
	return file, file.check(f)
}

// isThere reports whether a file exists that this user may know of.
func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// check finds what no profile may say, and makes paths whole.
func (p *profileFile) check(f *os.File) error {
	for _, name := range p.names() {
		one := p.Profiles[name]
		switch {
		case one.APIKey != "" && one.APIKeyFile != "":
			return withRemedy(fmt.Errorf("profile %q in %s has both api_key and api_key_file", name, p.path), "take one of them out")
		case one.APIKey != "":
			if err := readByOwnerAlone(f); err != nil {
				return err
			}
		}
		one.APIKeyFile, one.CAFile = p.resolve(one.APIKeyFile), p.resolve(one.CAFile)
		p.Profiles[name] = one
	}
	return nil
}

// readByOwnerAlone refuses a file with a secret in it that others may read.
func readByOwnerAlone(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("read profiles: %w", err)
	}
	if mode := info.Mode().Perm(); mode&othersMayRead != 0 {
		return withRemedy(fmt.Errorf("the profile file %s has an API key in it and others may read it: its mode is %04o", f.Name(), mode),
			fmt.Sprintf(profileRemedyPrivate, f.Name()))
	}
	return nil
}

// resolve makes a path of the file whole: ~ is the home folder, and other relative ones begin at the file's own folder.
func (p *profileFile) resolve(path string) string {
	if rest, atHome := strings.CutPrefix(path, "~/"); atHome {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(p.path), path)
}

// names are the profiles' names in the order of the alphabet.
func (p *profileFile) names() []string { return slices.Sorted(maps.Keys(p.Profiles)) }

// choose finds the profile of that name; by is the flag or the variable that named it. Without a name it is the default
// profile, if there is one.
func (p *profileFile) choose(name, by string) (clientProfile, string, error) {
	if name == "" {
		one, ok := p.Profiles[defaultProfile]
		if !ok {
			return clientProfile{}, "", nil
		}
		return one, defaultProfile, nil
	}
	one, ok := p.Profiles[name]
	switch {
	case ok:
		return one, name, nil
	case len(p.Profiles) == 0:
		return one, "", withRemedy(fmt.Errorf("%w: %s names the profile %s, and there are none", errUsage, by, visible(name)),
			fmt.Sprintf(profileFileMissing, p.path))
	}
	return one, "", withRemedy(fmt.Errorf("%w: %s names the profile %s, which is not in %s", errUsage, by, visible(name), p.path),
		"take one of "+visible(strings.Join(p.names(), ", "))+", or add it to the file")
}
