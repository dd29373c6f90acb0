package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/stanchion-locks/stanchion/tenants"
)

// The environment variables of all commands that speak to a cluster.
const (
	envEndpoints = "STANCHION_ENDPOINTS"
	envAPIKey    = "STANCHION_API_KEY"
	envCAFile    = "STANCHION_CA_FILE"
	envProfile   = "STANCHION_PROFILE"
)

// setting is one value that says how to reach a cluster, and where it came from.
type setting struct {
	value  string
	source string // the flag, the variable, or the profile; empty: it is not set
}

// settings are in effect for one command.
type settings struct {
	file      string // the profile file, whether or not it exists; empty: there is no place for one
	profile   string // the profile in effect; empty: none
	endpoints setting
	apiKey    setting
	keyFile   string // where the API key was read from; empty: it was given itself
	caFile    setting
}

// settings finds what is in effect, each value by itself: a flag, then the profile that --profile names, then the environment, then
// the profile that STANCHION_PROFILE names, or else the one called default. What nobody gives is empty.
func (o *clientOptions) settings() (settings, error) {
	file, err := readProfiles(profilePath())
	if err != nil {
		return settings{}, err
	}
	name, by := o.named()
	one, chosen, err := file.choose(name, by)
	if err != nil {
		return settings{}, err
	}
	s := settings{file: file.path, profile: chosen}
	from := func(value string) setting { return setting{value, fmt.Sprintf("profile %s in %s", chosen, file.path)} }
	s.endpoints = o.first(setting{o.endpoints, "--endpoints"}, from(strings.Join(one.Endpoints, ",")), variable(envEndpoints))
	s.caFile = o.first(setting{o.caFile, "--ca-file"}, from(one.CAFile), variable(envCAFile))
	inProfile := from(one.APIKey)
	if one.APIKeyFile != "" {
		inProfile.value = one.APIKeyFile
	}
	s.apiKey = o.first(setting{o.keyFile, "--api-key-file"}, inProfile, variable(envAPIKey))
	if s.apiKey.source == "--api-key-file" || s.apiKey.source == inProfile.source && one.APIKeyFile != "" {
		err = s.readKey()
	}
	return s, err
}

// named is the profile that was asked for, and what asked for it.
func (o *clientOptions) named() (name, by string) {
	if o.profile != "" {
		return o.profile, "--profile"
	}
	return os.Getenv(envProfile), envProfile
}

// variable is the value of one variable.
func variable(name string) setting { return setting{os.Getenv(name), name} }

// first is the first value that is set. A profile that was named on the command line comes before the environment, any other
// after it.
func (o *clientOptions) first(flag, profile, environment setting) setting {
	order := []setting{flag, environment, profile}
	if o.profile != "" {
		order = []setting{flag, profile, environment}
	}
	for _, s := range order {
		if s.value != "" {
			return s
		}
	}
	return setting{}
}

// readKey puts the API key in the place of the name of its file.
func (s *settings) readKey() error {
	s.keyFile = s.apiKey.value
	raw, err := os.ReadFile(s.keyFile)
	if err != nil {
		return fmt.Errorf("read API key: %w", err)
	}
	s.apiKey.value = strings.TrimSpace(string(raw))
	if s.apiKey.value == "" {
		return withRemedy(fmt.Errorf("read API key: %s is empty", s.keyFile), "write the API key into it, or name another file with --api-key-file")
	}
	return nil
}

// shownKey is the API key without its secret.
func (s *settings) shownKey() string {
	if s.apiKey.value == "" {
		return ""
	}
	credential, err := tenants.ParseCredential(s.apiKey.value)
	if err != nil {
		return "[not of the form of an API key]"
	}
	return credential.String()
}

// tls is how to speak to https endpoints: trusting the named authorities alone, or, nil, those of the machine.
func (s *settings) tls() (*tls.Config, error) {
	if s.caFile.value == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(s.caFile.value)
	if err != nil {
		return nil, fmt.Errorf("read the authorities' certificates, named by %s: %w", s.caFile.source, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(raw) {
		return nil, withRemedy(fmt.Errorf("%s, named by %s: %w", s.caFile.value, s.caFile.source, errNoCertificate),
			"give the file that holds the authority's certificate, which begins with -----BEGIN CERTIFICATE-----")
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}

var errNoCertificate = errors.New("there is no certificate in PEM in it")
