//! CPU lists and masks, as sysfs and captured copies of it have them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use soft_domain::host::cpulist::{parse_list, parse_mask};

fuzz_target!(|data: &str| {
    if let Ok(mask) = parse_list(data) {
        assert_eq!(parse_list(&mask.to_string()).ok(), Some(mask), "a list that is printed reads the same");
    }
    let _ = parse_mask(data);
});
