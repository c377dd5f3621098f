//! A whole trace file, as a foreign hand might make it. The checksums are made right: what is behind them counts.
#![no_main]

use libfuzzer_sys::fuzz_target;
use soft_domain::trace::Reader;

/// The file's magic and version, and a chunk's head, with the checksum in its last four bytes.
const START: usize = 12;
const HEAD: usize = 20;

fn mend(file: &mut [u8]) {
    let mut at = START;
    while let Some(head) = file.get(at..at + HEAD) {
        let len = u32::from_le_bytes([head[12], head[13], head[14], head[15]]) as usize;
        let Some(packed) = file.get(at + HEAD..).and_then(|rest| rest.get(..len)) else { return };
        let mut crc = crc32fast::Hasher::new();
        crc.update(&head[..HEAD - 4]);
        crc.update(packed);
        let crc = crc.finalize().to_le_bytes();
        file[at + HEAD - 4..at + HEAD].copy_from_slice(&crc);
        at += HEAD + len;
    }
}

fuzz_target!(|data: &[u8]| {
    let mut file = data.to_vec();
    mend(&mut file);
    match Reader::open(&file[..]) {
        Ok(mut reader) => while let Ok(Some(_)) = reader.step() {},
        Err(e) => assert!(!e.to_string().contains('\n')),
    }
});
