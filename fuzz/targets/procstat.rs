//! A line of /proc/PID/stat, in which the comm is any bytes that a user likes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use soft_domain::host::procstat::Stat;

fuzz_target!(|data: &[u8]| {
    if let Some(stat) = Stat::parse(data) {
        assert!(stat.comm.bytes().len() <= 31);
    }
});
