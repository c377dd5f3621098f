use super::*;
use crate::ids::MS;
use proptest::prelude::*;

fn parse(args: &[&str]) -> Result<Options, String> {
    let args = std::iter::once("scx_soft_domain").chain(args.iter().copied()).map(OsString::from);
    match Options::parse(args, "1.2.3 (commit)") {
        Ok(Parsed::Options(options)) => Ok(*options),
        Ok(Parsed::Text(text)) => Err(text),
        Err(failure) => {
            assert_eq!(failure.exit, Exit::Usage);
            assert!(!failure.text.contains('\n'), "{failure}");
            Err(failure.text)
        }
    }
}

fn refused(args: &[&str], text: &str) {
    match parse(args) {
        Ok(_) => panic!("{args:?} is taken"),
        Err(e) => assert!(e.contains(text), "{args:?}: {e}"),
    }
}

#[test]
fn clap_finds_no_fault_in_the_definition() {
    Options::command().debug_assert();
}

#[test]
fn nothing_given_means_the_defaults() {
    let options = parse(&[]).unwrap();
    assert_eq!(options.limits().unwrap(), Limits::default());
    assert_eq!(options.level, Level::Cpu);
    assert!(options.services.is_empty() && !options.partial && options.command.is_none());
}

#[test]
fn the_short_and_the_long_names_that_users_know_work() {
    for args in [
        ["-P", "a", "-P", "b*", "-l", "llc", "-s", "4000", "-S", "300", "-p", "-v"].as_slice(),
        &[
            "--process=a",
            "--process",
            "b*",
            "--level=LLC",
            "--slice-us=4000",
            "--slice-us-min",
            "300",
            "--partial",
            "--verbose",
        ],
    ] {
        let options = parse(args).unwrap();
        let limits = options.limits().unwrap();
        assert_eq!(options.services.iter().map(Pattern::text).collect::<Vec<_>>(), ["a", "b*"]);
        assert_eq!((options.level, options.partial, options.verbose), (Level::Llc, true, 1));
        assert_eq!((limits.slice_ns, limits.slice_min_ns), (4 * MS, 300_000));
    }
}

#[test]
fn the_dispatcher_gets_the_same_options_as_the_host() {
    let options = parse(&["-P", "a", "--limit", "lag=3ms", "-p", "dispatch", "--channel-fd", "7"]).unwrap();
    assert_eq!(options.limits().unwrap().lag_ns, 3 * MS);
    assert!(options.partial && matches!(options.command, Some(Command::Dispatch { channel_fd: 7, record_fd: None })));
}

#[test]
fn bad_values_are_refused_with_cause_and_remedy() {
    refused(&["-s", "fast"], "give a whole number of microseconds from 50 to 1000000");
    refused(&["-s", "-5"], "give a whole number");
    refused(&["-S", "0"], "give a whole number");
    refused(&["-s", "99999999999999999999999"], "give a whole number");
    refused(&["-S", "6000"], "the shortest slice (6000 us) is longer than the slice (5000 us): lower -S or raise -s");
    refused(&["-s", "100", "--limit", "slice-min=400us"], "is longer than");
    refused(&["-l", "socket"], "use node, llc, cluster, core or cpu");
    refused(&["-P", ""], "a name cannot be empty");
    refused(&["-P", "a-name-that-is-longer-than-any-name"], "shorten it with a *");
    refused(&["-P"], "a value is required");
    refused(&["--policy", "best"], "there is no such policy: use soft-domain or fifo");
    refused(&["--exit-dump-len", "-1"], "-1 is not in 0..=16777216");
    refused(&["--partial"], "name at least one with -P NAME");
    refused(&["--primary-domain", "0-3"], "unexpected argument '--primary-domain'");
    refused(&["--levle", "cpu"], "'--level'");
    refused(&["explain"], "unrecognized subcommand");
    refused(&["check", "--sysroot"], "a value is required");
}

#[test]
fn a_short_slice_takes_the_default_minimum_with_it() {
    let limits = parse(&["-s", "200"]).unwrap().limits().unwrap();
    assert_eq!((limits.slice_ns, limits.slice_min_ns), (200_000, 200_000));
}

#[test]
fn limits_have_units() {
    let limit = |text: &str| parse(&["--limit", text]).map(|o| o.limits().unwrap());
    assert_eq!(limit("age-bound=1.5s").unwrap().age_bound_ns, 1500 * MS);
    assert_eq!(limit("spill-llc=700us").unwrap().spill_llc_ns, 700_000);
    assert_eq!(limit("spill-llc=0").unwrap().spill_llc_ns, 0);
    assert_eq!(limit("home-margin=25%").unwrap().home_margin, 256);
    for (text, why) in [
        ("age-bound", "write NAME=VALUE"),
        ("bound=1s", "there is no limit 'bound': --help-limits lists them"),
        ("age-bound=20", "with its unit, from 10ms to 60s"),
        ("age-bound=1ms", "from 10ms"),
        ("age-bound=-1s", "from 10ms"),
        ("age-bound=1e300s", "from 10ms"),
        ("age-bound=NaNs", "from 10ms"),
        ("lag=5m", "500us, 20ms, 1.5s"),
        ("home-margin=20", "a share of one CPU from 0% to 100%"),
        ("home-margin=101%", "from 0% to 100%"),
        ("home-margin=-1%", "from 0% to 100%"),
    ] {
        refused(&["--limit", text], why);
    }
}

proptest! {
    #[test]
    fn any_words_are_taken_or_refused_in_one_line(
        option in prop_oneof![Just("--limit"), Just("-P"), Just("-s"), Just("-l"), Just("--exit-dump-len"), Just("--")],
        word in prop_oneof![".*", "[a-z-]{0,20}=[-0-9.e]{0,20}[a-z%]{0,3}", "(age-bound|lag|llc-free)=[-0-9.e]{0,9}[um]?[s%]"]
    ) {
        if let Ok(options) = parse(&[option, &word]) {
            let limits = options.limits().unwrap();
            prop_assert!(limits.age_bound_ns <= 60_000 * MS && limits.llc_free <= 1024);
            prop_assert!(!options.in_force().chars().any(|c| c.is_control() && c != '\n'));
        }
    }
}

#[test]
fn every_limit_can_be_set_and_is_shown_when_it_differs() {
    // A new field does not compile here until it has a name on the command line.
    let Limits {
        slice_ns: _,
        slice_min_ns: _,
        lag_ns: _,
        age_bound_ns: _,
        load_half_life_ns: _,
        home_margin: _,
        home_crowded_ns: _,
        home_settle_ns: _,
        spill_llc_ns: _,
        spill_node_ns: _,
        llc_left: _,
        llc_taken_ns: _,
        llc_free: _,
        llc_free_ns: _,
    } = Limits::default();
    let mut seen = vec![Limits::default()];
    for line in help_limits().lines().skip(3) {
        let name = line.split_whitespace().next().unwrap();
        let value = match (name, line.split_whitespace().nth(1).unwrap().ends_with('%')) {
            ("slice-min", _) => "3500us",
            (_, true) => "33%",
            (_, false) => "77ms",
        };
        let setting = format!("{name}={value}");
        let options = parse(&["--limit", &setting]).unwrap();
        let limits = options.limits().unwrap();
        assert!(!seen.contains(&limits), "{setting} changes nothing of its own");
        seen.push(limits);
        assert!(name.starts_with("slice") || options.in_force().contains(&setting), "{}", options.in_force());
    }
    assert_eq!(seen.len(), 15);
}

#[test]
fn help_and_version_are_no_errors_and_complete() {
    let Err(help) = parse(&["--help"]) else { panic!("help is text") };
    for text in ["Examples:", "Exit codes:", "  5  another sched_ext", "--partial", "check", "soft-domain"] {
        assert!(help.contains(text), "{text}: {help}");
    }
    assert!(!help.contains("dispatch "), "{help}");
    let Err(version) = parse(&["-V"]) else { panic!("version is text") };
    assert!(version.contains("scx_soft_domain 1.2.3 (commit)"), "{version}");
}
