//! Why the kernel ended us, as the shim's `uei` record has it. Read after the ejection, when the machine no longer
//! needs us.

use crate::bpf::BpfScheduler;
use scx_utils::{SCX_ECODE_ACT_RESTART, ScxExitKind, UEI_DUMP_PTR_MUTEX};
use soft_domain::channel::{End, EndKind};
use std::ffi::CStr;
use std::io::Write;

/// What the kernel said; `None` if it has not ended us. Texts are not taken for UTF-8: they hold names of tasks.
pub fn read(bpf: &BpfScheduler) -> Option<End> {
    let uei = &bpf.skel.maps.data_data.as_ref()?.uei;
    // SAFETY: a valid reference; the kernel side writes the word last.
    let kind = unsafe { std::ptr::from_ref(&uei.kind).read_volatile() };
    if kind == 0 {
        return None;
    }
    let (reason, message) = (text(&uei.reason), text(&uei.msg));
    let mut words = if reason.is_empty() { format!("exit kind {kind}") } else { reason };
    if !message.is_empty() {
        words += &format!(" ({message})");
    }
    if let Ok(cpu) = u32::try_from(uei.exit_cpu) {
        words += &format!(" on CPU {cpu}");
    }
    let has_code = kind == ScxExitKind::UnregBPF as i32 || kind == ScxExitKind::UnregKern as i32;
    let kernel_code = if has_code { uei.exit_code } else { 0 };
    let restart = kernel_code as u64 & *SCX_ECODE_ACT_RESTART != 0;
    Some(End { kind: EndKind::Ejected, kernel_kind: kind, kernel_code, restart, text: words })
}

/// Prints the kernel's debug dump to standard error, if there is one. Before the object is dropped.
pub fn print_dump() {
    let Ok(dump) = UEI_DUMP_PTR_MUTEX.lock() else { return };
    if dump.ptr.is_null() {
        return;
    }
    // SAFETY: the shim's opening pointed it at the dump's memory, which lives as long as its object; the kernel side
    // ends the text with a NUL.
    let bytes = unsafe { CStr::from_ptr(dump.ptr) }.to_bytes();
    if !bytes.is_empty() {
        let _ = writeln!(std::io::stderr(), "debug dump of the kernel\n{}\n", String::from_utf8_lossy(bytes));
    }
}

fn text(chars: &[i8]) -> String {
    let bytes: Vec<u8> = chars.iter().map(|c| *c as u8).take_while(|b| *b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
