//! A saved copy of what describes a machine stands for the machine.

use crate::support::fake_sys::FakeSys;
use crate::support::{MACHINES, machine, temporary_folder};
use soft_domain::host::sysfs::{SaveError, read_topology, save_topology};
use soft_domain::topology::Topology;
use std::path::Path;

/// The tree of `root`, with assumptions that name paths below it made comparable.
fn tree(root: &Path) -> String {
    let t = read_topology(root).unwrap_or_else(|e| panic!("{e}"));
    let text = format!("{t}{:?}", t.assumptions());
    text.replace(&format!("{}/sys/devices", root.display()), "DEVICES")
        .replace(&format!("{}/devices", root.display()), "DEVICES")
}

#[test]
fn a_saved_copy_gives_the_tree_of_the_machine() {
    for name in MACHINES {
        let m = machine(name);
        let dir = temporary_folder();
        // A folder that is not there yet.
        let copy = dir.path().join("a/copy");
        let (topology, files) = save_topology(&m.root, &copy).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(tree(&copy), tree(&m.root), "{name}");
        assert!(files > topology.nr_cpus(), "{name}: {files} files");
    }
}

#[test]
fn a_saved_copy_has_nothing_that_the_reader_does_not_read() {
    let sys = FakeSys::of(&Topology::grid(1, 2, 2, 1));
    sys.cpu("cpu0/microcode/version", "0xb000040");
    sys.cpu("vulnerabilities/meltdown", "Not affected");
    let copy = temporary_folder();
    save_topology(sys.root(), copy.path()).unwrap();
    let cpu = copy.path().join("devices/system/cpu");
    assert!(cpu.join("online").exists() && !cpu.join("vulnerabilities").exists());
    assert!(cpu.join("cpu0/topology").exists() && !cpu.join("cpu0/microcode").exists());
}

#[test]
fn cpus_that_are_offline_are_in_a_saved_copy_too() {
    let sys = FakeSys::of(&Topology::grid(1, 1, 4, 1));
    sys.cpu("online", "0-1,3");
    let copy = temporary_folder();
    save_topology(sys.root(), copy.path()).unwrap();
    assert_eq!(tree(copy.path()), tree(sys.root()));
    assert!(tree(copy.path()).contains("CPUs 2 are offline"));
}

#[test]
fn a_folder_that_holds_something_is_left_alone() {
    let sys = FakeSys::of(&Topology::grid(1, 1, 1, 1));
    let full = temporary_folder();
    std::fs::write(full.path().join("mine"), "mine").unwrap();
    let refused = save_topology(sys.root(), full.path()).unwrap_err();
    assert!(matches!(refused, SaveError::NotEmpty(_)) && refused.to_string().contains("name a new folder"));
    let file = full.path().join("mine");
    let refused = save_topology(sys.root(), &file).unwrap_err().to_string();
    assert!(refused.contains("mine cannot be written") && !refused.contains('\n'), "{refused}");
    assert_eq!(std::fs::read_dir(full.path()).unwrap().count(), 1);
    assert_eq!(std::fs::read_to_string(file).unwrap(), "mine");
}
