//! The memory that the two processes share, overwritten by one of them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use soft_domain::channel::Channel;

fuzz_target!(|data: &[u8]| {
    let channel = Channel::create().expect("a channel");
    // Input: an offset in units of 64 bytes, then what is written there.
    let Some(([low, high], bytes)) = data.split_first_chunk::<2>() else { return };
    let offset = u64::from(u16::from_le_bytes([*low, *high])) * 64;
    let _ = rustix::io::pwrite(channel.fd(), bytes, offset % (256 << 10));
    let _ = (channel.phase(), channel.counters(), channel.stop_requested(), channel.host());
    assert!(channel.end().is_none_or(|e| !e.text.contains('\n')));
    let _ = channel.homes();
    // As many as there may be, and a few more.
    for _ in 0..5000 {
        if channel.next_notice().is_none() {
            break;
        }
    }
});
