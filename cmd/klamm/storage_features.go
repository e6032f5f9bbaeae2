package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/klamm/klamm/metadata/feature"
	"github.com/klamm/klamm/metadata/record"
)

// parseRelease reads --release-version; the latest for none.
func parseRelease(name string) (feature.Level, error) {
	if name == "" {
		return feature.Latest, nil
	}
	level, ok := feature.ParseRelease(name)
	if !ok {
		return 0, usagef("Unknown metadata.version '%s'. Supported metadata.version are: %s", name, strings.Join(feature.Releases(), ", "))
	}
	return level, nil
}

// parseFeatures reads --release-version and --feature: every feature with its
// level, those that are not named with the release's.
func parseFeatures(release string, args []string) (map[string]int16, error) {
	at, err := parseRelease(release)
	if err != nil {
		return nil, err
	}
	named := make(map[string]int16)
	for _, arg := range args {
		name, text, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, usagef("Can't parse feature=level string %s: equals sign not found.", arg)
		}
		level, err := strconv.ParseInt(strings.TrimSpace(text), 10, 16)
		if err != nil {
			return nil, usagef("Can't parse feature=level string %s: unable to parse %s as a short.", arg, text)
		}
		name = strings.TrimSpace(name)
		if err := checkFeature(name, int16(level)); err != nil {
			return nil, err
		}
		named[name] = int16(level)
	}
	if level, ok := named[feature.MetadataVersion]; ok {
		if release != "" {
			return nil, usagef("Use --release-version instead of --feature metadata.version=X to avoid ambiguity.")
		}
		at = feature.Level(level)
	}
	levels := make(map[string]int16)
	for _, f := range feature.All() {
		levels[f.Name] = f.Default(at)
	}
	// Where the voters are says which one it is (setQuorum).
	delete(levels, feature.KRaftVersion)
	for name, level := range named {
		levels[name] = level
	}
	return levels, nil
}

// checkFeature tells whether there is such a level of such a feature.
func checkFeature(name string, level int16) error {
	f, ok := feature.Find(name)
	switch {
	case !ok:
		var names []string
		for _, f := range feature.All() {
			names = append(names, f.Name)
		}
		return usagef("Unsupported feature: %s. Supported features are: %s", name, strings.Join(names, ", "))
	case level >= f.Min && level <= f.Max:
		return nil
	case name == feature.MetadataVersion:
		return usagef("No MetadataVersion with feature level %d. Valid feature levels are from %d to %d.", level, f.Min, f.Max)
	}
	return usagef("No feature:%s with feature level %d; valid is %d to %d", name, level, f.Min, f.Max)
}

// setFeatures makes the records of the levels: metadata.version, then by name;
// level 0 means that a feature is off and needs none.
func (p *formatPlan) setFeatures(levels map[string]int16, logDirs int) error {
	if level, ok := levels[feature.KRaftVersion]; ok && level != p.quorum.Version {
		if level > 0 {
			return usagef("Cannot set kraft.version to %d unless controller.quorum.voters is empty and one of the flags --standalone, --initial-controllers, or --no-initial-controllers is used. "+
				"For dynamic controllers support, try using one of --standalone, --initial-controllers, or --no-initial-controllers and removing controller.quorum.voters.", level)
		}
		return usagef("Cannot set kraft.version to %d if controller.quorum.voters is empty and one of the flags --standalone, --initial-controllers, or --no-initial-controllers is used. "+
			"For dynamic controllers support, try removing the --feature flag for kraft.version.", level)
	}
	p.level = feature.Level(levels[feature.MetadataVersion])
	if logDirs > 1 && !p.level.HasDirectories() {
		return usagef("Multiple log directories (aka JBOD) are not supported in the current MetadataVersion %s. Need 3.7-IV2 or higher", p.level)
	}
	for _, f := range feature.All() {
		level := levels[f.Name]
		if needed := f.Needs(level); needed > p.level {
			return usagef("%s could not be set to %d because it depends on metadata.version level %d", f.Name, level, needed)
		}
		if level > 0 && f.Name != feature.KRaftVersion {
			p.records = append(p.records, &record.FeatureLevel{Name: f.Name, Level: level})
		}
	}
	slices.SortStableFunc(p.records, func(a, b record.Record) int {
		last := func(r record.Record) int {
			if r.(*record.FeatureLevel).Name == feature.MetadataVersion {
				return 0
			}
			return 1
		}
		return cmp.Compare(last(a), last(b))
	})
	return nil
}

func newVersionMappingCommand() *cobra.Command {
	var release string
	cmd := &cobra.Command{
		Use:   "version-mapping",
		Short: "Say which features a release begins with",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := parseRelease(release)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "%s=%d (%s)\n", feature.MetadataVersion, at, at)
			for _, f := range feature.All() {
				if f.Name != feature.MetadataVersion {
					fmt.Fprintf(out, "%s=%d\n", f.Name, f.Default(at))
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&release, "release-version", "r", "", "the release (default "+feature.Latest.String()+")")
	return cmd
}

func newFeatureDependenciesCommand() *cobra.Command {
	var args []string
	cmd := &cobra.Command{
		Use:   "feature-dependencies -f FEATURE=LEVEL",
		Short: "Say which metadata.version a level of a feature needs",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(args) == 0 {
				return usagef("%s needs --feature", cmd.CommandPath())
			}
			for _, arg := range args {
				name, text, ok := strings.Cut(arg, "=")
				if !ok {
					return usagef("Invalid feature format: %s. Expected format: 'feature=version' (e.g. 'group.version=1')", arg)
				}
				level, err := strconv.ParseInt(text, 10, 16)
				if err != nil {
					return usagef("Invalid version format: %s for feature %s", text, name)
				}
				if err := checkFeature(name, int16(level)); err != nil {
					return err
				}
				if name == feature.MetadataVersion {
					arg += fmt.Sprintf(" (%s)", feature.Level(level))
				}
				out := cmd.OutOrStdout()
				f, _ := feature.Find(name)
				if needed := f.Needs(int16(level)); needed > 0 {
					fmt.Fprintf(out, "%s requires:\n    %s=%d (%s)\n", arg, feature.MetadataVersion, needed, needed)
				} else {
					fmt.Fprintf(out, "%s has no dependencies.\n", arg)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVarP(&args, "feature", "f", nil, "FEATURE=LEVEL (repeat for more)")
	return cmd
}
